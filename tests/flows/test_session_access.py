"""Who may do what with a session."""

import pytest

from hutch.domain.errors import Denied, NotFound
from hutch.domain.ids import UserId
from hutch.domain.user import Caller, Role, Scope, ShareRole, User, scopes_of
from hutch.flows.session_access import actions, check, may

THEIRS, OURS = "usr_owner", "usr_me"
ALL = {"read", "input", "manage"}


def who(role: Role, *scopes: Scope) -> Caller:
    user = User(UserId(OURS), "me", role, 0)
    return Caller(user, frozenset(scopes) or scopes_of(role), "token", "tok_1")


@pytest.mark.parametrize(
    ("caller", "owner", "share", "allowed"),
    [
        (who("owner"), THEIRS, None, ALL),
        (who("owner", "read", "write"), THEIRS, None, set()),  # a narrow token of an owner is nobody special
        (who("member"), OURS, None, ALL),
        (who("member", "read"), OURS, None, {"read"}),
        (who("member"), THEIRS, None, set()),
        (who("member"), THEIRS, "member", {"read", "input"}),
        (who("member", "read"), THEIRS, "member", {"read"}),
        (who("member"), THEIRS, "observer", {"read"}),
        (who("assessor"), THEIRS, "assessor", {"read"}),
        (who("candidate"), THEIRS, "candidate", {"read", "input"}),
        (who("candidate"), OURS, None, ALL),
        (who("observer"), OURS, None, {"read"}),
        (who("observer"), THEIRS, "member", {"read"}),  # what one is here narrows what one is there
    ],
)
def test_what_somebody_may(caller: Caller, owner: str, share: ShareRole | None, allowed: set[str]) -> None:
    assert actions(caller, owner, share) == allowed
    assert may(caller, owner, share, "read") is ("read" in allowed)


def test_who_may_not_see_it_hears_that_there_is_none() -> None:
    for action in ("read", "input", "manage"):
        with pytest.raises(NotFound):
            check(who("member"), "ses_1", THEIRS, None, action)


def test_who_sees_it_hears_what_is_not_allowed() -> None:
    check(who("member"), "ses_1", THEIRS, "observer", "read")
    with pytest.raises(Denied):
        check(who("member"), "ses_1", THEIRS, "observer", "input")
    with pytest.raises(Denied):
        check(who("member"), "ses_1", THEIRS, "member", "manage")
