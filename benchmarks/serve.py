"""
The server on loopback: batching, bad requests by the thousand, and an end under load.

    python benchmarks/serve.py [--requests 10000] [--seconds 5]

Starts `dcadl serve` with LOO-ADL on digits enlarged to 28×28 and measures, in this order: requests a second
and p99 of one client that asks again as soon as it is answered, of 16 such clients where the server answers
pictures one by one (--max-batch 1), and of 16 where it batches them; rounds of the three in turn, the best
of each. Then so many mixed good and malformed requests (torn and foreign files, bombs, wrong types, wrong
shapes, bad tokens, path tricks, vanishing clients, clients that send a byte now and then), counting
statuses, with the server's memory before and after; then SIGTERM while 16 clients ask. Ends with an error
if the server broke, gave a 5xx or lost an accepted request.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from dcadl import LOOADL
from machine import describe

TOKEN = "a benchmark's token"
CLIENTS = 16
SLOW = 16  # clients that send a byte now and then, while the others ask
PATIENCE = 3  # seconds that the server waits for a request
ROUNDS = 5
CLOSED = ("no HTTP", "slow head")  # where there is no request to answer


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
    """Statuses by kind of request; 0 is a connection that was closed without an answer."""
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

    slow = [asyncio.create_task(dawdle(port, requests["picture"], k, found)) for k in range(SLOW)]
    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return found


async def dawdle(port: int, request: bytes, number: int, found: Counter) -> None:
    """A client that never sends its whole request, and comes again: slow in the head, or in the body."""
    kind, at = ("slow head", 60) if number % 2 else ("slow body", request.index(b"\r\n\r\n") + 4)
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request[:at])
            answer = asyncio.ensure_future(reader.read(1000))
            for byte in request[at : at + 4 * PATIENCE]:
                if (await asyncio.wait([answer], timeout=0.5))[0]:
                    break
                writer.write(bytes([byte]))
            answered = await asyncio.wait_for(answer, 10 * PATIENCE)
            found[kind, int(answered.split()[1]) if answered else 0] += 1
        except ConnectionError:
            found[kind, 0] += 1
        finally:
            writer.close()


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


@contextmanager
def serving(path: Path, *words: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """`dcadl serve` in a process of its own, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dcadl.cli", "serve", str(path), "--port", str(port), *words]
    process = subprocess.Popen(command, env={**os.environ, "DCADL_TOKEN": TOKEN}, stderr=subprocess.DEVNULL)
    try:
        yield process, port
    finally:
        process.kill()


async def answers(port: int, request: bytes) -> None:
    """Wait until the server does."""
    for _ in range(300):
        try:
            await Connection(port).ask(request)
            return
        except OSError:
            await asyncio.sleep(0.1)
    sys.exit("the server does not answer")


async def batching(path: Path, request: bytes, seconds: float) -> None:
    """One client, 16 answered one by one, 16 in batches."""
    with serving(path) as (batched, port), serving(path, "--max-batch", "1") as (single, other):
        await answers(port, request)
        await answers(other, request)
        rows = {
            "1 client": (batched, port, 1),
            f"{CLIENTS} clients, one by one": (single, other, CLIENTS),
            f"{CLIENTS} clients, batched": (batched, port, CLIENTS),
        }
        best: dict[str, tuple[float, float, float]] = {}
        for _ in range(ROUNDS):
            for name, (process, at, count) in rows.items():
                used = processor_seconds(process.pid)
                rate, p99 = await clients(at, request, count, seconds / ROUNDS)
                used = (processor_seconds(process.pid) - used) / (rate * seconds / ROUNDS)
                best[name] = max(best.get(name, (0.0, 0.0, 0.0)), (rate, p99, used))
    for name, (rate, p99, used) in best.items():
        print(
            f"{name:24} {rate:5.0f} requests/s ({rate / best['1 client'][0]:.1f}×), p99 {1e3 * p99:.1f} ms, "
            f"{1e3 * used:.2f} ms of the server's processor time a request"
        )


async def mistreated(path: Path, requests: dict[str, bytes], total: int) -> None:
    """Bad requests, then SIGTERM; an error if the server failed."""
    with serving(path, "--max-seconds", str(PATIENCE)) as (process, port):
        await answers(port, requests["picture"])
        await mixed(port, requests, 1000)  # what is kept once for all is kept by now
        before = memory_mb(process.pid)
        found = await mixed(port, requests, total)
        after = memory_mb(process.pid)
        for kind in [*requests, "slow head", "slow body"]:
            counts = {status: n for (name, status), n in sorted(found.items()) if name == kind}
            print(f"  {kind:22} {', '.join(f'{n} × {status}' for status, n in counts.items())}")
        print(f"memory: {before:.0f} MB before, {after:.0f} MB after {total} requests")
        answered, lost = await end_under_load(port, requests["picture"], process)
        code = process.wait(timeout=60)
    print(f"SIGTERM under load: {answered} answered, {lost} lost, exit code {code}")
    broken = [
        (kind, status) for kind, status in found if status >= 500 or (status == 0 and kind not in CLOSED)
    ]
    if broken or lost or after > 1.2 * before + 20:
        sys.exit(f"the server failed: {broken}, {lost} lost, memory {before:.0f} → {after:.0f} MB")


async def main() -> None:
    """Measure, print, and fail where the server did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    digits = load_digits()
    X = np.stack([np.asarray(Image.fromarray(image).resize((28, 28))) for image in digits.images]) / 16
    requests = bad_requests(png((X[0] * 255).astype(np.uint8)))
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.safetensors"
        LOOADL(random_state=0).fit(X[:300].astype(np.float32), digits.target[:300]).save(path)
        await batching(path, requests["picture"], options.seconds)
        await mistreated(path, requests, options.requests)


if __name__ == "__main__":
    asyncio.run(main())
