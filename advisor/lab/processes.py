"""Engines as child processes, ended with all that they started."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

STOP_S = 30.0  # what an engine gets to give its memory back


class EngineProcess(subprocess.Popen[bytes]):
    """An engine in a process group of its own. Raises OSError where it cannot be started."""

    def __init__(
        self, command: Sequence[str], log: IO[bytes], env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            list(command),
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.ended = False

    def end(self, *signs: signal.Signals, seconds: float = STOP_S) -> None:
        """End the engine and all that it started, by each signal in turn until it is gone."""
        if self.ended:
            return
        for sign in signs or (signal.SIGTERM, signal.SIGKILL):
            if self.poll() is not None:
                break
            self._signal_group(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(seconds)
        self._signal_group(signal.SIGKILL)  # workers that outlived their head
        self.ended = True

    def _signal_group(self, sign: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, sign)
