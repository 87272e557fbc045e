"""The power of this machine's cards while a server is measured, as nvidia-smi tells it."""

import contextlib
import csv
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from advisor.domain.files import read_text_safely
from advisor.domain.printable import excerpt
from advisor.readers.results.run import Number, ResultModel

_FIELDS = "index,name,driver_version,memory.used,power.draw,power.limit"
_COMMAND = ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", "-lms", "500"]
MAX_BYTES = 64 * 2**20
LEAST_MIB = 1024  # in use on a card that serves


class ArmPower(ResultModel):
    """Mean draw and limit of the cards in use together, W."""

    watts: float = Field(ge=0, le=1e7)
    limit_w: Number = None
    card: str = Field(max_length=60)
    driver: str = Field(max_length=40)


@contextlib.contextmanager
def sample_power(path: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Append samples to a file until the end of the block; nothing without NVIDIA's driver."""
    if shutil.which(_COMMAND[0]) is None:
        yield
        return
    cards = environment.get("CUDA_VISIBLE_DEVICES")
    command = [*_COMMAND, *(["-i", cards] if cards else [])]
    with path.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def power_in(path: Path) -> ArmPower | None:
    """The cards in use; None without a sample of each."""
    cards: dict[str, list[list[str]]] = {}
    lines = read_text_safely(path, MAX_BYTES).splitlines() if path.is_file() else ()
    for row in csv.reader(lines, skipinitialspace=True):
        if len(row) == len(_FIELDS.split(",")):
            cards.setdefault(row[0], []).append(row)
    used = [rows for rows in cards.values() if (_number(rows[-1][3]) or LEAST_MIB) >= LEAST_MIB]
    draws = [[w for row in rows if (w := _number(row[4])) is not None] for rows in used]
    limits = [limit for rows in used if (limit := _number(rows[-1][5])) is not None]
    if not draws or not all(draws):
        return None
    watts = round(sum(sum(one) / len(one) for one in draws), 1)
    _, card, driver, *_ = map(excerpt, used[0][0])
    cap = sum(limits) if len(limits) == len(used) else None
    return ArmPower(watts=watts, limit_w=cap, card=card[:60], driver=driver[:40])


def _number(text: str) -> float | None:
    """A number; None for "[N/A]"."""
    try:
        return float(text)
    except ValueError:
        return None
