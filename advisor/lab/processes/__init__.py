"""Engines as child processes that end with the command that started them, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from advisor.lab.processes import leash

STOP_S = leash.STOP_S


class EngineProcess(subprocess.Popen[bytes]):
    """An engine in a process group of its own, with a leash: a small process that ends the group
    when this one is gone, killed outright included.

    `log` takes what the engine says. Raises OSError where the program cannot be started.
    """

    def __init__(
        self, command: Sequence[str], log: IO[bytes], env: Mapping[str, str] | None = None
    ) -> None:
        self.leash = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(leash.__file__))],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            super().__init__(
                list(command), env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._release()
            raise
        self._tell(f"{self.pid}\n".encode())

    def end(self, *signs: signal.Signals, seconds: float = STOP_S) -> None:
        """End the engine and all that it started, by each signal in turn until it is gone."""
        assert self.leash.stdin is not None
        if self.leash.stdin.closed:
            return
        for sign in signs or (signal.SIGTERM, signal.SIGKILL):
            if self.poll() is not None:
                break
            signal_group(self.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(seconds)
        signal_group(self.pid, signal.SIGKILL)  # workers that outlived their head
        self._release()

    def _tell(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            assert self.leash.stdin is not None
            self.leash.stdin.write(data)
            self.leash.stdin.flush()

    def _release(self) -> None:
        """The engine is gone: nothing is left for the leash to do."""
        self._tell(leash.RELEASED)
        with contextlib.suppress(OSError):
            assert self.leash.stdin is not None
            self.leash.stdin.close()
        self.leash.wait()


def signal_group(group: int, sign: signal.Signals) -> None:
    """A signal to a process group; nothing where it is gone or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sign)
