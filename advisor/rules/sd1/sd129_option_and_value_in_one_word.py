import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, replace_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue

_UNREAD = lazy_re(r"the argument '(--?[A-Za-z][\w.-]*) [^']")
_JOINED = lazy_re(r"(--?[A-Za-z][\w.-]*) \S")
# a chart or a wrapper may join the words and take them apart again
SPLIT_NOWHERE = frozenset(
    ("compose", "kubernetes", "python", "dockerfile", "systemd", "quadlet", "shell", "command")
)


@rule(
    severity="warning",
    engines=CATALOGUED,
    sources=(
        "python/cpython Lib/argparse.py (_parse_optional)",
        "ggml-org/llama.cpp common/arg.cpp (common_params_parse_ex)",
    ),
)
def option_and_value_in_one_word(case: Case) -> Iterator[Hit]:
    """A list of arguments in which one item holds an option and its value.

    Why: each item reaches the server as one argument, and no shell takes it apart: `--max-num-seqs
    4` with a space in it is no option. The server stops at it, or takes the first such item for the
    model's name.
    Bad:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            command:
              - --model=Qwen/Qwen3-8B
              - --max-num-seqs 4
    Good:
        services:
          vllm:
            image: vllm/vllm-openai:v0.25.1
            command:
              - --model=Qwen/Qwen3-8B
              - --max-num-seqs=4
    """
    launch = case.launch
    if launch is None:
        return
    texts = [f"the argument '{launch.model}'"] if launch.model else []
    named = [
        found.group(1)
        for note in (*texts, *launch.notes)
        if (found := _UNREAD.match(note)) is not None
    ]
    known = [
        name
        for name in dict.fromkeys(named)
        if catalogue(case).find(name.replace("_", "-"), None) is not None
    ]
    if known:
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        yield Hit(
            f"{', '.join(known[:3])}{more} and the value are one argument, which the server does "
            "not split",
            line=launch.line,
            severity="error"
            if (launch.form in SPLIT_NOWHERE or is_quoted(case)) and not launch.fork
            else None,
            fix=apart(case),
            sole=all(len((one.value or "").split()) == 2 for one in launch.strays),
        )


def apart(case: Case) -> Fix:
    """Each word an item of its own, where the form of the list is known."""
    what = "Pass the value as a separate item" + (
        ", or write OPTION=VALUE." if case.plan.engine != "llama-server" else "."
    )
    joined = [
        one
        for one in case.launch.strays
        if (word := _JOINED.match(one.value or "")) is not None
        and catalogue(case).find(word[1].replace("_", "-"), None) is not None
    ]
    fixes = [
        replace_fix(case, one, join_by_equals(case, one.value or ""), what, safe=False)
        for one in joined
    ]
    return Fix(text=what, edits=tuple(edit for fix in fixes for edit in fix.edits))


def join_by_equals(case: Case, word: str) -> str:
    """OPTION=VALUE where the launch writes its other options so and the engine reads it; else as it
    is, to be split.
    """
    if case.plan.engine not in GGUF_ENGINES and any(
        one.origin == "cli"
        and one.span is not None
        and one.value_span is not None
        and one.value_span.start == one.span.start + len(one.raw) + 1
        for one in case.launch.flags
    ):
        return re.sub(r"\s*=\s*|\s+", "=", word, count=1)
    return word


def is_quoted(case: Case) -> bool:
    """Whether the chart is vLLM's own, which quotes each item of extraArgs."""
    container = case.launch.container
    return container is not None and container.chart == "production-stack"
