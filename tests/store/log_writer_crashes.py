"""Kill the writer at random moments and check what it left: log_writer_crashes.py DIRECTORY ROUNDS SEED

Each round forks a process that appends to several sessions at once, small events
and blobs, from many callers, and tells through a pipe what was acknowledged. It
is killed with SIGKILL in the middle. A second one then checks that every
acknowledged event is there with the hash that was returned, that all chains are
whole, and that the log can be written on.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path

from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store.event_log import SqlLog, open_log
from hutch.store.hash_chain import GENESIS, hash_payload, link
from hutch.store.signed_log_head_statements import is_signed_by


def fork(work: Coroutine[None, None, None]) -> int:
    """Run a coroutine in a process of its own, which never returns into this one."""
    pid = os.fork()
    if pid:
        work.close()
        return pid
    status = 1
    try:
        asyncio.run(work)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


async def write(home: Path, sessions: list[SessionId], fresh: bool, pipe: int) -> None:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        if fresh:
            for session_id in sessions:
                await acknowledge(log, session_id, 1, [SessionOpened()], pipe)
        os.write(pipe, b"ready\n")
        async with asyncio.TaskGroup() as callers:
            for number in range(20):
                callers.create_task(keep_writing(log, sessions[number % len(sessions)], number, pipe))


async def keep_writing(log: SqlLog, session_id: SessionId, caller: int, pipe: int) -> None:
    rng = random.Random(caller)
    for number in range(10_000):
        size = 40_000 if rng.random() < 0.05 else rng.randrange(200)
        count = rng.choice((1, 1, 1, 5, 70))
        events = [MessageSent(author="agent", text=f"{caller} {number} " + "x" * size) for _ in range(count)]
        await acknowledge(log, session_id, count, events, pipe)


async def acknowledge(log: SqlLog, session_id: SessionId, count: int, events: list, pipe: int) -> None:  # type: ignore[type-arg]
    head = await log.append(session_id, events)
    os.write(pipe, f"{session_id} {head.seq} {head.hash}\n".encode())


async def check(home: Path, acknowledged: dict[SessionId, dict[int, str]]) -> None:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        for session_id, result in acknowledged.items():
            hashes: dict[int, str] = {}
            prev = GENESIS
            async with log.evidence(session_id, WHOLE) as evidence:
                async for record in evidence.records:
                    assert record.seq == len(hashes) + 1, f"gap before {record.seq} in {session_id}"
                    assert record.salt is not None and record.payload is not None
                    assert record.payload_hash == hash_payload(record.salt, record.payload)
                    prev = link(session_id, record.seq, record.at_ms, record.type, record.payload_hash, prev)
                    assert record.hash == prev, f"broken chain at {record.seq} in {session_id}"
                    hashes[record.seq] = prev
                for said in evidence.statements:
                    assert said.hash == hashes[said.seq] and is_signed_by(
                        said, evidence.public_keys[said.key]
                    )
            for seq, hash_ in result.items():
                assert hashes.get(seq) == hash_, f"acknowledged event {seq} of {session_id} is lost"
            await log.append(session_id, [MessageSent(author="hutch", text="still here")])


def run(home: Path, rounds: int, seed: int) -> int:
    """How many events were acknowledged over all rounds; an AssertionError when one is lost."""
    rng = random.Random(seed)
    total = 0
    for number in range(rounds):
        fresh = number % 5 == 0  # several crashes on the same logs, then new ones
        if fresh:
            sessions = [new_session_id() for _ in range(4)]
            acknowledged: dict[SessionId, dict[int, str]] = {session_id: {} for session_id in sessions}
        reading, writing = os.pipe()
        writer = fork(write(home, sessions, fresh, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            lines = []
            while (line := pipe.readline()) not in (b"ready\n", b""):
                lines.append(line)
            time.sleep(rng.uniform(0, 0.15))
            os.kill(writer, signal.SIGKILL)
            lines += pipe.read().splitlines(keepends=True)
        os.waitpid(writer, 0)
        for line in lines:
            if line.endswith(b"\n"):  # the last one may be cut off
                session_id, seq, hash_ = line.decode().split()
                acknowledged[SessionId(session_id)][int(seq)] = hash_
                total += 1
        _, status = os.waitpid(fork(check(home, acknowledged)), 0)
        assert status == 0, f"round {number} (seed {seed}) lost something"
    return total


if __name__ == "__main__":
    acks = run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(f"{sys.argv[2]} crashes, {acks} acknowledged appends, none lost\n")
