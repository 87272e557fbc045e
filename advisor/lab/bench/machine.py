"""What the GPU did while a point was timed.

Power, energy and clocks of one GPU are read through NVML by a thread; without it (no NVIDIA driver)
these figures are None. Nothing is set: the card is measured as it is.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from typing import Any, NamedTuple

EVERY_S = 0.05  # between two samples of the GPU


class Sample(NamedTuple):
    """One look at the card. `energy_j` counts since the driver was loaded."""

    at: float
    energy_j: float | None
    power_w: float
    sm_mhz: int
    memory_mhz: int
    celsius: int


class Meter:
    """Samples one GPU until it is closed."""

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

    def figures(self, begin: float, end: float, tok_s: float) -> dict[str, Any]:
        """The GPU in a span of `time.perf_counter`, and energy at this rate."""
        row = self.between(begin, end)
        if row["power_w"] is not None:
            row["joule_per_token"] = round(row["power_w"] / tok_s, 4)
        return row

    def between(self, begin: float, end: float) -> dict[str, Any]:
        """Mean W (by the energy counter if any), median MHz and highest temperature of a span."""
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
