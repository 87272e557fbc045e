"""Connections that send nothing end: uvicorn waits for the head of a request without a limit."""

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0  # for the head of a request, and between two parts of a body


class Patient(H11Protocol):
    """HTTP/1.1 with a limit on how long a visitor may take to say what is asked."""

    _limit: TimerHandle | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._wait()

    def handle_events(self) -> None:
        """More of a request: the limit of a head runs on, that of a body starts anew."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait(self.cycle.more_body)

    def on_response_complete(self) -> None:
        """The next request may begin."""
        super().on_response_complete()
        self._wait()

    def _wait(self, for_more: bool = True) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_later(SECONDS, self._end) if for_more else None

    def _end(self) -> None:
        self.transport.close()
