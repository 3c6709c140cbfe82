"""
The server on loopback: batching, bad requests by the thousand, and an end under load.

    python benchmarks/serve.py [--requests 10000] [--seconds 5]

Starts `dcadl serve` with LOO-ADL on digits enlarged to 28×28 and measures, in this order: requests a second
and p99 of one client that asks again as soon as it is answered, and of 16 such clients at once; then so many
mixed good and malformed requests (torn and foreign files, bombs, wrong types, wrong shapes, bad tokens, path
tricks, vanishing clients), counting statuses, with the server's memory before and after; then SIGTERM while
16 clients ask. Ends with an error if the server broke, gave a 5xx or lost an accepted request.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from dcadl import LOOADL
from machine import describe

TOKEN = "a benchmark's token"
CLIENTS = 16


class Connection:
    """HTTP/1.1 over one kept connection, as light as it can be: the client must not be what is measured."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        """The status of the answer; a new connection where the old one was closed."""
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
        }
        await self.reader.readexactly(int(fields.get("content-length", 0)))
        if fields.get("connection") == "close":
            self.close()
        return int(head.split()[1])

    def close(self) -> None:
        """Hang up."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def post(body: bytes, kind: str, *, path: str = "/predict", token: str = TOKEN) -> bytes:
    """A whole request."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def png(image: np.ndarray) -> bytes:
    """The picture as a file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def bad_requests(picture: bytes) -> dict[str, bytes]:
    """What a server must refuse, and some that it must answer all the same."""
    bomb, large = png(np.zeros((9000, 9000), np.uint8)), png(np.zeros((300, 300), np.uint8))
    encoded = base64.b64encode(picture).decode()
    form = b'--b\r\nContent-Disposition: form-data; name="pictures"; filename="../../x.png"\r\n\r\n'
    return {
        "picture": post(picture, "image/png"),
        "form": post(form + picture + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"),
        "base64": post(json.dumps({"pictures": [encoded]}).encode(), "application/json"),
        "another size": post(large, "image/png"),
        "explanation": post(picture, "image/png", path="/explain"),
        "torn picture": post(picture[: len(picture) // 2], "image/png"),
        "foreign file": post(b"%PDF-1.7 nothing", "image/png"),
        "bomb": post(bomb, "image/png"),
        "torn form": post(form, "multipart/form-data; boundary=b"),
        "form without boundary": post(form, "multipart/form-data"),
        "no JSON": post(b'{"pictures": [', "application/json"),
        "deep JSON": post(b'{"arrays": ' + b"[" * 5000 + b"]" * 5000 + b"}", "application/json"),
        "wrong shape": post(b'{"arrays": [[[1, 2], [3, 4]]]}', "application/json"),
        "no numbers": post(b'{"arrays": [[["a"]]]}', "application/json"),
        "too many": post(json.dumps({"pictures": [encoded] * 65}).encode(), "application/json"),
        "wrong type": post(picture, "text/html"),
        "bad token": post(picture, "image/png", token="a benchmark's tokeM"),
        "odd token": post(picture, "image/png", token="\x7f"),
        "unknown model": post(picture, "image/png", path="/predict?model=../../etc/passwd"),
        "path trick": post(picture, "image/png", path="/../../etc/passwd"),
        "wrong method": b"DELETE /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    }


async def clients(port: int, request: bytes, count: int, seconds: float) -> tuple[float, float]:
    """Requests a second of `count` clients together, and the p99 of their waits."""
    waits: list[float] = []
    end = time.perf_counter() + seconds

    async def one() -> None:
        connection = Connection(port)
        while time.perf_counter() < end:
            start = time.perf_counter()
            status = await connection.ask(request)
            assert status == 200, status
            waits.append(time.perf_counter() - start)
        connection.close()

    await asyncio.gather(*(one() for _ in range(count)))
    return len(waits) / seconds, float(np.quantile(waits, 0.99))


async def mixed(port: int, requests: dict[str, bytes], total: int) -> Counter:
    """Statuses by kind of request."""
    found: Counter = Counter()
    chance = random.Random(0)
    todo = iter([chance.choice(list(requests)) for _ in range(total)])

    async def one() -> None:
        connection = Connection(port)
        for kind in todo:
            if chance.random() < 0.005:  # a client that hangs up in the middle
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(requests["picture"][:150])
                await writer.drain()
                writer.close()
            try:
                found[kind, await connection.ask(requests[kind])] += 1
            except (asyncio.IncompleteReadError, ConnectionError):
                found[kind, 0] += 1
                connection.close()

    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return found


async def end_under_load(port: int, request: bytes, process: subprocess.Popen) -> tuple[int, int]:
    """Answered and lost requests when SIGTERM comes while all clients ask."""
    answered = lost = 0

    async def one() -> None:
        nonlocal answered, lost
        while True:
            connection = Connection(port)
            try:
                await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return  # nothing is accepted any more
            try:
                await connection.ask(request)
                answered += 1
            except (ConnectionRefusedError, ConnectionResetError):
                return
            except asyncio.IncompleteReadError:
                lost += 1
            connection.close()

    tasks = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    await asyncio.sleep(1)
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    return answered, lost


def memory_mb(pid: int) -> float:
    """Resident memory of a process (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_seconds(pid: int) -> float:
    """Processor time of a process (Linux): it does not grow where other programs take their turn."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    """Measure, print, and fail where the server did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    digits = load_digits()
    X = np.stack([np.asarray(Image.fromarray(image).resize((28, 28))) for image in digits.images]) / 16
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        path = Path(folder) / "digits.safetensors"
        LOOADL(random_state=0).fit(X[:300].astype(np.float32), digits.target[:300]).save(path)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        words = [sys.executable, "-m", "dcadl.cli", "serve", str(path), "--port", str(port)]
        process = subprocess.Popen(words, env={**os.environ, "DCADL_TOKEN": TOKEN}, stderr=subprocess.DEVNULL)
        try:
            await measure(process, port, png((X[0] * 255).astype(np.uint8)), options)
        finally:
            process.kill()


async def measure(process: subprocess.Popen, port: int, picture: bytes, options: argparse.Namespace) -> None:
    """Every measurement on a server that has been started."""
    requests = bad_requests(picture)
    for _ in range(300):
        try:
            await Connection(port).ask(requests["picture"])
            break
        except OSError:
            await asyncio.sleep(0.1)
    print(describe())
    alone = 0.0
    for count in (1, CLIENTS):
        used = processor_seconds(process.pid)
        rate, p99 = await clients(port, requests["picture"], count, options.seconds)
        used = (processor_seconds(process.pid) - used) / (rate * options.seconds)
        alone = alone or rate
        print(
            f"{count} client(s): {rate:.0f} requests/s ({rate / alone:.1f}×), p99 {1e3 * p99:.1f} ms, "
            f"{1e3 * used:.2f} ms of the server's processor time a request"
        )
    await mixed(port, requests, 1000)  # what is kept once for all is kept by now
    before = memory_mb(process.pid)
    found = await mixed(port, requests, options.requests)
    after = memory_mb(process.pid)
    for kind in requests:
        counts = {status: n for (name, status), n in sorted(found.items()) if name == kind}
        print(f"  {kind:22} {', '.join(f'{n} × {status}' for status, n in counts.items())}")
    print(f"memory: {before:.0f} MB before, {after:.0f} MB after {options.requests} requests")
    answered, lost = await end_under_load(port, requests["picture"], process)
    code = process.wait(timeout=60)
    print(f"SIGTERM under load: {answered} answered, {lost} lost, exit code {code}")
    broken = [key for key in found if key[1] >= 500 or (key[1] == 0 and key[0] != "no HTTP")]
    if broken or lost or after > 1.2 * before + 20:
        sys.exit(f"the server failed: {broken}, {lost} lost, memory {before:.0f} → {after:.0f} MB")


if __name__ == "__main__":
    asyncio.run(main())
