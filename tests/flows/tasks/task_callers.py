"""Callers of each role, and a repository."""

from hutch.domain.ids import UserId
from hutch.domain.user import Caller, Role, User, scopes_of

REPOSITORY = "https://github.com/Acme/Pay.git"


def caller(role: Role) -> Caller:
    return Caller(User(UserId(f"usr_{role}"), role, role, 0), scopes_of(role), "token", "tok_1")
