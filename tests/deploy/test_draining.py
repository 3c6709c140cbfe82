"""The end of a server: connections that it has accepted, those it is just about to know of included."""

from __future__ import annotations

import asyncio

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="not installed: pip install 'dcadl[serve]'")

from dcadl.deploy.server.draining import DrainingServer  # noqa: E402


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_connection_that_was_just_accepted_is_waited_for(monkeypatch, turns):
    """It becomes known some turns of the event loop later, and is there for a while."""
    server = DrainingServer(uvicorn.Config(lambda: None))
    server.servers, left = [], []

    async def ended(self, sockets):
        left.append(set(self.server_state.connections))

    monkeypatch.setattr(uvicorn.Server, "shutdown", ended)

    async def accepted():
        for _ in range(turns):
            await asyncio.sleep(0)
        server.server_state.connections.add("late")
        await asyncio.sleep(0.2)
        server.server_state.connections.remove("late")

    async def run():
        connection = asyncio.create_task(accepted())
        await server.shutdown()
        assert connection.done()

    asyncio.run(run())

    assert left == [set()]
