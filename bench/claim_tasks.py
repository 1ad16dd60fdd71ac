"""The time to sync a TASKS.md of 5,000 tasks with as many stored ones, where both sides have changed."""

import time
from collections.abc import Iterator
from dataclasses import replace

from bench.result_row import Row

from hutch.flows.tasks_file.tasks_file_sync import StoredTask, sync_tasks_file

TASKS = 5_000
BAR_MS = 300


def measure() -> Iterator[Row]:
    lines = ["# Tasks", "", "## To do"]
    for number in range(1, TASKS + 1):
        lines.append(f"- [ ] T-{number} Task number {number} @alice #bug <!-- hutch:status=review rev=3 -->")
        lines.append("  - [x] reproduce")
    base = "\n".join([*lines, "", "## Done", ""])
    stored = [StoredTask(update.key, update.fields, 3) for update in sync_tasks_file("", base, []).updates]
    edited = base.replace("- [ ] T-70 ", "- [x] T-70 ").replace("Task number 33 ", "Renamed ")
    stored[90] = replace(stored[90], fields=replace(stored[90].fields, owner="bob"), revision=4)
    taken = []
    for _ in range(5):
        began = time.thread_time()
        outcome = sync_tasks_file(base, edited, stored)
        taken.append((time.thread_time() - began) * 1000)
    assert len(outcome.updates) == 2 and outcome.text.count("@bob") == 1
    yield Row(f"merge a TASKS.md of {TASKS:,} tasks, changed on both sides", min(taken), None, "ms", BAR_MS)
