"""A file, the stored tasks and edits through the API end the same everywhere."""

import asyncio
from dataclasses import replace

import pytest

from hutch.domain.errors import Conflict, Denied
from hutch.domain.task import TaskFilter
from hutch.flows.tasks.task_requests import TaskServices, change_task, create_task, find_task, list_tasks
from hutch.flows.tasks.tasks_file_sync_and_import import import_backlog, sync_text
from hutch.flows.tasks_file.backlog_folder_conversion import read_backlog, write_backlog
from hutch.flows.tasks_file.tasks_file_parser import TasksFile

from .task_callers import REPOSITORY, caller

pytestmark = pytest.mark.anyio
OWNER = caller("owner")


async def titles(services: TaskServices) -> dict[str, str]:
    return {task.key: task.fields.title for task in await list_tasks(services, OWNER, TaskFilter())}


async def test_two_clones_and_the_board_end_the_same(services: TaskServices) -> None:
    first = await sync_text(
        services, OWNER, repository=REPOSITORY, base="", text="- [ ] A\n- [ ] B\n  a note\n"
    )
    base = first.text
    one = base.replace("T-1 A", "T-1 A!") + "- [ ] From one\n"
    two = base.replace("[ ] T-2", "[x] T-2") + "- [ ] From two\n"
    task = await find_task(services, OWNER, "T-2", REPOSITORY)
    await change_task(services, OWNER, task.id, {"owner": "alice"})
    await create_task(services, OWNER, {"title": "From the board"}, repository=REPOSITORY)
    synced_one, synced_two = await asyncio.gather(
        sync_text(services, OWNER, repository=REPOSITORY, base=base, text=one),
        sync_text(services, OWNER, repository=REPOSITORY, base=base, text=two),
    )
    last = []
    for synced in (synced_one, synced_two):
        again = await sync_text(services, OWNER, repository=REPOSITORY, base=synced.text, text=synced.text)
        file = TasksFile(again.text)
        last.append({task.line.key: file.fields(task) for task in file.tasks})
        assert "  a note\n" in again.text
    stored = {task.key: task.fields for task in await list_tasks(services, OWNER, TaskFilter())}
    assert last == [stored, stored]
    assert sorted(task.title for task in stored.values()) == [
        "A!",
        "B",
        "From one",
        "From the board",
        "From two",
    ]
    assert (stored["T-2"].state, stored["T-2"].owner) == ("done", "alice")


async def test_a_conflict_is_kept_in_the_history(services: TaskServices) -> None:
    base = (await sync_text(services, OWNER, repository=REPOSITORY, base="", text="- [ ] T-1 A\n")).text
    task = await find_task(services, OWNER, "T-1", REPOSITORY)
    await change_task(services, OWNER, task.id, {"title": "Board"})
    outcome = await sync_text(services, OWNER, repository=REPOSITORY, base=base, text="- [ ] T-1 File\n")
    assert [(each.stored, each.file) for each in outcome.conflicts] == [("Board", "File")]
    events = await services.tasks.history(task.id)
    assert events[-1].changes == {"title": ("Board", "File")}
    assert await titles(services) == {"T-1": "File"}


async def test_a_file_that_lost_most_tasks_is_refused(services: TaskServices) -> None:
    text = "".join(f"- [ ] T-{number} Task {number}\n" for number in range(1, 11))
    await sync_text(services, OWNER, repository=REPOSITORY, base="", text=text)
    hidden = f"```\n{text}"
    with pytest.raises(Conflict, match="10 of 10"):
        await sync_text(services, OWNER, repository=REPOSITORY, base=text, text=hidden)
    assert len(await titles(services)) == 10
    await sync_text(services, OWNER, repository=REPOSITORY, base=text, text=hidden, allow_removals=True)
    assert await titles(services) == {}


async def test_a_dry_run_stores_nothing(services: TaskServices) -> None:
    outcome = await sync_text(services, OWNER, repository=REPOSITORY, base="", text="- [ ] A\n", dry_run=True)
    assert outcome.text == "- [ ] T-1 A <!-- hutch:rev=1 -->\n"
    assert await titles(services) == {}


async def test_an_observer_cannot_sync(services: TaskServices) -> None:
    with pytest.raises(Denied):
        await sync_text(services, caller("observer"), repository=REPOSITORY, base="", text="- [ ] A\n")


async def test_a_sync_whose_result_was_not_written_is_repeated_without_harm(services: TaskServices) -> None:
    await sync_text(services, OWNER, repository=REPOSITORY, base="", text="- [ ] A\n- [ ] B\n")
    again = await sync_text(services, OWNER, repository=REPOSITORY, base="", text="- [ ] A\n- [ ] B\n")
    assert (again.updates, await titles(services)) == ((), {"T-1": "A", "T-2": "B"})


async def test_a_backlog_folder_is_imported_once(services: TaskServices) -> None:
    for title in ("One", "Two"):
        await create_task(services, OWNER, {"title": title}, repository="/srv/a", description="Text")
    files = write_backlog(await services.tasks.of_repository("/srv/a"))
    for expected in ((2, 0), (0, 0)):
        found = read_backlog(files)
        assert await import_backlog(services, OWNER, found, repository="/srv/b") == expected
    changed = {path: text.replace("title: One", "title: Eins") for path, text in files.items()}
    assert await import_backlog(services, OWNER, read_backlog(changed), repository="/srv/b") == (0, 1)


async def test_secrets_of_a_file_are_not_stored_and_its_lines_stay(services: TaskServices) -> None:
    owner, where = caller("owner"), {"repository": REPOSITORY}
    text = "- [ ] T-1 Rotate s3cr3t-value #ops\n  - [ ] s3cr3t-value is gone\n  about s3cr3t-value\n"
    first = await sync_text(services, owner, base="", text=text, **where)
    task = await services.tasks.find("T-1")
    assert "s3cr3t" not in repr(task) and task.fields.title.startswith("Rotate ")
    assert "s3cr3t" not in repr(await services.tasks.history(task.id))
    assert "- [ ] T-1 Rotate s3cr3t-value #ops" in first.text and "  - [ ] s3cr3t-value is gone" in first.text
    again = await sync_text(services, owner, base=first.text, text=first.text, **where)
    assert (again.text, again.updates) == (first.text, ())
    await services.tasks.change(task, replace(task, fields=replace(task.fields, state="done")), by="usr_x")
    ticked = await sync_text(services, owner, base=first.text, text=first.text, **where)
    assert "- [x] T-1 Rotate s3cr3t-value #ops" in ticked.text and "s3cr3t-value is gone" in ticked.text
