"""Tasks are for owners, and for members as far as they may use the repository."""

from dataclasses import replace

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
from hutch.flows.tasks.tasks_file_sync_and_import import sync_text

from .task_callers import REPOSITORY, caller

pytestmark = pytest.mark.anyio


async def test_a_task_has_a_life(services: TaskServices) -> None:
    member, owner = caller("member"), caller("owner")
    values = {
        "title": "Fix s3cr3t-value login",
        "labels": ["bug"],
        "criteria": [AcceptanceCriterion("green")],
    }
    task = await create_task(services, member, values, repository=REPOSITORY, description="Why")
    assert (task.key, task.repository, task.revision) == ("T-1", "github.com/acme/pay", 1)
    assert "s3cr3t" not in task.fields.title
    assert await find_task(services, owner, "T-1", "git@github.com:acme/pay") == task
    changed = await change_task(services, member, task.id, {"state": "doing", "owner": "alice"}, revision=1)
    assert (changed.fields.state, changed.fields.owner, changed.fields.labels) == ("doing", "alice", ("bug",))
    with pytest.raises(Conflict, match="revision 2 by now, not 1"):
        await change_task(services, member, task.id, {"state": "done"}, revision=1)
    await comment_on_task(services, member, changed, "half way", progress=True)
    linked = await link_task(services, member, changed, "session", "ses_1")
    assert linked.links == (TaskLink("session", "ses_1"),)
    history = await task_history(services, owner, linked)
    assert [(each.kind, each.by) for each in history] == [
        ("created", "usr_member"),
        ("changed", "usr_member"),
        ("progress", "usr_member"),
    ]
    archived = await change_task(services, member, task.id, {"archived": True})
    assert await list_tasks(services, owner, TaskFilter()) == []
    assert await list_tasks(services, owner, TaskFilter(archived=True)) == [archived]


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


@pytest.mark.parametrize("role", ["observer", "assessor", "candidate"])
async def test_other_roles_see_none(services: TaskServices, role: Role) -> None:
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


async def test_members_see_the_tasks_of_repositories_that_they_may_use(services: TaskServices) -> None:
    owner, member = caller("owner"), caller("member")
    services = replace(services, roots=("/srv/git",))
    hidden = await create_task(services, owner, {"title": "A"}, repository="/srv/gitlab/a")
    private = await create_task(services, owner, {"title": "B"})
    shown = await create_task(services, owner, {"title": "C"}, repository="/srv/git/c")
    remote = await create_task(services, owner, {"title": "D"}, repository=REPOSITORY)
    mine = await create_task(services, member, {"title": "E"})
    given = await create_task(services, owner, {"title": "F", "owner": "member"})
    seen = await list_tasks(services, member, TaskFilter())
    assert [each.id for each in seen] == [given.id, mine.id, remote.id, shown.id]
    gone = "tsk_01jd2m4c9k7w6t0q8n5x3vbaeh"
    for task in (hidden, private):
        said = []
        for id in (task.id, gone):
            with pytest.raises(NotFound) as refused:
                await find_task(services, member, id)
            said.append(str(refused.value).replace(id, "ID"))
            with pytest.raises(NotFound):
                await change_task(services, member, id, {"title": "mine"})
        assert said[0] == said[1]
    with pytest.raises(NotFound):
        await find_task(services, member, hidden.key, "/srv/gitlab/a")
    for repository in ("/srv/gitlab/a", "/srv/git/../gitlab/a"):
        with pytest.raises(Denied):
            await create_task(services, member, {"title": "G"}, repository=repository)
        with pytest.raises(Denied):
            await sync_text(services, member, repository=repository, base="", text="")
    with pytest.raises(BadRequest):  # all tasks without a repository, those of others too
        await sync_text(services, member, repository="", base="", text="")
