"""Tasks are created and changed by owners and members, and read by observers too."""

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.domain.task import AcceptanceCriterion, TaskFilter, TaskLink
from hutch.domain.user import Role
from hutch.flows.tasks.task_requests import (
    TaskServices,
    change_task,
    comment_on_task,
    create_task,
    find_task,
    link_task,
    list_tasks,
    task_history,
)

from .task_callers import REPOSITORY, caller

pytestmark = pytest.mark.anyio


async def test_a_task_has_a_life(services: TaskServices) -> None:
    member, observer = caller("member"), caller("observer")
    values = {
        "title": "Fix s3cr3t-value login",
        "labels": ["bug"],
        "criteria": [AcceptanceCriterion("green")],
    }
    task = await create_task(services, member, values, repository=REPOSITORY, description="Why")
    assert (task.key, task.repository, task.revision) == ("T-1", "github.com/acme/pay", 1)
    assert "s3cr3t" not in task.fields.title
    assert await find_task(services, observer, "T-1", "git@github.com:acme/pay") == task
    changed = await change_task(services, member, task.id, {"state": "doing", "owner": "alice"}, revision=1)
    assert (changed.fields.state, changed.fields.owner, changed.fields.labels) == ("doing", "alice", ("bug",))
    with pytest.raises(Conflict, match="revision 2 by now, not 1"):
        await change_task(services, member, task.id, {"state": "done"}, revision=1)
    await comment_on_task(services, member, changed, "half way", progress=True)
    linked = await link_task(services, member, changed, "session", "ses_1")
    assert linked.links == (TaskLink("session", "ses_1"),)
    history = await task_history(services, observer, linked)
    assert [(each.kind, each.by) for each in history] == [
        ("created", "usr_member"),
        ("changed", "usr_member"),
        ("progress", "usr_member"),
    ]
    archived = await change_task(services, member, task.id, {"archived": True})
    assert await list_tasks(services, observer, TaskFilter()) == []
    assert await list_tasks(services, observer, TaskFilter(archived=True)) == [archived]


@pytest.mark.parametrize("role", ["observer", "assessor", "candidate"])
async def test_other_roles_change_nothing(services: TaskServices, role: Role) -> None:
    task = await create_task(services, caller("owner"), {"title": "A"})
    with pytest.raises(Denied):
        await create_task(services, caller(role), {"title": "B"})
    with pytest.raises(Denied):
        await change_task(services, caller(role), task.id, {"title": "B"})
    with pytest.raises(Denied):
        await comment_on_task(services, caller(role), task, "B")
    with pytest.raises(Denied):
        await link_task(services, caller(role), task, "session", "ses_1")


@pytest.mark.parametrize("role", ["assessor", "candidate"])
async def test_assessors_and_candidates_see_none(services: TaskServices, role: Role) -> None:
    task = await create_task(services, caller("owner"), {"title": "A"})
    with pytest.raises(Denied):
        await list_tasks(services, caller(role), TaskFilter())
    with pytest.raises(Denied):
        await find_task(services, caller(role), task.id)
    with pytest.raises(Denied):
        await task_history(services, caller(role), task)


@pytest.mark.parametrize(
    "values",
    [
        {"title": " "},
        {"title": "a\nb"},
        {"title": "a", "state": "nonsense"},
        {"title": "a", "milestone": "Done"},
        {"title": "a", "labels": ["two words"]},
        {"title": "a", "depends_on": ["x"]},
        {"title": "a" * 1001},
    ],
)
async def test_values_that_cannot_be(services: TaskServices, values: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        await create_task(services, caller("owner"), values)
    assert await list_tasks(services, caller("owner"), TaskFilter()) == []


async def test_tasks_that_do_not_exist(services: TaskServices) -> None:
    with pytest.raises(NotFound):
        await change_task(services, caller("owner"), "tsk_none", {"title": "a"})
    with pytest.raises(NotFound):
        await find_task(services, caller("owner"), "T-1")
