import json
import shlex
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.engines.arguments.fields import depth
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, replace_fix
from advisor.rules.kit.fixes import is_release_pinned
from advisor.rules.kit.releases import between, release, version_label

NAMES = ("--spec-method", "--spec-model", "--spec-tokens")


@rule(
    severity="error",
    engines=("vllm",),
    versioned=True,
    sources=("vllm 0.22.1 parser (first with the shorthand)",),
)
def spec_shorthand_too_old(case: Case) -> Iterator[Hit]:
    """--spec-method, --spec-model or --spec-tokens with a vLLM before 0.22.1.

    Why: the shorthand is unknown there and the server refuses to start; --speculative-config works
    in every release.
    Bad (version=0.21.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --spec-method mtp --spec-tokens 2
    Good (version=0.22.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --spec-method mtp --spec-tokens 2
    """
    if between(release(case), "0.22.0", None) is not False:
        return
    for found in flags(case):
        if found.name in NAMES:
            k = flag(case, "--spec-tokens")
            tokens = k.value if k is not None and k.value and not k.unresolved else "2"
            yield Hit(
                f"vLLM {version_label(case)} has no {found.raw}: the shorthand came with 0.22.1",
                flag=found,
                fix=config_fix(case, tokens),
            )


def config_fix(case: Case, tokens: str) -> Fix:
    """The shorthand's options as one: the same meaning, on a release that would refuse to start."""
    given = [found for found in flags(case) if found.name in NAMES]
    config: dict[str, object] = {
        "method": "mtp",
        "num_speculative_tokens": depth(tokens) or tokens,
    }
    method, model = flag(case, "--spec-method"), flag(case, "--spec-model")
    if method is not None and method.value:
        config["method"] = method.value
    if model is not None and model.value:
        config["model"] = model.value
    if method is None and model is not None:
        del config["method"]
    text = f"--speculative-config {shlex.quote(json.dumps(config, separators=(',', ':')))}"
    literal = all(
        one.span and one.value and not one.unresolved and one.origin == "cli" for one in given
    )
    if not literal or flag(case, "--spec-tokens") is None or not tokens.isdigit():
        return Fix(text=f"Use {text}.")
    edits = [
        replace_fix(case, one, text if one is given[0] else "", text, safe=False) for one in given
    ]
    return Fix(
        text=f"Use {text}.",
        safe=is_release_pinned(case),
        edits=tuple(edit for one in edits for edit in one.edits),
    )
