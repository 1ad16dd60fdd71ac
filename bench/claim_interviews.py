"""100 interviews at once on one machine: from a candidate's key to the assessor, and the next question.

Each candidate has an account, types, runs tests and converses with a scripted assistant; for each of them an
assessor watches the file and the events. Afterwards every character, prompt and test run must be in what the
assessor received, without a gap in its numbers. The clients run in processes of their own, but share the
processors of this machine with the server and its jails.
"""

import asyncio
import base64
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from bench.result_row import Row, percentile
from bench.server_and_browser import Server, load, server
from prometheus_client.parser import text_string_to_metric_families
from pycrdt import Doc, Text
from websockets.asyncio.client import ClientConnection, connect

INTERVIEWS = int(os.environ.get("BENCH_INTERVIEWS", "100"))
CLIENT_PROCESSES = 4
TYPING_S = 60.0
# Of each candidate, on average. People do each of these less often: two keys a second are a typist who never
# stops to think.
KEY_S, PROMPT_S, TESTS_S = 0.5, 60.0, 90.0
BEAT_S, REPORT_S = 5.0, 20.0  # heartbeats of the page, and its reports of events such as a paste
# From one candidate's next question to another's, while the others go on: with questions of 20 minutes, 100
# interviews would need one every 12 s.
NEXT_S = 1.5
TIMEOUT_S = 120.0
FILE = 7  # the number by which a client names the file
QUESTIONS = (("meeting-rooms", "bookings.py"), ("rate-limiter", "limiter.py"))
AT_ONCE = 4  # while they are set up


@dataclass
class OngoingInterview:
    """An interview with the credentials of its candidate, and all that happened in it."""

    id: str
    workspace: str
    cookies: dict[str, str]
    headers: dict[str, str]
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

    @property
    def length(self) -> int:
        """In bytes. Unlike `text` it costs nothing."""
        return len(self._text)

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
    with tempfile.TemporaryDirectory() as directory, _server(Path(directory)) as found:
        ongoing = asyncio.run(_begin_all(found))
        before = asyncio.run(_measured(found))
        ongoing = _work_in_processes(found, ongoing)
        after = asyncio.run(_measured(found))
    _print_work(before, after)
    delays = [each for interview in ongoing for each in interview.delays_ms]
    lost = float(sum(each.lost for each in ongoing))
    ready = percentile([interview.next_ms for interview in ongoing], 95)
    label = f"{len(ongoing)} interviews with chat, tests and typing"
    yield Row(f"{label}: key to assessor, p95", percentile(delays, 95), None, "ms", 100)
    yield Row(f"{label}: key to assessor, p50", percentile(delays, 50), None, "ms", 100)
    yield Row(f"{label}: lost keys, prompts and test runs", lost, None, "", 0)
    yield Row(f"{label}: next question ready, p95", ready, None, "ms", 300)


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


@dataclass(frozen=True)
class Work:
    """The work of the server so far, as it measures it."""

    at: float
    processor_s: float
    polls: float  # of its event loop
    late_polls: float  # by more than 0.1 s


async def _measured(place: Server) -> Work:
    async with place.api as owner:
        answer = await owner.get(f"{place.url}/metrics")
    found = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name.startswith(("process_cpu", "hutch_event_loop_lag"))
    }
    lag = "hutch_event_loop_lag_seconds_bucket"
    polls = found[lag, "+Inf"]
    seconds = found["process_cpu_seconds_total", ""]
    return Work(time.monotonic(), seconds, polls, polls - found[lag, "0.1"])


def _print_work(before: Work, after: Work) -> None:
    cores = (after.processor_s - before.processor_s) / (after.at - before.at)
    late = (after.late_polls - before.late_polls) / (after.polls - before.polls)
    print(f"the server used {cores:.2f} cores; its event loop was late by 0.1 s in {late:.1%} of polls")
    print(load())


async def _begin_all(place: Server) -> list[OngoingInterview]:
    turn = asyncio.Semaphore(AT_ONCE)
    async with place.api as owner:
        return await asyncio.gather(*(_begun(place, owner, turn, number) for number in range(INTERVIEWS)))


async def _begun(
    place: Server, owner: httpx.AsyncClient, turn: asyncio.Semaphore, number: int
) -> OngoingInterview:
    """A planned interview, whose candidate has come and whose first question is open."""
    async with (
        turn,
        httpx.AsyncClient(base_url=owner.base_url, trust_env=False, timeout=TIMEOUT_S) as candidate,
    ):
        questions = [{"id": name, "language": "python"} for name, _ in QUESTIONS]
        plan = {"title": f"Interview {number}", "questions": questions, "minutes": 60}
        made = await _ok(owner.post("/interviews", json=plan))
        invited = await _ok(owner.post(f"/interviews/{made['id']}/invitations", json={"role": "candidate"}))
        accepted = {
            "invite": invited["url"].partition("#")[2],
            "name": f"candidate-{number}",
            "password": "correct horse battery",
        }
        answer = await _ok(candidate.post("/invites/accept", json=accepted))
        headers = {"X-CSRF-Token": answer["csrf"], "Origin": place.url}
        candidate.headers.update(headers)
        await _ok(candidate.post(f"/interviews/{made['id']}/lobby", json={}))
        begun = await _ok(owner.post(f"/interviews/{made['id']}/begin"))
        workspace = begun["question"]["workspace"]
        await _file(candidate, workspace, QUESTIONS[0][1])
        return OngoingInterview(made["id"], workspace, dict(candidate.cookies), headers)


