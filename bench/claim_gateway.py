"""A server under load: 200 sessions, 50 of them busy, 400 followers, and one REST client.

The server is a separate process, started as users start it. Busy sessions print the time
inside their jails; a follower computes the delay when the line has arrived over SSE. Every
follower checks that the numbers of events have no gaps or repetitions, and that all
followers get the same hash of an event.

`HUTCH_BENCH_DELIVERIES=1000000` continues until a million events were delivered,
`HUTCH_BENCH_LOAD_S=3600` for an hour. The memory of the server is compared between the
middle of the load and its end.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from bench.result_row import Row, percentile

SESSIONS, BUSY, FOLLOWERS = 200, 50, 400
LOAD_S = float(os.environ.get("HUTCH_BENCH_LOAD_S", "60"))
DELIVERIES = int(os.environ.get("HUTCH_BENCH_DELIVERIES", "0"))
READS_APART_S = 0.02
PRINT_APART_S = float(os.environ.get("HUTCH_BENCH_PRINT_APART_S", "0.1"))
PRINT = f"bash -c 'exec 9<> <(:); while :; do echo $EPOCHREALTIME; read -t {PRINT_APART_S} -u 9; done'"
HUTCH = Path(sys.executable).with_name("hutch")


@dataclass
class SeenEvents:
    """The events that all followers have received."""

    delays_ms: list[float] = field(default_factory=list)
    deliveries: int = 0
    wrong: list[str] = field(default_factory=list)
    hashes: dict[tuple[str, int], str] = field(default_factory=dict)
    measuring: bool = False


def measure() -> Iterator[Row]:
    home = Path(tempfile.mkdtemp(prefix="hutch-bench-"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HUTCH_HOME": str(home),
        "HUTCH_SERVER__PORT": "18585",
        "HUTCH_SERVER__REQUESTS_PER_MINUTE": "1000000",
        "HUTCH_SERVER__STREAMS_PER_USER": "1000",
        "HUTCH_SESSIONS__OPEN": "1000",
        "HUTCH_SESSIONS__RUNS": "8",
        "HUTCH_SESSIONS__RUNS_PER_USER": "8",
    }
    began = time.perf_counter()
    subprocess.run([HUTCH, "up", "--detach"], env=environment, check=True, stdout=subprocess.DEVNULL)
    ready_s = time.perf_counter() - began
    try:
        token = _json(environment, "tokens", "create", "--json")["token"]
        yield Row("server ready after its start", ready_s, None, "s", 1.5)
        yield from asyncio.run(_load(token, environment))
    finally:
        subprocess.run([HUTCH, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)


async def _load(token: str, environment: dict[str, str]) -> list[Row]:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=80)
    async with httpx.AsyncClient(
        base_url="http://127.0.0.1:18585", headers=headers, limits=limits, timeout=120
    ) as api:
        pid = _json(environment, "status", "--json")["pid"]
        empty_kib = _tree_pss_kib(pid)
        ids = await _sessions(api)
        idle_mib = (_tree_pss_kib(pid) - empty_kib) / 1024 / SESSIONS
        seen = SeenEvents()
        following = [
            asyncio.ensure_future(_follow(token, ids[number % SESSIONS], seen)) for number in range(FOLLOWERS)
        ]
        await asyncio.gather(*(_begin(api, id) for id in ids[:BUSY]))
        await asyncio.sleep(3)
        seen.measuring = True
        reads_ms = await _read(api, ids, seen, LOAD_S / 2)
        middle_kib = _pss_kib(pid)
        reads_ms += await _read(api, ids, seen, LOAD_S / 2, DELIVERIES)
        end_kib = _pss_kib(pid)
        seen.measuring = False
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    await _check(token, seen)
    print(f"  {seen.deliveries:,} deliveries, {len(seen.delays_ms):,} of them timed, {len(reads_ms):,} reads")
    lost = len(seen.wrong)
    for line in seen.wrong[:5]:
        print(f"  {line}")
    return [
        Row(
            f"from the jail to an SSE client, p99 ({BUSY} busy, {FOLLOWERS} followers)",
            percentile(seen.delays_ms, 99),
            None,
            "ms",
            50,
        ),
        Row("the same, p50", percentile(seen.delays_ms, 50), None, "ms", 50),
        Row("events lost or repeated", lost, None, f"of {seen.deliveries:,}", 0),
        Row("reading over REST meanwhile, p99", percentile(reads_ms, 99), None, "ms", 20),
        Row("memory of an idle session", idle_mib, None, "MiB", 12),
        Row("the server at the end of the load", end_kib / 1024, middle_kib / 1024, "MiB", 1.1, "its middle"),
    ]


async def _sessions(api: httpx.AsyncClient) -> list[str]:
    room = asyncio.Semaphore(8)

    async def one(number: int) -> str:
        async with room:
            made = await api.post("/api/v1/sessions", json={"purpose": f"bench {number}"})
            made.raise_for_status()
            id: str = made.json()["id"]
            while (await api.get(f"/api/v1/sessions/{id}")).json()["state"] != "idle":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return id

    return await asyncio.gather(*(one(number) for number in range(SESSIONS)))


async def _begin(api: httpx.AsyncClient, id: str) -> None:
    request = {"command": PRINT, "yield_s": 0.1, "timeout_s": 3600}
    (await api.post(f"/api/v1/sessions/{id}/commands", json=request)).raise_for_status()


async def _follow(token: str, id: str, seen: SeenEvents) -> None:
    """A minimal SSE client: a complete one would mainly measure itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", 18585, limit=1 << 22)
    path = f"/api/v1/sessions/{id}/events/stream"
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:18585\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    last = 0
    try:
        async for line in reader:
            if not line.startswith(b'data: {"seq"'):
                continue
            now = time.time()
            entry = json.loads(line[6:])
            seq = entry["seq"]
            seen.deliveries += 1
            if seq != last + 1:
                seen.wrong.append(f"{id}: {seq} after {last}")
            if seen.hashes.setdefault((id, seq), entry["hash"]) != entry["hash"]:
                seen.wrong.append(f"{id}: {seq} has two hashes")
            last = seq
            event = entry["event"]
            if seen.measuring and event["type"] == "shell.printed":
                printed = event["text"].split()
                if printed:
                    seen.delays_ms.append((now - float(printed[-1])) * 1000)
        seen.wrong.append(f"{id}: the stream ended after {last}")
    finally:
        writer.close()


