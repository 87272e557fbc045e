"""What the GPU and the host did while a point was timed.

Power, energy and clocks of one GPU are read through NVML by a thread; without it (no NVIDIA driver)
these figures are None. Nothing is set: the card is measured as it is found. Eager prompt calls and
small steps are bound by the host: its shares come from `/proc/stat` (Linux only, else None).
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

STAT = Path("/proc/stat")
TURNS, TIMES = 20_000, 9  # of a loop of Python: about 1 ms each
EVERY_S = 0.05  # between two samples of the GPU


class Jiffies(NamedTuple):
    """CPU time of all cores together since boot, in clock ticks."""

    busy: int  # spent by this machine's own processes
    stolen: int  # given to other virtual machines while this one wanted it
    all: int


def jiffies(text: str) -> Jiffies | None:
    """The first line of /proc/stat: user nice system idle iowait irq softirq steal ...; None where
    it is not that.
    """
    name, *words = text.split("\n", 1)[0].split() or [""]
    if name != "cpu" or len(words) < 8 or not all(word.isdigit() for word in words[:8]):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, words[:8])
    busy = user + nice + system + irq + softirq
    return Jiffies(busy, steal, busy + idle + iowait + steal)


def shares(before: Jiffies | None, after: Jiffies | None) -> dict[str, float | None]:
    """Share of all cores' time between two readings that was used, and that other machines took;
    None where unknown.
    """
    if before is None or after is None or after.all <= before.all:
        return {"host_busy": None, "host_stolen": None}
    busy, stolen, every = (b - a for a, b in zip(before, after, strict=True))
    return {"host_busy": round(busy / every, 4), "host_stolen": round(stolen / every, 4)}


def loop_ms() -> float:
    """Median time of a fixed loop of Python, ms: how fast one core is at this moment."""
    times = []
    for _ in range(TIMES):
        begin, total = time.perf_counter(), 0
        for i in range(TURNS):
            total += i & 7
        times.append(time.perf_counter() - begin)
    return round(1e3 * statistics.median(times), 4)


class Sample(NamedTuple):
    """One look at the card. `energy_j` counts since the driver was loaded."""

    at: float
    energy_j: float | None
    power_w: float
    sm_mhz: int
    memory_mhz: int
    celsius: int


class Meter:
    """Samples one GPU, and the host between `start` and `figures`, until it is closed."""

    def __init__(self, index: int = 0) -> None:
        self.samples: list[Sample] = []
        self.name = ""
        self._stop = threading.Event()
        try:
            import pynvml  # only on a machine with an NVIDIA driver

            pynvml.nvmlInit()
            self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)
            self.name = str(pynvml.nvmlDeviceGetName(self._handle))
        except Exception:  # no driver, no library, no such card: figures stay empty
            return
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        nvml, card = self._nvml, self._handle
        while not self._stop.wait(EVERY_S):
            energy = None
            with contextlib.suppress(nvml.NVMLError):
                energy = nvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3
            with contextlib.suppress(nvml.NVMLError):
                power = nvml.nvmlDeviceGetPowerUsage(card) / 1e3
                clocks = (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
                sm, memory = (nvml.nvmlDeviceGetClockInfo(card, clock) for clock in clocks)
                celsius = nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)
                self.samples.append(Sample(time.perf_counter(), energy, power, sm, memory, celsius))

    def close(self) -> None:
        """Stop sampling."""
        self._stop.set()

    def start(self) -> None:
        """A point begins: look at the host."""
        self.speed, self.before = loop_ms(), jiffies(STAT.read_text() if STAT.exists() else "")

    def figures(self, begin: float, end: float, tok_s: float) -> dict[str, Any]:
        """Host since `start`, GPU in a span of `time.perf_counter`, energy at this rate."""
        after = jiffies(STAT.read_text() if STAT.exists() else "")
        row = {"host_loop_ms": self.speed, **shares(self.before, after)}
        row |= self.between(begin, end)
        if row["power_w"] is not None:
            row["joule_per_token"] = round(row["power_w"] / tok_s, 4)
        return row

    def between(self, begin: float, end: float) -> dict[str, Any]:
        """Mean power in W (from the energy counter where there is one), median clocks in MHz and
        the highest temperature of a span of `time.perf_counter`.
        """
        inside = [s for s in self.samples if begin <= s.at <= end]
        if len(inside) < 2:
            return dict.fromkeys(("power_w", "sm_mhz", "memory_mhz", "celsius"))
        first, last = inside[0], inside[-1]
        power = statistics.fmean(s.power_w for s in inside)
        if first.energy_j is not None and last.energy_j is not None and last.at - first.at > 0.5:
            power = (last.energy_j - first.energy_j) / (last.at - first.at)
        return {
            "power_w": round(power, 1),
            "sm_mhz": round(statistics.median(s.sm_mhz for s in inside)),
            "memory_mhz": round(statistics.median(s.memory_mhz for s in inside)),
            "celsius": max(s.celsius for s in inside),
        }
