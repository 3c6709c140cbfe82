"""An orderly end: every connection that was accepted may still ask what it was about to ask."""

from __future__ import annotations

import asyncio
import socket
import time

import uvicorn

DRAIN = 3.0  # seconds that a connection which was accepted before SIGTERM has to send its request in
LOOKS, LOOK = 5, 0.02  # that must find no connection, and seconds between them


class DrainingServer(uvicorn.Server):
    """uvicorn closes connections without a request at once: one on its way there would be lost."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing new, answer what open connections ask and have them close; then end as uvicorn."""
        for server in self.servers:
            server.close()
        # A client that keeps its connection open learns from the answer that it has to make a new one.
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        end, empty = time.monotonic() + DRAIN, 0
        # What the event loop has just accepted is not among the connections for some of its turns: one empty
        # look is not enough.
        while empty < LOOKS and not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(LOOK)
            empty = 0 if self.server_state.connections else empty + 1
        await super().shutdown(sockets)
