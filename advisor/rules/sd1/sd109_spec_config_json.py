from collections.abc import Iterator

from advisor.domain.nouns import Case, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.flags import spec_config
from advisor.rules.kit.json_text import has_empty_values, mend_fix, problem

WHAT = (
    """Write it as '{"method":"mtp","num_speculative_tokens":2}': """
    "double quotes inside single ones."
)


@rule(
    severity="error",
    engines=("vllm",),
    sources=("vllm 0.19.1 to 0.33.0, parser run",),
)
def spec_config_json(case: Case) -> Iterator[Hit]:
    """The JSON of --speculative-config is broken.

    Why: the server refuses to start; quotes lost in a shell or a YAML file are the usual cause.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        "{'method':'mtp','num_speculative_tokens':2}"
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    read = spec_config(case)
    if read is not None and read.data is None and not has_empty_values(read.flag):
        yield Hit(
            f"--speculative-config is not a JSON object: {read.error}",
            flag=read.flag,
            severity="warning"
            if read.flag.value_span is None and not is_quoted(read.flag)
            else None,
            fix=mend_fix(case, read.flag, WHAT),
        )


def is_quoted(found: Flag) -> bool:
    """Whether quotes that no shell takes away stand around an object that is whole."""
    text = (found.value or "").strip()
    return text[:1] == text[-1:] == "'" and problem(text[1:-1]) is None
