"""vLLM's speculative JSON between its own words and a Plan's."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from advisor.domain.nouns import Plan
from advisor.domain.patterns import lazy_re
from advisor.engines.arguments.fields import DEPTH, within

SCHEDULE = "num_speculative_tokens_per_batch_size"
TOKENS = "num_speculative_tokens"
DIRECT = {"eagle", "eagle3", "draft_model", "dflash", "dspark"}
_ASSISTANT = lazy_re(r"gemma[-_. ]?4.*assistant", re.IGNORECASE)
NGRAM = {"ngram", "[ngram]", "ngram_gpu", "suffix"}


def load(value: str) -> Any:
    """A JSON text with unset variables (`"k": ${K}`) as texts. Raises ValueError."""
    try:
        return json.loads(value)
    except ValueError:
        if "${" not in value:
            raise
        return json.loads(re.sub(r'(?<=[:,\[])(\s*)(\$\{[^"{}]*\})(?=\s*[,}\]])', r'\1"\2"', value))


def is_object(value: str | None) -> bool:
    """Whether a text is a JSON object."""
    if not value:
        return False
    try:
        return isinstance(load(value), dict)
    except (ValueError, RecursionError):
        return False


def scalar(value: str | None) -> Any:
    """A dotted key's value: JSON where it is JSON, else the text; a bare key is true."""
    if value is None:
        return True
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def method_of(config: Mapping[str, Any], model: str, own_mtp: Callable[[str], bool]) -> str:
    """The method of a speculative JSON; without one as the engine guesses, by the draft."""
    word = str(config.get("method") or "").lower()
    draft = str(config.get("model") or "")
    if word in NGRAM or draft in NGRAM:
        return "ngram"
    if word in {"nextn", "mtp"} or word.endswith("_mtp"):
        return "mtp"
    if word == "eagle" and (not draft or draft == model) and own_mtp(model):
        return "mtp"
    if word in DIRECT:
        return word
    for name in ("eagle3", "eagle", "dflash", "dspark"):
        if name in draft.lower():
            return name
    if not draft or draft == model:
        return "mtp" if own_mtp(draft or model) or not word else "draft_model"
    # the checkpoint itself, by its path
    same = draft.rstrip("/").rpartition("/")[2] == model.rstrip("/").rpartition("/")[2]
    if not word and ((same and own_mtp(draft)) or _ASSISTANT.search(draft)):
        return "mtp"
    return "draft_model"


def read(
    config: Mapping[str, Any], model: str, own_mtp: Callable[[str], bool]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(nouns of a Plan, other keys). A missing k is 1 for MTP, else unknown (0)."""
    method, left = method_of(config, model, own_mtp), dict(config)
    word = left.pop("method", None)
    if method == "ngram" and word not in (None, "ngram"):
        left["method"] = word
    nouns: dict[str, Any] = {"method": method}
    k = left.get(TOKENS)
    if isinstance(k, int) and not isinstance(k, bool) and within(k, DEPTH):
        nouns["k"] = left.pop(TOKENS)
    elif k is None:
        left.pop(TOKENS, None)
        nouns["k"] = 1 if method == "mtp" else 0
    if isinstance(left.get("model"), str):
        nouns["draft_model"] = left.pop("model")
    schedule = _schedule(left.get(SCHEDULE))
    if schedule is not None:
        nouns["k_schedule"] = schedule
        del left[SCHEDULE]
    return nouns, left


def _schedule(rows: Any) -> tuple[tuple[int, int, int], ...] | None:
    listed = isinstance(rows, list) and rows
    if not listed or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        return None
    whole = all(type(part) is int and within(part, DEPTH) for row in rows for part in row)
    return tuple((row[0], row[1], row[2]) for row in rows) if whole else None


def write(plan: Plan) -> dict[str, Any]:
    """The speculative JSON of a plan, without the keys that have no noun."""
    config: dict[str, Any] = {"method": plan.method}
    if plan.draft_model is not None:
        config["model"] = plan.draft_model
    if plan.k:
        config[TOKENS] = plan.k
    if plan.k_schedule:
        config[SCHEDULE] = [list(row) for row in plan.k_schedule]
    return config
