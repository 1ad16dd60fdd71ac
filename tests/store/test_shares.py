"""Shares as rows: one role for a user in a session."""

import pytest

from hutch.domain.errors import NotFound
from hutch.store.event_log import SqlLog
from hutch.store.shares import Shares
from hutch.store.users import Users

pytestmark = pytest.mark.anyio


async def test_a_share_is_set_changed_and_removed(log: SqlLog) -> None:
    users, shares = Users(log), Shares(log)
    ada, bob = await users.add("ada", "owner"), await users.add("bob", "member")
    assert await shares.role("ses_1", bob.id) is None
    share = await shares.set("ses_1", bob.id, "observer", created_by=ada.id)
    assert (await shares.of_session("ses_1"), await shares.of_user(bob.id)) == ([share], [share])
    await shares.set("ses_1", bob.id, "member", created_by=ada.id)
    assert await shares.role("ses_1", bob.id) == "member"
    assert len(await shares.of_session("ses_1")) == 1
    assert await shares.of_session("ses_2") == []
    await shares.remove("ses_1", bob.id)
    assert await shares.role("ses_1", bob.id) is None
    with pytest.raises(NotFound):
        await shares.remove("ses_1", bob.id)
    with pytest.raises(NotFound):
        await shares.set("ses_1", "usr_0", "member", created_by=ada.id)
