"""`dcadl serve`: trained models over HTTP."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dcadl.cli.terminal import clean_exit, note

TOKEN = "DCADL_TOKEN"  # the name of a variable  # nosec B105


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL…", help="Files that `dcadl fit` or model.save(...) wrote."),
    ],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8000,
    max_upload: Annotated[
        float, typer.Option("--max-upload", metavar="MB", help="Largest request, in megabytes.")
    ] = 16.0,
    max_batch: Annotated[int, typer.Option("--max-batch", help="Most pictures in one request.")] = 64,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", help="Most time for a request to arrive or to be answered.")
    ] = 20.0,
) -> None:
    """Serve models over HTTP: POST /predict, POST /explain, /models, /healthz, /metrics, and a page at /.

    Where the environment variable DCADL_TOKEN is set, requests must carry it as a bearer token.
    """
    with clean_exit():
        from dcadl.deploy.server import serve as run
        from dcadl.deploy.server.limits import Limits

        if not (max_upload > 0 and max_batch > 0 and max_seconds > 0):
            raise ValueError("--max-upload, --max-batch and --max-seconds must be more than 0.")
        limits = Limits(upload_bytes=int(max_upload * 1e6), batch=max_batch, seconds=max_seconds)
        token = os.environ.get(TOKEN) or None
        words = f"serving on http://{host}:{port}/{', with a token' if token else ''}; Ctrl-C ends it"
        run(models, host=host, port=port, token=token, limits=limits, ready=partial(note, words))
