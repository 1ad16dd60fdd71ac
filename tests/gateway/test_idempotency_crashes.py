"""After a server was killed during requests, repeated requests create nothing twice."""

import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.hutch_up_process import Home, Up
from tests.gateway.api_server import TIMEOUT_S, V1, cassette

CALLERS = 8
KEYS = 15


def client(up: Up) -> httpx.Client:
    return httpx.Client(base_url=up.url, headers=up.owner(), timeout=TIMEOUT_S, trust_env=False)


def send(up: Up, path: str, body: dict[str, Any], key: str) -> httpx.Response | None:
    """The response; None if the server was killed first."""
    with client(up) as http:
        try:
            return http.post(f"{V1}{path}", json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            return None


@pytest.mark.parametrize("round", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_in_the_middle(tmp_path: Path, round: int) -> None:
    home = Home(tmp_path)
    quiet = {
        "HUTCH_MODEL": cassette(tmp_path / "model.json", {"text": "Done.", "times": 1_000_000}),
        "HUTCH_LOG__LEVEL": "error",
        "HUTCH_SERVER__REQUESTS_PER_MINUTE": "10000000",
    }
    with home.up(**quiet) as up, client(up) as http:
        session = http.post(f"{V1}/sessions", json={"purpose": "inputs"}).json()["id"]
        paused = http.post(f"{V1}/sessions/{session}/inputs", json={"type": "pause"})
        assert paused.status_code == 202
    wanted = [("/sessions", {"purpose": f"key{number}"}, f"s{number}") for number in range(KEYS)]
    inputs = f"/sessions/{session}/inputs"
    wanted += [(inputs, {"type": "message", "text": f"key{number}"}, f"i{number}") for number in range(KEYS)]
    random.Random(round).shuffle(wanted)
    first: list[httpx.Response | None] = []
    with home.up(**quiet) as up, ThreadPoolExecutor(CALLERS) as callers:
        sent = [callers.submit(send, up, *each) for each in wanted[:KEYS]]
        while sum(each.done() for each in sent) < KEYS // 2 + round:
            time.sleep(0.001)
        up.process.send_signal(signal.SIGKILL)
        up.process.wait(TIMEOUT_S)
        sent += [callers.submit(send, up, *each) for each in wanted[KEYS:]]
        first = [each.result() for each in sent]
    assert None in first
    with home.up(**quiet) as up, client(up) as http:
        second = [send(up, *each) for each in wanted]
        for before, after in zip(first, second, strict=True):
            assert after is not None
            assert after.status_code in (201, 202), after.text
            if before is not None:
                assert before.json() == after.json()
                assert after.headers["idempotency-replayed"] == "true"
        listed = http.get(f"{V1}/sessions?limit=200").json()["items"]
        given = http.get(f"{V1}{inputs}?limit=200&after=1").json()["items"]
    purposes = Counter(each["purpose"] for each in listed)
    assert purposes == Counter({f"key{number}": 1 for number in range(KEYS)} | {"inputs": 1})
    assert Counter(each["input"]["text"] for each in given) == Counter(
        {f"key{number}": 1 for number in range(KEYS)}
    )
