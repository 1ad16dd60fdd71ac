"""What is allowed always rests in rows, for each user apart."""

import asyncio

import pytest

from hutch.agent.policy import Rule
from hutch.agent.saved_approvals import KeptApprovals
from hutch.domain.errors import LimitReached, NotFound
from hutch.store.approval_rules import MAX_BYTES, MAX_RULES
from hutch.store.log import SqlLog

pytestmark = pytest.mark.anyio

PUSH = Rule("allow", "bash", "git push")
ODD = Rule("allow", "write_file", " a\nb ")


async def test_what_is_kept_comes_back_once_and_in_order(log: SqlLog) -> None:
    kept = KeptApprovals(log, "usr_1")
    assert await kept.rules() == ()
    await kept.keep([PUSH, ODD])
    await kept.keep([PUSH])
    assert await kept.rules() == (PUSH, ODD)
    assert await KeptApprovals(log, "usr_2").rules() == ()
    with pytest.raises(NotFound, match="'bash git push' is not allowed always"):
        await KeptApprovals(log, "usr_2").withdraw([PUSH])
    await kept.withdraw([PUSH])
    assert await kept.rules() == (ODD,)
    with pytest.raises(NotFound):
        await kept.withdraw([ODD, PUSH])  # all or none
    assert await kept.rules() == (ODD,)


async def test_so_many_are_kept_and_no_more(log: SqlLog) -> None:
    kept = KeptApprovals(log, "usr_1")
    await kept.keep([Rule("allow", "bash", str(number)) for number in range(MAX_RULES)])
    with pytest.raises(LimitReached, match="Withdraw some"):
        await kept.keep([PUSH])
    await kept.withdraw(await kept.rules())
    with pytest.raises(LimitReached):
        await kept.keep([Rule("allow", "bash", "x" * MAX_BYTES)])
    assert await kept.rules() == ()


async def test_nobody_runs_over_what_another_keeps(log: SqlLog) -> None:
    rules = [Rule("allow", "bash", str(number)) for number in range(50)]
    await asyncio.gather(*(KeptApprovals(log, "usr_1").keep([rule]) for rule in rules))
    assert set(await KeptApprovals(log, "usr_1").rules()) == set(rules)
