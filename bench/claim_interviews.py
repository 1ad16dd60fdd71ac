"""100 interviews at once on one machine: from a candidate's key to the assessor, and the next question.

Each candidate has an account, types, runs tests and converses with a scripted assistant; for each of them an
assessor watches the file and the events. Afterwards every character, prompt and test run must be in what the
assessor received, without a gap in its numbers.
"""

import asyncio
import base64
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from bench.result_row import Row, percentile
from bench.server_and_browser import Server, server
from pycrdt import Doc, Text
from websockets.asyncio.client import ClientConnection, connect

INTERVIEWS = int(os.environ.get("BENCH_INTERVIEWS", "100"))
TYPING_S = 60.0
NEXT_S = 0.5  # from one candidate's next question to another's; the rest goes on typing
KEY_S = 0.5  # on average: people think while they type
BEAT_S, TESTS_S, PROMPT_S = 5.0, 60.0, 40.0  # from one to the next, of each candidate
TIMEOUT_S = 120.0
FILE = 7  # the number by which a client names the file
QUESTIONS = (("meeting-rooms", "bookings.py"), ("rate-limiter", "limiter.py"))
AT_ONCE = 4  # while they are set up


@dataclass
class OngoingInterview:
    """An interview with its candidate, and all that happened in it."""

    candidate: httpx.AsyncClient
    id: str
    workspace: str = ""
    keys: list[float] = field(default_factory=list)  # when each was typed
    delays_ms: list[float] = field(default_factory=list)  # until the assessor had it
    base: int = 0  # the length of the starter
    is_same: bool = False  # whether both have the same text at the end
    prompts: int = 0
    tests: int = 0
    seen_prompts: int = 0
    seen_tests: int = 0
    seq: int = 0
    gaps: int = 0  # in the numbers of the assessor's events
    next_ms: float = 0.0

    @property
    def lost(self) -> int:
        events = max(0, self.prompts - self.seen_prompts) + max(0, self.tests - self.seen_tests)
        return events + self.gaps + len(self.keys) - len(self.delays_ms) + (not self.is_same)


class Editor:
    """A client that has one file open, as a browser would."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._doc: Doc[Text] = Doc()
        self._doc["content"] = self._text = Text()

    @property
    def text(self) -> str:
        return str(self._text)

    async def open(self, path: str) -> None:
        state = base64.b64encode(self._doc.get_state()).decode()
        frame = {"type": "open", "document": FILE, "path": path, "epoch": "", "state": state}
        await self._connection.send(json.dumps(frame))
        while not self._text:
            await self.read()

    async def append(self, text: str) -> None:
        before = self._doc.get_state()
        self._text += text
        await self._connection.send(FILE.to_bytes(4) + self._doc.get_update(before))

    async def read(self) -> None:
        frame = await self._connection.recv()
        if isinstance(frame, bytes):
            self._doc.apply_update(frame[4:])

    async def read_all(self) -> None:
        while True:
            await self.read()


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with _server(place) as found:
            ongoing = asyncio.run(_conduct(found))
    delays = [each for interview in ongoing for each in interview.delays_ms]
    label = f"{len(ongoing)} interviews with chat, tests and typing"
    yield Row(f"{label}: key to assessor, p95", percentile(delays, 95), None, "ms", 100)
    yield Row(f"{label}: key to assessor, p50", percentile(delays, 50), None, "ms", 100)
    yield Row(
        f"{label}: lost keys, prompts and test runs", float(sum(each.lost for each in ongoing)), None, "", 0
    )
    yield Row(
        f"{label}: next question ready, p95",
        percentile([interview.next_ms for interview in ongoing], 95),
        None,
        "ms",
        300,
    )


def _server(place: Path) -> Any:
    cassette = place / "cassette.json"
    reply = {"text": "Which of the two bookings begins first? Try **that** one.", "times": 1_000_000}
    cassette.write_text(json.dumps({"replies": [reply]}))
    settings = {
        "HUTCH_MODEL": f"scripted:{cassette}",
        "HUTCH_SERVER__REQUESTS_PER_MINUTE": "1000000",
        "HUTCH_SERVER__STREAMS_PER_USER": "10000",
    }
    return server(place / "home", **settings)


async def _conduct(place: Server) -> list[OngoingInterview]:
    """Set all interviews up, then let all candidates work at once."""
    turn = asyncio.Semaphore(AT_ONCE)
    async with place.api as owner:
        ongoing = await asyncio.gather(*(_begun(place, owner, turn, number) for number in range(INTERVIEWS)))
        begin = time.monotonic() + 5
        await asyncio.gather(
            *(_work(place, owner, interview, at, begin) for at, interview in enumerate(ongoing))
        )
        for interview in ongoing:
            await interview.candidate.aclose()
    return ongoing


async def _begun(
    place: Server, owner: httpx.AsyncClient, turn: asyncio.Semaphore, number: int
) -> OngoingInterview:
    """A planned interview, whose candidate has come and whose first question is open."""
    async with turn:
        questions = [{"id": name, "language": "python"} for name, _ in QUESTIONS]
        plan = {"title": f"Interview {number}", "questions": questions, "minutes": 60}
        made = await _ok(owner.post("/interviews", json=plan))
        invited = await _ok(owner.post(f"/interviews/{made['id']}/invitations", json={"role": "candidate"}))
        candidate = httpx.AsyncClient(base_url=owner.base_url, trust_env=False, timeout=TIMEOUT_S)
        accepted = {
            "invite": invited["url"].partition("#")[2],
            "name": f"candidate-{number}",
            "password": "correct horse battery",
        }
        answer = await _ok(candidate.post("/invites/accept", json=accepted))
        candidate.headers.update({"X-CSRF-Token": answer["csrf"], "Origin": place.url})
        interview = OngoingInterview(candidate, made["id"])
        await _ok(candidate.post(f"/interviews/{interview.id}/lobby", json={}))
        begun = await _ok(owner.post(f"/interviews/{interview.id}/begin"))
        interview.workspace = begun["question"]["workspace"]
        await _file(candidate, interview.workspace, QUESTIONS[0][1])
        return interview


async def _work(
    place: Server, owner: httpx.AsyncClient, interview: OngoingInterview, at: int, begin: float
) -> None:
    """Type, run tests and ask until it is this candidate's turn for the next question; watch all of it."""
    path = QUESTIONS[0][1]
    cookies = "; ".join(f"{name}={value}" for name, value in interview.candidate.cookies.items())
    headers = {"Cookie": cookies, "Origin": place.url}
    watching = asyncio.ensure_future(_watch(owner, interview))
    try:
        async with (
            _socket(place, interview.workspace, headers) as typing,
            _socket(place, interview.workspace, {"Authorization": owner.headers["Authorization"]}) as looking,
        ):
            typed, seen = Editor(typing), Editor(looking)
            await typed.open(path)
            await seen.open(path)
            assert typed.text == seen.text, "both have the starter"
            interview.base = len(seen.text)
            reading = [asyncio.ensure_future(each) for each in (_see(interview, seen), typed.read_all())]
            ends = begin + TYPING_S + at * NEXT_S
            acts = [_type(interview, typed, begin + random.random(), ends), _act(interview, begin, ends)]
            await asyncio.gather(*acts)
            await _until(lambda: len(interview.delays_ms) == len(interview.keys), "all keys have arrived")
            interview.is_same = typed.text == seen.text
            for task in reading:
                task.cancel()
        await _until(
            lambda: interview.seen_tests >= interview.tests and interview.seen_prompts >= interview.prompts,
            "all events",
        )
        began = time.perf_counter()
        moved = await _ok(interview.candidate.post(f"/interviews/{interview.id}/next", json={"after": 1}))
        await _file(interview.candidate, moved["question"]["workspace"], QUESTIONS[1][1])
        interview.next_ms = (time.perf_counter() - began) * 1000
    finally:
        watching.cancel()


