"""The laboratory under load, and under attack.

    python tools/load_laboratory.py RUN [--users 50] [--seconds 60] [--points 64]
                                        [--requests 200] [--seed 0]

Serves a Darcy run and asks for predictions of `points` x `points` by many users at once, first
with requests that wait made together and then one by one: failures, p50 and p95, memory. With
`--seconds 0` there is no load. Then `requests` hostile ones, 16 at a time, the later ones random
damages of the others: each is refused with a status 4xx, and the server is alive.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import numpy as np

PATHS = ("predict", "truth", "layer")
HEAD = "POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def serve(run: Path, at_once: int) -> None:
    """What the other process does: serve, and say where."""
    from pdno.laboratory.catalogue import serve_runs
    from pdno.laboratory.computation import Batches
    from pdno.laboratory.server import Laboratory, make_server

    listening = socket.create_server(("127.0.0.1", 0))
    app = Laboratory(serve_runs([run]), Batches(at_once))
    print(listening.getsockname()[1], flush=True)
    make_server(app).run(sockets=[listening])


def start(run: Path, at_once: int) -> tuple[subprocess.Popen[str], int]:
    """A serving process and its port."""
    command = [sys.executable, __file__, str(run), "--serve", str(at_once)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def resident(process: subprocess.Popen[str]) -> float:
    """MiB of memory of a process."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def request(operator: str, points: int, seed: int) -> dict[str, object]:
    """A permeability of two phases."""
    waves = np.random.default_rng(seed).standard_normal((4, 4))
    x = np.cos(np.pi * np.outer(np.arange(4), (np.arange(points) + 0.5) / points))
    k = np.where(x.T @ waves @ x > 0, 12.0, 3.0).astype("<f4")
    data = base64.b64encode(k.tobytes()).decode()
    return {"operator": operator, "shape": [points, points], "data": data}


async def load(port: int, users: int, seconds: float, points: int) -> tuple[list[float], int]:
    """Seconds of all answers, and how many failed."""
    limits = httpx.Limits(max_connections=users)
    taken, failed = list[float](), 0
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60
    ) as client:
        operators = (await client.get("/api/operators")).json()["operators"]
        bodies = [request(operators[0]["key"], points, seed) for seed in range(20)]
        end = time.perf_counter() + seconds

        async def user(number: int) -> None:
            nonlocal failed
            chooses = random.Random(number)
            while time.perf_counter() < end:
                begin = time.perf_counter()
                answer = await client.post("/api/predict", json=chooses.choice(bodies))
                taken.append(time.perf_counter() - begin)
                failed += answer.status_code != 200

        await asyncio.gather(*(user(number) for number in range(users)))
    return taken, failed


def under_load(run: Path, at_once: int, users: int, seconds: float, points: int) -> str:
    """One line of the table."""
    process, port = start(run, at_once)
    try:
        asyncio.run(load(port, users, min(5.0, seconds / 4), points))  # warms up
        before = resident(process)
        taken, failed = asyncio.run(load(port, users, seconds, points))
        after = resident(process)
    finally:
        process.kill()
        process.wait()
    p50, p95 = (1e3 * float(np.quantile(taken, q)) for q in (0.5, 0.95))
    text = f"{len(taken)} requests, {failed} failed, {len(taken) / seconds:.0f} per second"
    return f"{text}, p50 {p50:.0f} ms, p95 {p95:.0f} ms, memory {before:.0f} -> {after:.0f} MiB"


