"""Power, energy and clocks of one GPU while something runs, read through NVML by a thread.

Nothing is set: the card is measured as it is found. Without NVML (no NVIDIA driver) every figure is
None.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any, NamedTuple

EVERY_S = 0.05


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
        self._thread: threading.Thread | None = None
        try:
            import pynvml  # only on a machine with an NVIDIA driver

            pynvml.nvmlInit()
            self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)
            self.name = str(pynvml.nvmlDeviceGetName(self._handle))
        except Exception:  # no driver, no library, no such card: figures stay empty
            return
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        nvml, card = self._nvml, self._handle
        while not self._stop.wait(EVERY_S):
            try:
                energy: float | None = nvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3
            except nvml.NVMLError:
                energy = None
            try:
                self.samples.append(
                    Sample(
                        time.perf_counter(),
                        energy,
                        nvml.nvmlDeviceGetPowerUsage(card) / 1e3,
                        nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
                        nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
                        nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
                    )
                )
            except nvml.NVMLError:
                continue

    def close(self) -> None:
        """Stop sampling; waits at most one second."""
        self._stop.set()
        if self._thread:
            self._thread.join(1.0)

    def between(self, begin: float, end: float) -> dict[str, Any]:
        """Mean power in W (from the energy counter where there is one), median clocks in MHz and
        the
        highest temperature of a span of `time.perf_counter`.
        """
        inside = [s for s in self.samples if begin <= s.at <= end]
        if len(inside) < 2:
            return {"power_w": None, "sm_mhz": None, "memory_mhz": None, "celsius": None}
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
