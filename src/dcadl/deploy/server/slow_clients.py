"""Connections whose request does not begin, or whose head does not end: closed after a time.

Bodies have their own limit (`requests.bounded_body`), and what is idle after an answer uvicorn closes itself.
"""

from __future__ import annotations

import time
from typing import Any

import uvicorn

from dcadl.deploy.server.draining import DrainingServer


class PatientServer(DrainingServer):
    """uvicorn has no limit for heads: who sends one by single bytes would keep a place for ever."""

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self._seconds = seconds
        self._waiting: dict[Any, tuple[Any, float]] = {}  # by connection: its last request, and since when

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        self.close_slow_heads(time.monotonic())
        return await super().on_tick(counter)

    def close_slow_heads(self, now: float) -> None:
        """Hang up on every connection that has been without a request for too long."""
        waiting = {}
        for connection in self.server_state.connections:
            last: Any = getattr(connection, "cycle", None)
            if last is not None and not last.response_complete:
                continue  # being answered
            request, since = self._waiting.get(connection, (last, now))
            waiting[connection] = (last, since if request is last else now)
            if now - waiting[connection][1] > self._seconds:
                connection.transport.close()
        self._waiting = waiting
