"""Slips of the hand in every real configuration of the corpora: how many are caught, as errors, and
mended. The slips are made by rule, so that none of them was looked at when the rules were written.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.domain.nouns import AdvisorError
from advisor.lint import fixes
from advisor.lint.validate import validate

HERE = Path(__file__).parents[1]
FILES = sorted((HERE / "corpus").glob("case-*")) + sorted((HERE / "corpus2").glob("case-*"))
OTHERS = {"--max-model-len": "--ctx-size", "--gpu-memory-utilization": "--mem-fraction-static",
          "--context-length": "--max-model-len",
          "--mem-fraction-static": "--gpu-memory-utilization",
          "--max-num-seqs": "--max-running-requests"}  # fmt: skip
VALUES = (
    "tool-call-parser", "reasoning-parser", "kv-cache-dtype", "cache-type-k", "attention-backend",
    "quantization", "dtype", "spec-type", "speculative-algorithm",
)  # fmt: skip
# a file whose engine is told by its options alone, and names of Python variables
UNTOLD = ("case-219", "case-220")
KNOWN = (
    "--(?:max|gpu|tensor|spec|cache|kv|ctx|context|mem|tool|reasoning|enable|served|tp)[a-z-]{4,}"
)


def swap(word: str, rng: random.Random) -> str:
    """Two neighbours in each other's place."""
    places = [
        i for i in range(3, len(word) - 1) if word[i] != word[i + 1] and "-" not in word[i : i + 2]
    ]
    at = rng.choice(places) if places else len(word) - 2
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def slips(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """(kind, the text with one slip)."""

    def put(found: re.Match[str], group: int, new: str) -> str:
        return text[: found.start(group)] + new + text[found.end(group) :]

    flags = [
        found
        for found in re.finditer(rf"(?<=[\s\"'])({KNOWN})(?=[\s\"'=])", text)
        if "#" not in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
    ]
    if flags:
        found = rng.choice(flags)
        yield "swapped", put(found, 1, swap(found[1], rng))
        found = rng.choice(flags)
        at = rng.randrange(4, len(found[1]) - 1)
        yield "lost", put(found, 1, found[1][:at] + found[1][at + 1 :])
    for found in flags:
        if found[1] in OTHERS:
            yield "foreign", put(found, 1, OTHERS[found[1]])
            break
    if (found := re.search(r'"num_speculative_tokens"\s*:\s*\d+(\})', text)) is not None:
        yield "key", text.replace("num_speculative_tokens", "num_speculative_token", 1)
        yield "comma", put(found, 1, ",}")
        yield "bracket", put(found, 1, "")
    share = r"--(?:gpu-memory-utilization|mem-fraction-static)[ =\"',\n-]+(0\.\d+)"
    if (found := re.search(share, text)) is not None:
        yield "share", put(found, 1, str(round(float(found[1]) * 100)))
    for name in VALUES:
        if (found := re.search(rf"--{name}[ =\"',\n-]+([A-Za-z]\w{{3,}}[\w-]*)", text)) is not None:
            yield "value", put(found, 1, swap("xx" + found[1], rng)[2:])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_slips_in_real_files(seed: int) -> None:
    rng = random.Random(seed)
    made: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    missed: list[str] = []
    for path in (one for one in FILES if not one.name.startswith(UNTOLD)):
        text = path.read_bytes().decode()
        before = Counter((f.code, f.message) for f in validate(text=text, name=path.name).findings)
        for kind, wrong in slips(text, rng):
            if wrong == text:
                continue
            made[kind] += 1
            try:
                report = validate(text=wrong, name=path.name)
            except AdvisorError:
                continue
            new = [f for f in report.findings if not before[f.code, f.message]]
            if any(f.severity == "error" for f in new):
                errors[kind] += 1
            else:
                missed.append(f"{path.name} {kind}: {[f.code for f in new]}")
            source = report.reads[0].source
            mended[kind] += any(fixes.apply_edits(source, [f], True).text == text for f in new)
    print(*(f"{k}: {made[k]}, errors {errors[k]}, mended {mended[k]}" for k in made), sep="\n")
    print(*missed, sep="\n")
    assert made.total() > 350
    assert errors.total() >= 0.92 * made.total()
    assert mended.total() >= 0.75 * made.total()
