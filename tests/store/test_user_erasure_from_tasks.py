"""A user who is erased leaves no text of theirs in tasks; the tasks of the team stay."""

import pytest

from hutch.domain.ids import UserId
from hutch.domain.redaction import Redactor
from hutch.domain.task import TaskFilter
from hutch.domain.user import Caller, User, scopes_of
from hutch.flows.tasks.task_requests import TaskServices, change_task, comment_on_task, create_task
from hutch.store.event_log import SqlLog
from hutch.store.saved_task_filters import TaskFilters
from hutch.store.user_erasure_from_tasks import erase_from_tasks

pytestmark = pytest.mark.anyio


def caller(name: str) -> Caller:
    return Caller(User(UserId(f"usr_{name}"), name, "owner", 0), scopes_of("owner"), "token", "tok_1")


async def test_an_erased_user_leaves_no_text_in_tasks(log: SqlLog) -> None:
    services, ada, bob = TaskServices(log, Redactor(())), caller("ada"), caller("bob")
    team = await create_task(services, ada, {"title": "Team", "owner": "ada"}, repository="/srv/a")
    await create_task(services, ada, {"title": "Private"})
    team = await change_task(services, bob, team.id, {"owner": "bob"})
    team = await change_task(services, bob, team.id, {"owner": "ada"})
    await comment_on_task(services, ada, team, "ada says this")
    await comment_on_task(services, bob, team, "and bob that")
    for _ in range(2):  # it can be repeated
        await log.change(lambda connection: erase_from_tasks(connection, "usr_ada", "ada"))
    [left] = await services.tasks.matching(TaskFilter())
    assert (left.fields.title, left.fields.owner) == ("Team", "")
    history = await services.tasks.history(left.id)
    assert [each.note for each in history if each.kind == "comment"] == ["(erased)", "and bob that"]
    assert "'ada'" not in repr(history)


async def test_filters_belong_to_their_user(log: SqlLog) -> None:
    mine, other = TaskFilters(log, "usr_ada"), TaskFilters(log, "usr_bob")
    await mine.set("bugs", {"label": "bug"})
    await mine.set("bugs", {"label": "bugs"})
    assert (await mine.list(), await other.list()) == ({"bugs": {"label": "bugs"}}, {})
    assert not await other.delete("bugs")
    assert await mine.delete("bugs")