async def _type(interview: OngoingInterview, editor: Editor, begins: float, ends: float) -> None:
    await asyncio.sleep(max(0.0, begins - time.monotonic()))
    while time.monotonic() < ends:
        interview.keys.append(time.perf_counter())
        await editor.append("\n" if len(interview.keys) % 40 == 0 else "#")
        await asyncio.sleep(KEY_S * (0.5 + random.random()))


async def _act(interview: OngoingInterview, begin: float, ends: float) -> None:
    """Heartbeats, the events of the client, runs of tests, prompts: each candidate at times of their own."""
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    clock = dict.fromkeys(("beat", "tests", "prompt"), 0.0)
    clock["tests"], clock["prompt"] = (
        time.monotonic() + random.random() * each for each in (TESTS_S, PROMPT_S)
    )
    while time.monotonic() < ends:
        now = time.monotonic()
        if now >= clock["beat"]:
            clock["beat"] = now + BEAT_S
            await _ok(interview.candidate.post(f"/interviews/{interview.id}/heartbeat"))
            batch = {"events": [{"type": "code_change", "data": {"length": len(interview.keys)}}]}
            await _ok(interview.candidate.post(f"/interviews/{interview.id}/events/batch", json=batch))
        if now >= clock["tests"]:
            clock["tests"] = now + TESTS_S
            interview.tests += 1
            await _ok(interview.candidate.post(f"/sessions/{interview.workspace}/tests", json={"wait_s": 0}))
        if now >= clock["prompt"]:
            clock["prompt"] = now + PROMPT_S
            interview.prompts += 1
            prompt = {"type": "prompt", "text": "Where should I look?"}
            await _ok(interview.candidate.post(f"/sessions/{interview.workspace}/inputs", json=prompt))
        await asyncio.sleep(0.2)


async def _see(interview: OngoingInterview, editor: Editor) -> None:
    """Note when each key arrives at the assessor."""
    while True:
        await editor.read()
        now, arrived = time.perf_counter(), len(editor.text) - interview.base
        for typed_at in interview.keys[len(interview.delays_ms) : arrived]:
            interview.delays_ms.append((now - typed_at) * 1000)


async def _watch(owner: httpx.AsyncClient, interview: OngoingInterview) -> None:
    """Follow the events of the workspace as the assessor's page does."""
    async with owner.stream("GET", f"/sessions/{interview.workspace}/events/stream") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("id: "):
                interview.gaps += int(line[4:]) != interview.seq + 1
                interview.seq = int(line[4:])
            interview.seen_tests += line == "event: tests.run"
            interview.seen_prompts += line == "event: run.ended"


async def _file(client: httpx.AsyncClient, session: str, path: str) -> None:
    """Return when the candidate can read a file."""
    async with asyncio.timeout(TIMEOUT_S):
        while (await client.get(f"/sessions/{session}/files/{path}")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    if not holds():
        print(f"waited in vain until {what}")


async def _ok(request: Awaitable[httpx.Response]) -> Any:
    answer = await request
    assert answer.status_code < 300, f"{answer.request.url}: {answer.text}"
    return answer.json() if answer.content else None


def _socket(place: Server, session: str, headers: dict[str, str]) -> Any:
    address = f"{place.url.replace('http', 'ws', 1)}/api/v1/sessions/{session}/documents/socket"
    return connect(address, additional_headers=headers, compression=None, proxy=None)