def hostile(operator: str, points: int, count: int, seed: int) -> list[bytes]:
    """Requests that must not be answered well, as raw bytes."""
    good = request(operator, points, 0)
    values = np.frombuffer(base64.b64decode(str(good["data"])), dtype="<f4").copy()
    wrong: list[object] = [None, [], 1, "x", {}, [good], {"operator": operator}]
    for bad in (np.nan, np.inf, -np.inf, 1e30, -1.0, 0.0):
        spoiled = values.copy()
        spoiled[7] = bad
        wrong.append(good | {"data": base64.b64encode(spoiled.tobytes()).decode()})
    for shape in ([], [0, 0], [-1, 64], [1], [10**9] * 2, [64, 65], [2**63, 1], ["64", 64], [6.4]):
        wrong.append(good | {"shape": shape})
    for data in ("", "====", "A", "é" * 100, "A" * 10**5, str(good["data"])[:-4], 7, None, ["A"]):
        wrong.append(good | {"data": data})
    for name in ("", "../x", "/etc/passwd", "\x00", "a" * 10**4, {"$ne": 1}, None, 3, "%2e%2e"):
        wrong.append(good | {"operator": name})
    for key, value in (("frames", 0), ("frames", -1), ("frames", 10**12), ("frames", "1")):
        wrong.append(good | {key: value})
    for times in ([-1], [0], [1e300], ["a"], [1.0] * 1000, {}, [None], [[1]]):
        wrong.append(good | {"times": times})
    wrong += [good | {key: 1} for key in ("__proto__", "constructor", "path", "file", "extra")]
    wrong += [good | {"constants": values} for values in ([1.0], [1e9], ["x"], [None] * 100)]
    requests = [post(json.dumps(body).encode()) for body in wrong]
    nested = [b"[" * n for n in (10**3, 10**5, 10**6)] + [b'{"a":' * n for n in (10**3, 10**5)]
    broken = [b"", b"{", b"\xff" * 99, b"NaN", b'{"a":NaN}', b"[1,]", b"'x'", b"\x00" * 64]
    requests += [post(body) for body in nested + broken]
    kinds = ("text/plain", "text/html", "multipart/form-data; boundary=x", "application/xml", "")
    kinds += ("application/x-www-form-urlencoded", "application/octet-stream", "application/jsonx")
    requests += [post(json.dumps(good).encode(), kind=kind) for kind in kinds]
    paths = ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%00", "/.git/config", "/a" * 2000)
    paths += ("//etc/passwd", "/app.js/../../server.py", "/server.py", "/api", "/api/../app.js")
    paths += ("/api/certificate", "/api/certificate?operator=x&layer=0", "/openapi.json", "/docs")
    paths += (f"/api/certificate?operator={operator}&layer=-1", "/C:/windows/win.ini", "/~root")
    paths += (f"/api/certificate?operator={operator}&layer=1e9", "/api/certificate?layer[]=1")
    requests += [f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for path in paths]
    hosts = ("evil.example", "127.0.0.1.evil.example", "localhost@evil", "", "a" * 500)
    requests += [f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode() for host in hosts]
    certificate = f"/api/certificate?operator={operator}&layer=0"
    for source in ("sec-fetch-site: cross-site", "sec-fetch-site: same-site", "origin: null"):
        head = f"HTTP/1.1\r\nhost: localhost\r\n{source}\r\n\r\n"
        paths = ("/api/operators", certificate, "/app.js")
        requests += [f"GET {path} {head}".encode() for path in paths]
    slow = "HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"  # never sends the rest
    requests += [f"GET {path} {slow}".encode() for path in ("/", certificate)]
    methods = ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "BREW")
    requests += [
        f"{method} /api/predict HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for method in methods
    ]
    requests += [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\r\n" * 5 + b"x\r\n\r\n"]
    requests += [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 10**5,
    ]
    requests += [post(b"a" * 5 * 2**20), f"{HEAD}content-length: 99999999\r\n\r\n{{".encode()]
    requests += [f"{HEAD}content-length: {size}\r\n\r\n".encode() for size in ("-1", "x", "1e9")]
    requests += [f"{HEAD}content-length: 400\r\n\r\n{{".encode()] * 4  # never sends the rest
    requests += [f"{HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n".encode()] * 2
    requests += [b"GET / HTTP/1.1\r\nhost: localho"] * 4  # never ends its head
    fuzz = random.Random(seed)
    bodies = [json.dumps(body).encode() for body in wrong]
    bodies.append(json.dumps(good | {"data": "A" * 64}).encode())
    heads = [raw for raw in requests if len(raw) < 500 and raw.startswith((b"GET", b"POST"))]
    while len(requests) < count:
        whole = fuzz.random() < 0.3
        raw = damage(fuzz.choice(heads if whole else bodies), fuzz)
        requests.append(b"X" + raw + b"\r\n\r\n" if whole else post(raw, path=fuzz.choice(PATHS)))
    return requests[:count]


def damage(raw: bytes, fuzz: random.Random) -> bytes:
    """The same with some bytes changed, a part left out or repeated."""
    body = bytearray(raw)
    for _ in range(fuzz.randint(1, 8)):
        body[fuzz.randrange(len(body))] = fuzz.randrange(256)
    first, last = sorted(fuzz.randrange(len(body) + 1) for _ in range(2))
    part = bytes(body[first:last]) * fuzz.choice((0, 1, 2, 50))
    return bytes(body[:first]) + part + bytes(body[last:])


def post(body: bytes, kind: str = "application/json", path: str = "predict") -> bytes:
    head = f"POST /api/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def status(port: int, raw: bytes) -> int:
    """The status of the answer to raw bytes; 0 for none."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(OSError):  # refused before all was sent
            connection.sendall(raw)
        try:
            answer = connection.recv(64)
        except OSError:
            return 0
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def under_attack(run: Path, points: int, count: int, seed: int) -> str:
    """How the hostile requests were answered."""
    process, port = start(run, 20)
    try:
        home = f"http://127.0.0.1:{port}"
        operator = httpx.get(f"{home}/api/operators").json()["operators"][0]["key"]
        before, codes = resident(process), dict[int, int]()
        requests = hostile(operator, points, count, seed)
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(partial(status, port), requests))
        for raw, code in zip(requests, answers, strict=True):
            codes[code] = codes.get(code, 0) + 1
            if not 400 <= code < 500:
                print("answered", code, raw[:120])
        alive = httpx.post(f"{home}/api/predict", json=request(operator, points, 1), timeout=60)
        after = resident(process)
    finally:
        process.kill()
        process.wait()
    refused = sum(count for code, count in codes.items() if 400 <= code < 500)
    text = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
    good = alive.status_code == 200
    return f"{refused} of {count} refused ({text}), alive: {good}, {before:.0f} -> {after:.0f} MiB"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.run, arguments.serve)
        return
    for name, at_once in (("together", 20), ("one by one", 1)) if arguments.seconds else ():
        line = under_load(
            arguments.run, at_once, arguments.users, arguments.seconds, arguments.points
        )
        print(f"{arguments.users} users, {name}: {line}", flush=True)
    attack = under_attack(arguments.run, arguments.points, arguments.requests, arguments.seed)
    print(f"hostile, seed {arguments.seed}: {attack}", flush=True)


if __name__ == "__main__":
    main()
