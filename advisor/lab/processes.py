"""Engines as child processes that end with the command that started them, however it ends.

Run as a program this is the leash of one: it ends a process group (first line of its input) when
whoever holds its input is gone, unless more was written. So it imports nothing of ours.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

STOP_S = 30.0  # what an engine gets to give its memory back
RELEASED = b"released\n"


class EngineProcess(subprocess.Popen[bytes]):
    """An engine in a process group of its own, with a leash: a small process that ends the group
    when this one is gone, killed outright included. Raises OSError where it cannot be started.
    """

    def __init__(
        self, command: Sequence[str], log: IO[bytes], env: Mapping[str, str] | None = None
    ) -> None:
        self.leash = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            super().__init__(
                list(command),
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
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
        self._tell(RELEASED)
        with contextlib.suppress(OSError):
            assert self.leash.stdin is not None
            self.leash.stdin.close()
        self.leash.wait()


def signal_group(group: int, sign: int) -> bool:
    """A signal to a process group: whether it was there and ours to take it."""
    try:
        os.killpg(group, sign)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def hold() -> None:
    """Wait for the end of the input, then end the group unless it was released."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    first, _, rest = sys.stdin.buffer.read().partition(b"\n")
    if not first.isdigit() or rest:
        return
    group = int(first)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if not signal_group(group, sign):
            return
        end = time.monotonic() + STOP_S
        while time.monotonic() < end:
            time.sleep(0.1)
            if not signal_group(group, 0):
                return


if __name__ == "__main__":
    hold()
