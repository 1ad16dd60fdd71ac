"""`hutch run` and `hutch resume` as separate processes; only the disk cache is warm.

A server in this process imitates the provider. Figures are the best of several rounds, because other
processes use the machine too.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from bench.provider_and_installation import TIMEOUT_S, Office, a_place, bash, ended, provider
from bench.result_row import Row

from tests.llm.provider_formats import ANTHROPIC, CHAT, GEMINI, RESPONSES, Dialect

ROUNDS = 7
DELTAS = 4_000
PACE_S = 0.001
TURNS = 98  # a log of about 500 events
POLL_S = 0.02


async def first_request_s(office: Office, dialect: Dialect, *words: str) -> float:
    """Seconds from the start of the process until the provider has its first request."""
    async with provider([dialect.reply("That is all.", ())]) as plays:
        began = time.perf_counter()
        process = await office.hutch(*words, *model(dialect), dialect=dialect, url=plays.url)
        await ended(process)
        return plays.requested_at[0] - began


async def first_reply_s(office: Office) -> float:
    """Seconds until the reply of a scripted model, which runs in the process, is in the log and shown."""
    began = time.perf_counter()
    script = office.cassette({"text": "That is all."})
    process = await office.hutch("run", "Look.", "--json", "--model", script)
    assert process.stdout
    async for line in process.stdout:
        if b'"model.replied"' in line:
            took = time.perf_counter() - began
    await ended(process)
    return took


async def served_s(office: Office, dialect: Dialect) -> float:
    """The same through a running server. The first run, which loads many modules, is not counted."""
    async with provider([dialect.reply("That is all.", ())] * (ROUNDS + 1)) as plays:
        await ended(await office.hutch("up", "--detach", dialect=dialect, url=plays.url))
        try:
            took = []
            for _ in range(ROUNDS + 1):
                began = time.perf_counter()
                words = ("run", "--server", "Look.", "--repo", str(office.work), *model(dialect))
                await ended(await office.hutch(*words))
                took.append(plays.requested_at[-1] - began)
        finally:
            await ended(await office.hutch("down"))
    return min(took[1:])


def model(dialect: Dialect) -> tuple[str, str]:
    return "--model", f"{dialect.provider}:{dialect.model}"


async def peak_memory(office: Office, dialect: Dialect) -> float:
    """The peak memory in MB of a run and its child processes, each page counted once."""
    replies = [bash(dialect, number, "ls -R; cat d1/*") for number in range(20)]
    async with provider([*replies, dialect.reply("That is all.", ())], pace_s=0.005) as plays:
        process = await office.hutch("run", "Look.", *model(dialect), dialect=dialect, url=plays.url)
        waiting = asyncio.ensure_future(ended(process))
        peak = 0
        while not waiting.done():
            peak = max(peak, sum(map(held_bytes, family(process.pid))))
            await asyncio.sleep(POLL_S)
        await waiting
    return peak / 1e6


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for each in found:
        for task in Path("/proc", str(each), "task").glob("*/children"):
            found += map(int, _read(task).split())
    return found


def held_bytes(pid: int) -> int:
    lines = _read(Path("/proc", str(pid), "smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


async def core_share(office: Office, dialect: Dialect) -> float:
    """The share of a core in % that a run uses while 1,000 chunks a second arrive."""
    one, *_ = [piece for piece in dialect.reply("word ", ()) if b"word " in piece]
    whole = dialect.reply("word ", ())
    place = whole.index(one)
    reply = [*whole[:place], *[one] * DELTAS, *whole[place + 1 :]]
    async with provider([reply], pace_s=PACE_S) as plays:
        process = await office.hutch(
            "run", "Look.", *model(dialect), dialect=dialect, url=plays.url, stdout=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(TIMEOUT_S):
            await plays.was_called.wait()
        await asyncio.sleep(0.5)
        began, before = time.perf_counter(), processor_s(process.pid)
        await asyncio.sleep(DELTAS * PACE_S - 1.0)
        assert not plays.answered_at  # it is still sending
        took, spent = time.perf_counter() - began, processor_s(process.pid) - before
        await ended(process)
    return spent / took * 100


def processor_s(pid: int) -> float:
    fields = _read(Path("/proc", str(pid), "stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def break_off(office: Office, dialect: Dialect) -> None:
    """Start a run, and kill it while the model thinks."""
    replies = [bash(dialect, number, "true") for number in range(TURNS)]
    async with provider(replies) as plays:
        process = await office.hutch("run", "Look.", *model(dialect), dialect=dialect, url=plays.url)
        async with asyncio.timeout(TIMEOUT_S):
            await plays.has_no_reply.wait()
        process.send_signal(signal.SIGKILL)
        await process.communicate()


async def resumed_s(office: Office, dialect: Dialect) -> float:
    await break_off(office, dialect)
    return await first_request_s(office, dialect, "resume", "last")


def measure() -> Iterator[Row]:
    with a_place() as place:
        office = Office(place)
        took = dict.fromkeys((ANTHROPIC, CHAT, RESPONSES, GEMINI), TIMEOUT_S)
        reply_s = resume_s = TIMEOUT_S
        for _ in range(ROUNDS):  # alternately: other load affects all of them alike
            for dialect, before_s in took.items():
                took[dialect] = min(before_s, asyncio.run(first_request_s(office, dialect, "run", "Look.")))
            reply_s = min(reply_s, asyncio.run(first_reply_s(office)))
            resume_s = min(resume_s, asyncio.run(resumed_s(office, ANTHROPIC)))
        for dialect, each_s in took.items():
            yield Row(f"hutch run, {dialect}: to the first request", each_s, None, "s", 0.5)
        yield Row("hutch run, scripted: to the first reply in the log", reply_s, None, "s", 1.0)
        yield Row("hutch resume, 500 events: to the next request", resume_s, None, "s", 1.0)
        served = asyncio.run(served_s(office, CHAT))
        yield Row("hutch run --server: to the first request", served, None, "s", 0.15)
        for dialect in (ANTHROPIC, CHAT):
            peak = asyncio.run(peak_memory(office, dialect))
            yield Row(f"hutch run, {dialect}: memory with the jail", peak, None, "MB", 180)
        for dialect in (ANTHROPIC, CHAT):
            share = min(asyncio.run(core_share(office, dialect)) for _ in range(4))
            yield Row(f"hutch run, {dialect}: of a core for 1,000 chunks a second", share, None, "%", 15)
