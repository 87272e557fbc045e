"""Words that several answers share: names, ratios as percent, and a reason with its sources."""

from advisor.domain.nouns import LLM, Hardware, Interval, Reason


def reason(text: str, *sources: str, weight: float, brief: str = "", risk: bool = False) -> Reason:
    """A sentence with its sources; the heavier ones are printed first."""
    return Reason(text=text, sources=sources, weight=weight, brief=brief, risk=risk)


def name_of(noun: Hardware | LLM | None, otherwise: str) -> str:
    """The printed name of a part or model, its id where it has none."""
    return (noun.name or noun.id) if noun is not None else otherwise


def k_text(k: int, adaptive: bool = False) -> str:
    """A number of draft tokens in a table or a list."""
    return f"k={k}{' adaptive' if adaptive else ''}" if k else "none"


def percent(ratio: float) -> str:
    """A measured ratio as a signed change: 1.24 is "+24.0 %"."""
    return f"{100 * (ratio - 1):+.1f} %"


def whole_percent(ratio: float) -> str:
    """The same of what is expected, which no decimal of a percent can tell: 1.24 is "+24 %"."""
    return f"{round(100 * (ratio - 1)):+d} %"


def span(gain: Interval) -> str:
    """An 80 % interval: "-5 % to +24 %"."""
    return f"{whole_percent(gain.p10)} to {whole_percent(gain.p90)}"
