"""The time to sync a TASKS.md of 5,000 tasks with as many stored ones, where both sides have changed.

Also `hutch tasks list` and `prompt` of a server that cannot be reached, from a copy of 1,000 tasks.
The garbage collector is set as in a server.
CPU time: load of the machine by others does not count.
"""

import asyncio
import gc
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.claim_command_start import processor_ms
from bench.result_row import Row

from hutch.cli.server_address_and_token import Address, store_login
from hutch.cli.server_tasks.task_copy_and_outbox import TaskCopy
from hutch.domain.ids import UserId
from hutch.domain.redaction import Redactor
from hutch.domain.user import Caller, User, scopes_of
from hutch.flows.tasks.task_requests import TaskServices
from hutch.flows.tasks.tasks_file_sync_and_import import sync_text
from hutch.flows.tasks_file.file_and_stored_task_merge import StoredTask, sync_tasks_file
from hutch.gateway.server_lifecycle import GENERATIONS
from hutch.settings.installation_paths import Paths
from hutch.store.event_log import open_log

TASKS = 5_000
BAR_MS = 300
TIMES = 5
COPIED, OFFLINE_BAR_MS, PROMPT_BAR_MS, STARTS = 1_000, 150, 60, 15
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
    gc.freeze()  # as a server does
    gc.set_threshold(*GENERATIONS)
    in_database = asyncio.run(sync_with_database(base))
    yield Row(f"sync a TASKS.md of {TASKS:,} tasks with the database", in_database, None, "ms", BAR_MS)
    with tempfile.TemporaryDirectory() as directory:
        hutch = str(Path(sys.executable).with_name("hutch"))
        copy_for_offline(Path(directory))
        for words, bar_ms in ((["list"], OFFLINE_BAR_MS), (["prompt"], PROMPT_BAR_MS)):
            taken_ms = processor_ms([hutch, "tasks", *words], directory, runs=STARTS, cwd=Path(directory))
            yield Row(f"hutch tasks {words[0]}, offline, {COPIED:,} tasks", taken_ms, None, "ms", bar_ms)


def copy_for_offline(home: Path) -> None:
    """A login to a server that is not there, and a copy of its tasks."""
    with socket.create_server(("127.0.0.1", 0)) as closed_again:
        url = f"http://127.0.0.1:{closed_again.getsockname()[1]}"
    paths, address = Paths.of({"HUTCH_HOME": str(home)}), Address(url, "token", "login", user="ada")
    paths.login_file.parent.mkdir(parents=True, exist_ok=True)
    store_login(paths, address)
    fields = {
        "title": "Fix the flaky login test",
        "state": "todo",
        "owner": "ada",
        "priority": "high",
        "estimate": "3h",
        "milestone": "",
        "labels": ["bug"],
        "depends_on": [],
        "criteria": [{"text": "it passes 100 times", "done": False}],
    }
    stored: dict[str, object] = {
        "repository": "github.com/acme/shop",
        "fields": fields,
        "description": "",
        "links": [],
    }
    stored |= {"revision": 1, "archived": False, "created_by": "usr_1", "created_ms": 0, "updated_ms": 0}
    tasks = [{**stored, "id": f"tsk_{number:026d}", "key": f"T-{number}"} for number in range(COPIED)]
    TaskCopy(paths, address).store(tasks, "ada", 0)


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