async def _read(
    api: httpx.AsyncClient, ids: list[str], seen: SeenEvents, seconds: float, deliveries: int = 0
) -> list[float]:
    """Send reads one after the other during the load; returns how long each took."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or seen.deliveries < deliveries:
        id = ids[len(took) % SESSIONS]
        path = f"/api/v1/sessions/{id}" if len(took) % 2 else f"/api/v1/sessions/{id}/events?limit=50"
        began = time.perf_counter()
        (await api.get(path)).raise_for_status()
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(READS_APART_S)
    return took


async def _check(token: str, seen: SeenEvents) -> None:
    """Check that followers received the events that are in the log."""
    async with httpx.AsyncClient(
        base_url="http://127.0.0.1:18585", headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as api:
        for id in {id for id, _ in seen.hashes}:
            of_session = {seq: hash for (each, seq), hash in seen.hashes.items() if each == id}
            after = 0
            while after < max(of_session):
                page = (await api.get(f"/api/v1/sessions/{id}/events?after={after}&limit=500")).json()[
                    "items"
                ]
                if not page:
                    seen.wrong.append(f"{id}: nothing in the log after {after}")
                    break
                for entry in page:
                    after = entry["seq"]
                    if of_session.get(after, entry["hash"]) != entry["hash"]:
                        seen.wrong.append(f"{id}: {after} is another in the log")


def _json(environment: dict[str, str], *command: str) -> dict[str, Any]:
    ran = subprocess.run([HUTCH, *command], env=environment, check=True, capture_output=True)
    output: dict[str, Any] = json.loads(ran.stdout)
    return output


def _tree_pss_kib(pid: int) -> int:
    """The memory of a process and its descendants, shared memory counted once."""
    total, left = 0, [pid]
    while left:
        one = left.pop()
        try:
            total += _pss_kib(one)
            for task in Path(f"/proc/{one}/task").iterdir():
                left += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError):
            continue
    return total


def _pss_kib(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
