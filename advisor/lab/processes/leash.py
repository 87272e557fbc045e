"""Run as a program of its own: ends a process group when whoever holds the other end of its
standard input is gone.

The first line of the input is the group; anything after it says that the group has ended already.
Imports nothing but the standard library: it starts in milliseconds and holds nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time

STOP_S = 30.0  # what an engine gets to give its memory back
RELEASED = b"released\n"


def main() -> None:
    """Wait for the end of the input, then end the group unless it was released."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    first, _, rest = sys.stdin.buffer.read().partition(b"\n")
    if not first.isdigit() or rest:
        return
    group = int(first)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if not _signal(group, sign):
            return
        end = time.monotonic() + STOP_S
        while time.monotonic() < end:
            time.sleep(0.1)
            if not _signal(group, 0):
                return


def _signal(group: int, sign: int) -> bool:
    """Whether the group is still there to take a signal."""
    try:
        os.killpg(group, sign)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
