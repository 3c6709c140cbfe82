"""A server of trained models over HTTP (extra `serve`: FastAPI, uvicorn, the Prometheus client)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dcadl.deploy.server.limits import Limits

GRACE = 30  # seconds that accepted requests have to be answered in after SIGTERM


def serve(
    paths: Sequence[Path],
    *,
    host: str,
    port: int,
    token: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until SIGTERM or Ctrl-C; what was accepted by then is still answered.

    `ready` is called when the models are loaded, before the first request.
    """
    uvicorn, app, server = _import_server()
    limits = limits or Limits()
    _check_address(host, port)
    application = app.create_app(paths, token=token, limits=limits)
    ready()
    # Lines of access that nobody sees, and headers of proxies that nothing reads, would cost every request.
    quiet: Any = {"log_level": "warning", "access_log": False, "proxy_headers": False}
    config = uvicorn.Config(application, host=host, port=port, timeout_graceful_shutdown=GRACE, **quiet)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after an orderly end
        server(config, limits.seconds).run()


def _check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]
        raise ValueError(f"cannot listen on {host}, port {port}: {reason}.") from None


def _import_server() -> tuple[Any, Any, Any]:
    try:
        import uvicorn

        from dcadl.deploy.server import app
        from dcadl.deploy.server.slow_clients import PatientServer
    except ImportError as error:
        raise ValueError(f"The server needs {error.name}: pip install 'dcadl[serve]'.") from None
    return uvicorn, app, PatientServer
