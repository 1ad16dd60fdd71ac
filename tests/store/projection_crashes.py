"""Kill a process in the middle of a projection. Usage: projection_crashes.py DIRECTORY ROUNDS SEED

Each round forks a process that appends, erases and folds without end, and kills it with SIGKILL.
A second one then goes on from what is left, and compares the rows with a fold over the logs.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from hutch.domain.events import SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.event_log import open_log
from tests.store.log_writer_crashes import fork
from tests.store.usage_events import make_events, projector, read_folded, read_rows


async def work(home: Path, seed: int, pipe: int) -> None:
    rng = random.Random(seed)
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened(owner="usr_1"), *make_events(rng, 20)])
        folding = projector(log, batch_events=3)

        async def fold() -> None:
            while True:
                await folding.catch_up()
                await asyncio.sleep(0)

        task = asyncio.create_task(fold())
        os.write(pipe, b"ready\n")
        while True:
            head = await log.append(session_id, make_events(rng, 10))
            if rng.random() < 0.1:
                await log.erase(session_id, [rng.randint(1, head.seq)], reason="test")
            if task.done():
                task.result()


async def check(home: Path) -> None:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        folding = projector(log, batch_events=50)
        await folding.catch_up()
        rows = await read_rows(log)
        assert rows, "nothing was counted"
        assert rows == await read_folded(log)
        await folding.rebuild()
        assert await read_rows(log) == rows


def run(home: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(rounds):
        reading, writing = os.pipe()
        worker = fork(work(home, seed * 1000 + number, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.readline() == b"ready\n"
            time.sleep(rng.uniform(0.02, 0.4))
            os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        _, status = os.waitpid(fork(check(home)), 0)
        assert status == 0, f"round {number} (seed {seed}) counted wrong"


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
