"""Why not this k, or not on or off: what the answer has instead."""

from advisor.advice.explore.sweep import pin_choices, sweep
from advisor.advice.explore.values import LoadPoint, Point
from advisor.advice.recommend import recommend
from advisor.advice.wording import span, whole_percent
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import AdvisorError, Request
from advisor.domain.printable import printable
from advisor.rules.registry import index

# a whole answer by its word: whether it speculates
SPOKEN = {"on": True, "speculation": True, "off": False}
ANSWERS = {"off": "the answer is off: ", "measure": "the answer is to measure first: "}


class WhyNot(Frozen):
    """`head` answers in one sentence, `reasons` say what makes the difference."""

    asked: str
    head: str
    reasons: tuple[str, ...]


def why_not(request: Request, asked: str) -> WhyNot:
    """Answer `on`, `off` or `k=4`. Raises AdvisorError for what cannot be asked."""
    name, sign, value = (part.strip() for part in asked.partition("="))
    counts = name == "k" and value.isascii() and value.isdigit() and len(value) < 10
    on = False if counts else SPOKEN.get("" if sign else name.lower())
    if on is None:
        raise AdvisorError(
            f"'{printable(asked, 40)}' is not one of on, off, k=4; for engines, models, "
            "quantisations and hardware use compare"
        )
    base, _ = pin_choices(request)
    load = sweep(base, {}).loads[0]  # what recommend weighs
    if (best := load.best) is None:
        return _no_method(base, load, asked)
    if counts and (k := int(value)):
        return _k(base, load, best, k, asked)
    return _speculation(base, load, best, asked, on=on)


def _k(base: Request, load: LoadPoint, chosen: Point, k: int, asked: str) -> WhyNot:
    both = sweep(base, {"k": sorted({0, chosen.k, k})}).loads[0]
    lacking = [why for other, why in both.lacking if other == k]
    if (point := both.point(k)) is None:
        return WhyNot(asked=asked, head=(lacking or ["it cannot run here"])[0], reasons=())
    if k == chosen.k:
        head = f"{chosen.words} is already recommended"
        head = head if load.decision == "on" else _not_on(load, chosen)
        return WhyNot(asked=asked, head=head, reasons=_own(base, chosen))
    word = ANSWERS.get(load.decision or "on", "")
    regret = (
        "has the lowest expected regret" if both.best_k == chosen.k else "is the best of the usual"
    )
    if load.k_rules and point.utility > chosen.utility:
        regret = f"is what published sweeps name, or end at: {_rules(load.k_rules)}"
    head = (
        f"{word}k={k} is expected to gain {whole_percent(point.gain.p50)}, "
        f"{chosen.words} {whole_percent(chosen.gain.p50)}; {chosen.words} {regret}"
    )
    return WhyNot(asked=asked, head=head, reasons=tuple(_against(point, chosen)))


def _speculation(base: Request, load: LoadPoint, point: Point, asked: str, *, on: bool) -> WhyNot:
    """Why speculation is not on, or not off."""
    if load.decision == ("on" if on else "off"):
        word = f"speculation with {point.words}" if on else "no speculation"
        head = f"{word} is already recommended: {point.words} is {_gain_words(point)}"
    elif load.decision == "on":
        head = f"{point.words} is {_gain_words(point)}"
    else:
        head = _not_on(load, point)
    return WhyNot(asked=asked, head=head, reasons=_own(base, point))


def _no_method(request: Request, load: LoadPoint, asked: str) -> WhyNot:
    """That no method is known to run here, with what `recommend` says of it."""
    if load.refusal is not None:
        return WhyNot(asked=asked, head=load.refusal, reasons=())
    answer = recommend(request, what_if=False)
    head = f"{ANSWERS.get(answer.decision, '')}no speculative method is known to run in this layout"
    return WhyNot(asked=asked, head=head, reasons=tuple(row.text for row in answer.reasons))


def _not_on(load: LoadPoint, point: Point) -> str:
    """That the answer is off or to measure first, beside what its best k is expected to do."""
    head = f"{point.words}, the best k, is {_gain_words(point)}"
    if load.decision == "off":
        return f"{ANSWERS['off']}{head}"
    return f"{ANSWERS['measure']}{head}; run without it until then"


def _gain_words(point: Point) -> str:
    if not point.predictable:
        return "not predictable for the goal ttft"
    chance = f", P(gain) {point.p_gain:.2f}" if point.p_gain is not None else ""
    return f"expected to gain {whole_percent(point.gain.p50)} ({span(point.gain)}){chance}"


def _own(request: Request, point: Point) -> tuple[str, ...]:
    """What forbids it, and the two weightiest reasons that `recommend` gives."""
    told = sorted(recommend(request, what_if=False).reasons, key=lambda row: -row.weight)
    return (*_forbidden(point), *(row.text for row in told[:2]))


def _forbidden(point: Point) -> list[str]:
    named = point.forbidden_by
    return [f"rules forbid it here: {_rules(named)}"] if named else []


def _rules(codes: tuple[str, ...]) -> str:
    slugs = {row.code: row.slug for row in index()}
    return ", ".join(f"{code} ({slugs.get(code, '')})" for code in codes)


def _against(point: Point, chosen: Point) -> list[str]:
    """What speaks against one k beside the best: rules, interval, tokens."""
    out = _forbidden(point)
    wins = point.utility <= chosen.utility
    if wins and chosen.gain.p50 < point.gain.p50 and point.gain.p10 < chosen.gain.p10:
        low, high = (whole_percent(p.gain.p10) for p in (point, chosen))
        out.append(
            f"its median is higher, but so is what it can lose: {low} at the 10th percentile "
            f"against {high}, and a loss weighs double "
            f"(utility {point.utility:+.3f} against {chosen.utility:+.3f})"
        )
    if point.p_gain is not None and chosen.p_gain is not None:
        out.append(f"P(gain) {point.p_gain:.2f} against {chosen.p_gain:.2f}")
    if point.accepted_length is not None and chosen.accepted_length is not None:
        mine, theirs = point.accepted_length.p50, chosen.accepted_length.p50
        out.append(f"a cycle gives {mine:.2f} tokens against {theirs:.2f}")
    return out
