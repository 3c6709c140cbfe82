"""What a server takes at most, and the refusals beyond that."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Every limit is a refusal with a status of its own, before the work it would cost."""

    upload_bytes: int = 16_000_000  # of a request's body: 413
    pixels: int = 40_000_000  # of one picture: 413
    batch: int = 64  # pictures in one request: 413
    queue: int = 512  # pictures waiting for a model: 429
    seconds: float = 20.0  # for a request to arrive, and again to be answered: 408


class Refusal(Exception):
    """A request that is not answered, with its status and the reason in one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
