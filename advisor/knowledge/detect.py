"""Which accelerator this machine has (nvidia-smi, rocm-smi, sysctl); memory in GiB as "24 GB"."""

import re
import shutil
import subprocess
from pathlib import Path

from advisor.domain.nouns import AdvisorError, Hardware, Quantity, UnknownFact
from advisor.knowledge import store as knowledge

TIMEOUT_S = 5.0
_EXTRA = re.compile(
    r"\b(nvidia|amd|geforce|tesla|graphics|gpu|generation|laptop|oem)\b|\(r\)|\(tm\)", re.I
)
_SIZE = re.compile(r"-\d+gb$")


def _ask(*command: str) -> str:
    """Output of a command, "" if it is not there, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def detect() -> tuple[Hardware, int]:
    """The accelerator and its number. Raises AdvisorError naming what was found, if anything."""
    names: list[str] = []
    for look in (_nvidia, _rocm, _apple):
        found = look()
        if found is None:
            continue
        name, count, memory_gb = found
        names.append(name)
        hw = match(name, memory_gb)
        if hw is not None:
            return hw, count
    listed = "`advisor hardware list`"
    if names:
        what = f"give --hw with the nearest name of {listed}"
        raise AdvisorError(
            f"found '{names[0]}', which is not in the hardware list: {what}, or add a file (see "
            "`advisor hardware validate`)"
        )
    tried = "nvidia-smi, rocm-smi, sysctl"
    raise AdvisorError(f"no accelerator found (tried {tried}): give --hw, see {listed}")


def match(name: str, memory_gb: float | None = None) -> Hardware | None:
    """The known hardware that a driver's name means, by memory among variants; None if none."""
    laptop = " laptop" if "laptop" in name.lower() else ""
    short = " ".join(_EXTRA.sub(" ", name).split())
    tries = [name, short + laptop]
    if memory_gb is not None:
        sizes = [size for size in (16, 22, 32, 40, 80) if abs(size - memory_gb) <= 0.04 * size]
        tries = [f"{short}{laptop} {round(memory_gb)}gb", *tries]
        tries += [f"{short}-{size}gb" for size in sizes]
    for text in tries:
        try:
            hw = knowledge.hardware(text)
        except UnknownFact:
            continue
        if memory_gb is None or not hw.unified_memory:
            return _variant(hw, memory_gb)
        own = Quantity(value=round(memory_gb, 1), source="this machine", status="measured")
        return hw.replace(memory_gb=own)
    return None


def _variant(hw: Hardware, memory_gb: float | None) -> Hardware:
    """Another entry of the same chip whose memory fits better (A100 40 GB and 80 GB)."""
    if memory_gb is None or hw.memory_gb is None:
        return hw
    stem = _SIZE.sub("", hw.id)
    names = (ident for ident in knowledge.hardware_ids() if _SIZE.sub("", ident) == stem)
    options = [hw, *(k for k in map(knowledge.hardware, names) if k.memory_gb is not None)]
    return min(options, key=lambda o: abs((o.memory_gb.value if o.memory_gb else 0.0) - memory_gb))


def _nvidia() -> tuple[str, int, float | None] | None:
    text = _ask("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    rows = [line.split(",") for line in text.splitlines() if "," in line]
    if not rows:
        return None
    name, memory = (cell.strip() for cell in rows[0][:2])
    count = sum(row[0].strip() == name for row in rows)
    # a GPU with unified memory reports [N/A]
    return name, count, float(memory) / 1024 if memory.replace(".", "").isdigit() else None


def _rocm() -> tuple[str, int, float | None] | None:
    text = _ask("rocm-smi", "--showproductname")
    names = re.findall(r"Card [Ss]eries:\s*(.+)", text)
    chips = re.findall(r"GFX Version:\s*(gfx\w+)", text)
    if not names and not chips:
        return None
    if "gfx1151" in chips:
        return "strix-halo", 1, _system_memory_gb()
    return names[0].strip() if names else chips[0], max(len(names), len(chips)), None


def _apple() -> tuple[str, int, float | None] | None:
    name = _ask("sysctl", "-n", "machdep.cpu.brand_string").strip()
    if not name.startswith("Apple"):
        return None
    memory = _ask("sysctl", "-n", "hw.memsize").strip()
    return name, 1, int(memory) / 1024**3 if memory.isdigit() else None


def _system_memory_gb() -> float | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"MemTotal:\s*(\d+) kB", text)
    return int(found.group(1)) / 1024**2 if found else None
