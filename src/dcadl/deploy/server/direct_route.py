"""Paths whose requests go straight to their function: FastAPI describes them, but reads no arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

Check = Callable[[Request], Awaitable[None]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def direct_route(check: Check) -> type[APIRoute]:
    """Routes of functions of a request and a model's name, called after `check` with nothing in between.

    Finding out by its signature what a function takes costs FastAPI more than reading a small picture.
    """

    class DirectRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            async def handle(request: Request) -> Response:
                await check(request)
                return await self.endpoint(request, request.query_params.get("model"))

            return handle

    return DirectRoute
