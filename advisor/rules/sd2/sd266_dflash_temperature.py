import json
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag

ROW = table("compatibility")["dflash_temperature"]


@rule(severity="info", speculative=True, sources=tuple(ROW["sources"]))
def dflash_temperature(case: Case) -> Iterator[Hit]:
    """DFlash with a sampling temperature of one half or more.

    Why: long blocks are accepted while the draft is certain; at higher temperatures the acceptance
    was seen to fall.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -md /models/Qwen3.6-27B-DFlash.gguf
        --spec-type draft-dflash --temp 0.8
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -md /models/Qwen3.6-27B-DFlash.gguf
        --spec-type draft-dflash --temp 0
    """
    if case.plan.method != "dflash":
        return
    place, temperature = default_temperature(case)
    if temperature is not None and temperature >= ROW["value"]:
        yield Hit(
            f"DFlash at temperature {temperature:g}: its acceptance falls from {ROW['value']:g} on",
            flag=place,
            fix=Fix(text="Use temperature 0 for agents, or MTP with k 2."),
        )


def default_temperature(case: Case) -> tuple[Flag | None, float | None]:
    """The server's default temperature and where it stands; else the one that was asked for."""
    place = flag(case, "--temp")
    try:
        if place is not None:
            return place, None if place.unresolved else float(place.value or "")
        place = flag(case, "--override-generation-config")
        data = json.loads(place.value or "{}") if place is not None and not place.unresolved else {}
    except (ValueError, RecursionError):
        return place, None
    told = data.get("temperature") if isinstance(data, dict) else None
    return place, float(told) if isinstance(
        told, int | float
    ) else case.facts.temperature if case.launch.emitted else None
