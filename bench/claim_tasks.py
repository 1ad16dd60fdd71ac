"""The time to sync a TASKS.md of 5,000 tasks with as many stored ones, where both sides have changed.

CPU time: load of the machine by others does not count.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.result_row import Row

from hutch.domain.ids import UserId
from hutch.domain.redaction import Redactor
from hutch.domain.user import Caller, User, scopes_of
from hutch.flows.tasks.task_file_sync import sync_text
from hutch.flows.tasks.task_requests import TaskServices
from hutch.flows.tasks_file.tasks_file_sync import StoredTask, sync_tasks_file
from hutch.store.event_log import open_log

TASKS = 5_000
BAR_MS = 300
TIMES = 5
OWNER = Caller(User(UserId("usr_1"), "ada", "owner", 0), scopes_of("owner"), "local", "local")


def measure() -> Iterator[Row]:
    base = large_file()
    stored = [StoredTask(update.key, update.fields, 3) for update in sync_tasks_file("", base, []).updates]
    edited = base.replace("- [ ] T-70 ", "- [x] T-70 ").replace("Task number 33 ", "Renamed ")
    stored[90] = replace(stored[90], fields=replace(stored[90].fields, owner="bob"), revision=4)
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        outcome = sync_tasks_file(base, edited, stored)
        taken.append((time.process_time() - began) * 1000)
    assert len(outcome.updates) == 2 and outcome.text.count("@bob") == 1
    yield Row(f"merge a TASKS.md of {TASKS:,} tasks, changed on both sides", min(taken), None, "ms", BAR_MS)
    in_database = asyncio.run(sync_with_database(base))
    yield Row(f"sync a TASKS.md of {TASKS:,} tasks with the database", in_database, None, "ms", BAR_MS)


def large_file() -> str:
    lines = ["# Tasks", "", "## To do"]
    for number in range(1, TASKS + 1):
        lines.append(f"- [ ] T-{number} Task number {number} @alice #bug <!-- hutch:status=review rev=3 -->")
        lines.append("  - [x] reproduce")
    return "\n".join([*lines, "", "## Done", ""])


async def sync_with_database(base: str) -> float:
    taken = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        async with open_log(place / "hutch.db", place / "blobs", place / "keys" / "signing.pem") as log:
            services = TaskServices(log, Redactor(()))
            await sync_text(services, OWNER, repository="/srv/a", base="", text=base)
            for number in range(TIMES):
                edited = base.replace(f"- [ ] T-{number + 1} ", f"- [x] T-{number + 1} ")
                began = time.process_time()
                outcome = await sync_text(services, OWNER, repository="/srv/a", base=base, text=edited)
                taken.append((time.process_time() - began) * 1000)
                assert len(outcome.updates) == 1
                base = outcome.text
    return min(taken)
