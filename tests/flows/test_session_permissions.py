"""The permissions of users in a session."""

import pytest

from hutch.domain.errors import Denied, NotFound
from hutch.domain.ids import UserId
from hutch.domain.user import Caller, Role, Scope, ShareRole, ShareScope, User, scopes_of
from hutch.flows.session_permissions import actions, check, may

THEIRS, OURS = "usr_owner", "usr_me"
ALL = {"read", "edit", "input", "manage"}


def new_caller(role: Role, *scopes: Scope) -> Caller:
    user = User(UserId(OURS), "me", role, 0)
    return Caller(user, frozenset(scopes) or scopes_of(role), "token", "tok_1")


@pytest.mark.parametrize(
    ("caller", "owner", "share", "allowed"),
    [
        (new_caller("owner"), THEIRS, None, ALL),
        (
            new_caller("owner", "read", "write"),
            THEIRS,
            None,
            set(),
        ),  # a narrow token of an owner is nobody special
        (new_caller("member"), OURS, None, ALL),
        (new_caller("member", "read"), OURS, None, {"read"}),
        (new_caller("member"), THEIRS, None, set()),
        (new_caller("member"), THEIRS, "member", {"read", "edit", "input"}),
        (new_caller("member", "read"), THEIRS, "member", {"read"}),
        (new_caller("member"), THEIRS, "observer", {"read"}),
        (new_caller("assessor"), THEIRS, "assessor", {"read"}),
        (new_caller("candidate"), THEIRS, "candidate", {"read", "edit", "input"}),
        (new_caller("candidate"), OURS, None, ALL),
        (new_caller("observer"), OURS, None, {"read"}),
        (new_caller("observer"), THEIRS, "member", {"read"}),  # what one is here narrows what one is there
    ],
)
def test_the_permissions_of_each_role(
    caller: Caller, owner: str, share: ShareRole | None, allowed: set[str]
) -> None:
    assert actions(caller, owner, share) == allowed
    assert may(caller, owner, share, "read") is ("read" in allowed)


def test_an_assessor_edits_only_where_the_share_says_so() -> None:
    files: tuple[ShareScope, ...] = ("files",)
    assert actions(new_caller("assessor"), THEIRS, "assessor", files) == {"read", "edit"}
    assert actions(new_caller("member"), THEIRS, "assessor", files) == {"read", "edit"}
    assert actions(new_caller("member", "read"), THEIRS, "assessor", files) == {"read"}
    assert actions(new_caller("observer"), THEIRS, "assessor", files) == {"read"}
    assert actions(new_caller("member"), THEIRS, "observer", files) == {"read"}
    assert actions(new_caller("member"), THEIRS, "assessor", ("commands",)) == {"read"}


def test_a_session_that_a_user_may_not_see_is_not_found() -> None:
    for action in ("read", "edit", "input", "manage"):
        with pytest.raises(NotFound):
            check(new_caller("member"), "ses_1", THEIRS, None, action)


def test_a_viewer_is_refused_with_the_denied_action() -> None:
    check(new_caller("member"), "ses_1", THEIRS, "observer", "read")
    with pytest.raises(Denied):
        check(new_caller("member"), "ses_1", THEIRS, "observer", "input")
    with pytest.raises(Denied):
        check(new_caller("member"), "ses_1", THEIRS, "member", "manage")