def _work_in_processes(place: Server, ongoing: Sequence[OngoingInterview]) -> list[OngoingInterview]:
    """Let all candidates work at once, and take what happened."""
    begin = time.monotonic() + 5  # this clock is the same in all processes
    ends = [begin + TYPING_S + at * NEXT_S for at in range(len(ongoing))]
    work = partial(_work_in_process, place, begin)
    shares = [list(zip(ongoing, ends, strict=True))[at::CLIENT_PROCESSES] for at in range(CLIENT_PROCESSES)]
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(CLIENT_PROCESSES, mp_context=fresh) as processes:
        return [each for done in processes.map(work, shares) for each in done]


def _work_in_process(
    place: Server, begin: float, share: Sequence[tuple[OngoingInterview, float]]
) -> list[OngoingInterview]:
    async def conduct() -> None:
        async with place.api as owner:
            await asyncio.gather(*(_work(place, owner, each, begin, ends) for each, ends in share))

    asyncio.run(conduct())
    return [each for each, _ in share]


async def _work(
    place: Server, owner: httpx.AsyncClient, interview: OngoingInterview, begin: float, ends: float
) -> None:
    """Type, run tests and ask until it is this candidate's turn for the next question; watch all of it."""
    path, pairs = QUESTIONS[0][1], (f"{name}={value}" for name, value in interview.cookies.items())
    headers = {"Cookie": "; ".join(pairs), "Origin": place.url}
    candidate = _client(owner, cookies=interview.cookies, headers=interview.headers)
    watching = asyncio.ensure_future(_watch(owner, interview))
    async with candidate:
        async with (
            _socket(place, interview.workspace, headers) as typing,
            _socket(place, interview.workspace, {"Authorization": owner.headers["Authorization"]}) as looking,
        ):
            typed, seen = Editor(typing), Editor(looking)
            await typed.open(path)
            await seen.open(path)
            assert typed.text == seen.text, "both have the starter"
            interview.base = seen.length
            reading = [asyncio.ensure_future(each) for each in (_see(interview, seen), typed.read_all())]
            acts = _act(candidate, interview, begin, ends)
            await asyncio.gather(_type(interview, typed, begin + random.random(), ends), acts)
            await _until(lambda: len(interview.delays_ms) == len(interview.keys), "all keys have arrived")
            interview.is_same = typed.text == seen.text
            for task in reading:
                task.cancel()
        await _until(
            lambda: interview.seen_tests >= interview.tests and interview.seen_prompts >= interview.prompts,
            "all events",
        )
        began = time.perf_counter()
        moved = await _ok(candidate.post(f"/interviews/{interview.id}/next", json={"after": 1}))
        await _file(candidate, moved["question"]["workspace"], QUESTIONS[1][1])
        interview.next_ms = (time.perf_counter() - began) * 1000
    watching.cancel()


async def _type(interview: OngoingInterview, editor: Editor, begins: float, ends: float) -> None:
    await asyncio.sleep(max(0.0, begins - time.monotonic()))
    while time.monotonic() < ends:
        interview.keys.append(time.perf_counter())
        await editor.append("\n" if len(interview.keys) % 40 == 0 else "#")
        await asyncio.sleep(KEY_S * (0.5 + random.random()))


async def _act(candidate: httpx.AsyncClient, interview: OngoingInterview, begin: float, ends: float) -> None:
    """Heartbeats, reports of the page, runs of tests, prompts: each candidate at times of their own."""
    room, workspace = f"/interviews/{interview.id}", f"/sessions/{interview.workspace}"

    async def beat() -> None:
        await _ok(candidate.post(f"{room}/heartbeat"))

    async def report() -> None:
        events = [{"type": "focus", "data": {}}]
        await _ok(candidate.post(f"{room}/events/batch", json={"events": events}))

    async def test() -> None:
        answer = await candidate.post(f"{workspace}/tests", json={"wait_s": 0})
        if answer.status_code != 409:  # the last run goes on: the page offers no other
            assert answer.status_code < 300, answer.text
            interview.tests += 1

    async def ask() -> None:
        interview.prompts += 1
        await _ok(
            candidate.post(f"{workspace}/inputs", json={"type": "prompt", "text": "Where should I look?"})
        )

    async def repeat(act: Callable[[], Awaitable[None]], every_s: float) -> None:
        at = begin + random.random() * min(every_s, TYPING_S)  # so that each does everything at least once
        while at < ends:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            await act()
            at = max(at + every_s, time.monotonic())

    await asyncio.gather(
        repeat(beat, BEAT_S), repeat(report, REPORT_S), repeat(test, TESTS_S), repeat(ask, PROMPT_S)
    )


async def _see(interview: OngoingInterview, editor: Editor) -> None:
    """Note when each key arrives at the assessor."""
    while True:
        await editor.read()
        now, arrived = time.perf_counter(), editor.length - interview.base
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


def _client(owner: httpx.AsyncClient, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=owner.base_url, trust_env=False, timeout=TIMEOUT_S, **options)


def _socket(place: Server, session: str, headers: dict[str, str]) -> Any:
    address = f"{place.url.replace('http', 'ws', 1)}/api/v1/sessions/{session}/documents/socket"
    # Browsers send no pings.
    return connect(address, additional_headers=headers, compression=None, proxy=None, ping_interval=None)
