"""Approvals with scope "always" are stored in rows, per user."""

import asyncio

import pytest

from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.tool_call_rules import Rule
from hutch.domain.errors import LimitReached, NotFound
from hutch.store.event_log import SqlLog
from hutch.store.permanent_approvals import MAX_BYTES, MAX_RULES

pytestmark = pytest.mark.anyio

PUSH = Rule("allow", "bash", "git push")
ODD = Rule("allow", "write_file", " a\nb ")


async def test_saved_rules_are_returned_once_and_in_order(log: SqlLog) -> None:
    saved = SavedApprovals(log, "usr_1")
    assert await saved.rules() == ()
    await saved.add([PUSH, ODD])
    await saved.add([PUSH])
    assert await saved.rules() == (PUSH, ODD)
    assert await SavedApprovals(log, "usr_2").rules() == ()
    with pytest.raises(NotFound, match="'bash git push' is not allowed always"):
        await SavedApprovals(log, "usr_2").withdraw([PUSH])
    await saved.withdraw([PUSH])
    assert await saved.rules() == (ODD,)
    with pytest.raises(NotFound):
        await saved.withdraw([ODD, PUSH])  # all or none
    assert await saved.rules() == (ODD,)


async def test_the_number_of_saved_rules_is_limited(log: SqlLog) -> None:
    saved = SavedApprovals(log, "usr_1")
    await saved.add([Rule("allow", "bash", str(number)) for number in range(MAX_RULES)])
    with pytest.raises(LimitReached, match="Withdraw some"):
        await saved.add([PUSH])
    await saved.withdraw(await saved.rules())
    with pytest.raises(LimitReached):
        await saved.add([Rule("allow", "bash", "x" * MAX_BYTES)])
    assert await saved.rules() == ()


async def test_concurrent_saves_lose_nothing(log: SqlLog) -> None:
    rules = [Rule("allow", "bash", str(number)) for number in range(50)]
    await asyncio.gather(*(SavedApprovals(log, "usr_1").add([rule]) for rule in rules))
    assert set(await SavedApprovals(log, "usr_1").rules()) == set(rules)
