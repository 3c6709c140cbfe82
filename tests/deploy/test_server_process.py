"""`dcadl serve` as a process: an orderly end, and connections that are too slow."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from deploy_models import case, pixels

pytest.importorskip("fastapi", reason="not installed: pip install 'dcadl[serve]'")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of digits in grey."""
    path = tmp_path_factory.mktemp("models") / "digits.safetensors"
    case("dcadl-centred").model.save(path)
    return path


@pytest.fixture
def running(model, request):
    """`dcadl serve` in a process of its own, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "dcadl.cli",
        "serve",
        str(model),
        "--port",
        str(port),
        *getattr(request, "param", ()),
    ]
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env={**os.environ, "DCADL_TOKEN": ""}
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(1200):  # two minutes: a busy machine imports slowly
        try:
            httpx.get(f"{address}/healthz", timeout=1)
            break
        except httpx.TransportError:
            time.sleep(0.1)
    yield process, address
    process.kill()
    process.wait()


def test_sigterm_loses_no_accepted_request(running):
    process, address = running
    body = {"arrays": (pixels() / 255).tolist()}

    def ask(_):
        with httpx.Client(base_url=address, timeout=60) as client:
            try:
                return client.post("/predict", json=body).status_code
            # Refused, or reset before the server took it from the system's queue: was never accepted.
            # A connection that was accepted and dropped ends without an answer: RemoteProtocolError.
            except (httpx.ConnectError, httpx.ReadError, httpx.WriteError):
                return None

    with ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(ask, i) for i in range(60)]
        first = [future.result() for future in asked[:11]]
        process.send_signal(signal.SIGTERM)
        found = [future.result() for future in asked]

    assert process.wait(timeout=120) in (0, -signal.SIGTERM)
    assert set(found) <= {200, None}
    assert first == [200] * 11


def test_a_connection_accepted_before_sigterm_may_still_ask(running):
    process, address = running
    host, port = address.removeprefix("http://").split(":")
    opened = [socket.create_connection((host, int(port)), timeout=60) for _ in range(4)]
    httpx.get(f"{address}/healthz")  # came later: by its answer those before it are accepted too

    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(OSError):
        while True:  # until nothing new is accepted
            socket.create_connection((host, int(port)), timeout=5).close()
    for connection in opened:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answers = [connection.makefile("rb").read() for connection in opened]

    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert all(b"connection: close" in answer.lower() for answer in answers)
    assert process.wait(timeout=60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("running", [("--max-seconds", "1")], indirect=True)
def test_slow_heads_and_slow_bodies_are_ended_and_others_go_on(running):
    _, address = running
    host, port = address.removeprefix("http://").split(":")
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 100\r\n"
    parts = {"nothing": b"", "half a head": head, "half a body": head + b"\r\nabc"}
    slow = {name: socket.create_connection((host, int(port)), timeout=60) for name in parts}
    with httpx.Client(base_url=address) as kept:
        for name, part in parts.items():
            slow[name].sendall(part)
        for _ in range(25):  # longer than the limit: a connection that goes on asking stays
            assert kept.get("/healthz").status_code == 200
            time.sleep(0.06)

    assert slow["nothing"].recv(1000) == b""
    assert slow["half a head"].recv(1000) == b""
    assert slow["half a body"].recv(1000).startswith(b"HTTP/1.1 408")
