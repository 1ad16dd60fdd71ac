"""`POST /api/code`: the time to the first model call, and twenty concurrent requests.

It uses a small repository that the server already knows, and a scripted model that replies
at once. The time of the first reply is read from the log.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from bench.result_row import Row

ROUNDS, CONCURRENT_REQUESTS = 15, 20
HUTCH = Path(sys.executable).with_name("hutch")
REPLIES = [
    {"text": "Now.", "calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "new\n"}}]},
    {"calls": [{"tool": "finish", "args": {"title": "A new file"}}]},
]


def measure() -> Iterator[Row]:
    home = Path(tempfile.mkdtemp(prefix="hutch-bench-"))
    script = home / "script.json"
    script.write_text(json.dumps({"replies": REPLIES}))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HUTCH_HOME": str(home / "hutch"),
        "HUTCH_SERVER__PORT": "18586",
        "HUTCH_MODEL": f"scripted:{script}",
    }
    repo = _repository(home / "repo")
    subprocess.run([HUTCH, "up", "--detach"], env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        made = subprocess.run(
            [HUTCH, "tokens", "create", "--json"], env=environment, check=True, capture_output=True
        )
        token = json.loads(made.stdout)["token"]
        overhead_ms, took_s, done = asyncio.run(_ask(token, str(repo)))
        spread = f"minimum {min(overhead_ms):.0f} ms, maximum {max(overhead_ms):.0f} ms"
        print(f"  {spread}; {CONCURRENT_REQUESTS} took {took_s:.1f} s")
        yield Row("from the request to the first model call", statistics.median(overhead_ms), None, "ms", 150)
        yield Row(
            f"of {CONCURRENT_REQUESTS} concurrent requests, delivered",
            done,
            None,
            "",
            CONCURRENT_REQUESTS,
            at_least=True,
        )
    finally:
        subprocess.run([HUTCH, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)


async def _ask(token: str, repo: str) -> tuple[list[float], float, int]:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    async with httpx.AsyncClient(base_url="http://127.0.0.1:18586", headers=headers, timeout=300) as api:
        await _one(api, repo)  # the server knows the repository from now on
        overhead_ms = [await _one(api, repo) for _ in range(ROUNDS)]
        began = time.perf_counter()
        request = {"repoUrl": repo, "prompt": "Make a new file."}
        responses = await asyncio.gather(
            *(api.post("/api/code", json=request) for _ in range(CONCURRENT_REQUESTS))
        )
        took_s = time.perf_counter() - began
        return overhead_ms, took_s, sum(each.json()["outcome"] == "done" for each in responses)


async def _one(api: httpx.AsyncClient, repo: str) -> float:
    began_ms = time.time() * 1000
    result: dict[str, Any] = (
        await api.post("/api/code", json={"repoUrl": repo, "prompt": "Make a new file."})
    ).json()
    events = (await api.get(f"/api/v1/sessions/{result['session']}/events?limit=200")).json()["items"]
    first = next(entry for entry in events if entry["event"]["type"] == "model.replied")
    return float(first["at_ms"] - began_ms)


def _repository(place: Path) -> Path:
    place.mkdir()
    for number in range(20):
        (place / f"file{number}.py").write_text(f"x = {number}\n")
    git = ["git", "-C", str(place), "-c", "user.name=B", "-c", "user.email=b@example.com"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], check=True)
    return place
