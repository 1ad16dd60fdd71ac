"""Tasks come back as they were stored, change under a revision, and keep their history."""

import asyncio
from dataclasses import replace

import pytest

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.ids import new_task_id
from hutch.domain.task import AcceptanceCriterion, Task, TaskFields, TaskFilter, TaskLink
from hutch.store.event_log import SqlLog
from hutch.store.tasks import Tasks

pytestmark = pytest.mark.anyio
REPOSITORY = "github.com/acme/pay'; drop table tasks; --"
FULL = TaskFields(
    title="Größe ändern",
    state="doing",
    owner="alice",
    priority="high",
    estimate="3h",
    milestone="v1",
    labels=("bug", "größe"),
    depends_on=("T-1",),
    criteria=(AcceptanceCriterion("it works", True), AcceptanceCriterion("100% \\ _ done")),
)


def task(fields: TaskFields, key: str = "", repository: str = REPOSITORY) -> Task:
    return Task(
        id=new_task_id(),
        repository=repository,
        key=key,
        fields=fields,
        description="Text\nwith 50% off",
        created_by="usr_1",
        created_ms=1_700_000_000_000,
        updated_ms=1_700_000_000_000,
    )


def next_key(used: set[str]) -> str:
    return f"T-{len(used) + 1}"


@pytest.fixture
def stored(log: SqlLog) -> Tasks:
    return Tasks(log)


async def test_a_task_comes_back_as_it_was(stored: Tasks) -> None:
    first = await stored.add(task(TaskFields(title="One")), next_key)
    second = await stored.add(task(FULL), next_key)
    assert (first.key, second.key) == ("T-1", "T-2")
    assert await stored.get(second.id) == second
    assert await stored.matching(TaskFilter()) == [second, first]
    assert await stored.of_repository(REPOSITORY) == [first, second]
    assert await stored.get("tsk_none") is None


async def test_a_key_is_unique_in_its_repository(stored: Tasks) -> None:
    await stored.add(task(FULL, "T-7"), next_key)
    with pytest.raises(Conflict, match="T-7"):
        await stored.add(task(FULL, "T-7"), next_key)
    other = await stored.add(task(FULL, "T-7", "/srv/other"), next_key)
    assert await stored.find("T-7", "/srv/other") == other
    with pytest.raises(Conflict, match="Several repositories"):
        await stored.find("T-7")
    with pytest.raises(NotFound):
        await stored.find("T-8")


async def test_tasks_added_at_once_get_keys_of_their_own(stored: Tasks) -> None:
    added = await asyncio.gather(*(stored.add(task(FULL), next_key) for _ in range(10)))
    assert sorted(each.key for each in added) == sorted(f"T-{number}" for number in range(1, 11))


async def test_a_change_raises_the_revision_and_is_kept_in_the_history(stored: Tasks) -> None:
    old = await stored.add(task(FULL), next_key)
    new = await stored.change(old, replace(old, fields=replace(FULL, state="done", labels=())), by="usr_2")
    assert new.revision == 2
    assert await stored.get(old.id) == new
    await stored.note(new, "progress", "half way", by="hutch")
    created, changed, progress = await stored.history(old.id)
    assert (created.kind, created.by, created.revision) == ("created", "usr_1", 1)
    assert (changed.kind, changed.by, changed.revision) == ("changed", "usr_2", 2)
    assert changed.changes == {"state": ("doing", "done"), "labels": (["bug", "größe"], [])}
    assert (progress.kind, progress.note) == ("progress", "half way")
    assert await stored.history(old.id, after=changed.id) == [progress]


async def test_a_change_from_an_old_revision_is_refused_and_changes_nothing(stored: Tasks) -> None:
    old = await stored.add(task(FULL), next_key)
    other = await stored.add(task(FULL), next_key)
    new = await stored.change(old, replace(old, description="new"), by="usr_1")
    with pytest.raises(Conflict, match="Read it again"):
        await stored.change_all(
            [(other, replace(other, description="lost")), (old, replace(old, description="old"))], by="usr_2"
        )
    assert await stored.matching(TaskFilter()) == [other, new]


async def test_a_change_that_changes_nothing_leaves_the_revision(stored: Tasks) -> None:
    old = await stored.add(task(FULL), next_key)
    assert await stored.change(old, old, by="usr_2") == old
    assert len(await stored.history(old.id)) == 1


async def test_filters(stored: Tasks) -> None:
    plain = await stored.add(task(TaskFields(title="Plain 50%", labels=("bugs",))), next_key)
    full = await stored.add(task(FULL), next_key)
    gone = await stored.add(task(TaskFields(title="Gone"), repository="/srv/x"), next_key)
    gone = await stored.change(gone, replace(gone, archived=True), by="usr_1")
    await stored.link(full, TaskLink("session", "ses_1"), by="usr_1")
    await stored.link(full, TaskLink("session", "ses_1"), by="usr_2")
    full = replace(full, links=(TaskLink("session", "ses_1"),))
    for which, expected in {
        TaskFilter(): [full, plain],
        TaskFilter(repository=REPOSITORY, states=("doing", "done")): [full],
        TaskFilter(owner="alice"): [full],
        TaskFilter(label="bug"): [full],
        TaskFilter(label="größe"): [full],
        TaskFilter(milestone="v1", priority="high"): [full],
        TaskFilter(text="PLAIN 50%"): [plain],
        TaskFilter(text="t-2"): [full],
        TaskFilter(link="ses_1"): [full],
        TaskFilter(archived=True): [gone],
        TaskFilter(text="%x%"): [],
    }.items():
        assert await stored.matching(which) == expected, which
    assert await stored.matching(TaskFilter(), before=full.id, limit=1) == [plain]
    await stored.unlink(full, TaskLink("session", "ses_1"))
    assert await stored.matching(TaskFilter(link="ses_1")) == []
