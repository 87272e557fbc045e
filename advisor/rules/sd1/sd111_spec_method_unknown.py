from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.spelling import is_only_near
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import is_release_pinned, json_fix, value_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, spec_config
from advisor.rules.kit.values import nearest, slip

if TYPE_CHECKING:
    from advisor.engines.catalogue import Catalogue

MEANT = {
    "nextn": "mtp",
    "next_n": "mtp",
    "draft-mtp": "mtp",
    "multi_token_prediction": "mtp",
    "eagle-3": "eagle3",
}


@rule(severity="error", engines="vllm", versioned=True)
def spec_method_unknown(case: Case) -> Iterator[Hit]:
    """A speculative method that vLLM does not know, such as SGLang's NEXTN.

    Why: the configuration class refuses it and the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"NEXTN","num_speculative_tokens":2}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    choices = _choices(catalogue(case), catalogued_version(case) or catalogue(case).newest)
    place, method = method_flag(case)
    if method is None or not choices or method in choices or "." in method:
        return
    if (gone := first_without(case, method)) is not None:
        yield Hit(
            f"vLLM {gone} dropped the speculative method '{method}'",
            flag=place,
            fix=(
                "Use a draft that vLLM still loads (eagle3, draft_model, mtp), or keep to "
                "an older release."
            ),
            versions=f"{gone} and later",
        )
        return
    near = MEANT.get(method.lower()) or nearest(method, choices)
    meant = slip(method, near) or method.lower() in MEANT
    if to_fill(method, named=not meant):
        return
    later = [one for one in catalogue(case).versions if method in _choices(catalogue(case), one)]
    said = f"vLLM has no speculative method '{method}'" + (
        f" before {later[0]}" if later else f"; use '{near}'" if near else ""
    )
    fix = Fix(text=f"Use '{near}'." if near else f"Use one of {', '.join(choices[:8])}, ...")
    sure = near == MEANT.get(method.lower()) and is_release_pinned(case)
    if place is not None and near and place.name == "--spec-method":
        fix = value_fix(case, place, near, f"Use '{near}'.", safe=sure)
    elif near:
        fix = json_fix(case, place, "method", f'"{near}"', f"Use '{near}'.", safe=sure)
    yield Hit(
        said,
        flag=place,
        fix=fix,
        versions="all catalogued releases",
        everywhere=not later,
        slip=not later and meant,
        sole=is_only_near(method, near, choices),
    )


def first_without(case: Case, method: str) -> str | None:
    """The first release that dropped a method; None where none had it."""
    known = catalogue(case)
    takes = [method in _choices(known, version) for version in known.versions]
    if True not in takes or takes[-1]:
        return None
    return str(known.versions[len(takes) - takes[::-1].index(True)])


def _choices(known: Catalogue, version: str) -> tuple[str, ...]:
    """The methods of the configuration class and of the shorthand."""
    row = known.json_field("SpeculativeConfig", "method", version) or {}
    short = known.option("--spec-method", version)
    return (*(row.get("choices") or ()), *((short.choices or ()) if short is not None else ()))


def method_flag(case: Case) -> tuple[Flag | None, str | None]:
    """The flag that names the method and the name, where both can be read."""
    short = flag(case, "--spec-method")
    if short is not None:
        return short, None if short.unresolved else short.value
    read = spec_config(case)
    if read is None or read.data is None:
        return None, None
    method = read.data.get("method")
    return read.flag, method if isinstance(method, str) else None


def is_suffix_decoding(case: Case) -> bool:
    """Whether n-gram stands for suffix decoding, which is another thing."""
    return (method_flag(case)[1] or "").lower() == "suffix"
