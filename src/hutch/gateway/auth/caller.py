"""The caller of a request, for whoever handles it: `Reader`, `Writer`, `Admin`."""

from typing import Annotated, cast

from fastapi import Depends
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from hutch.domain.user import Caller, Scope
from hutch.gateway.auth.authenticator import Guard


def guard_of(connection: HTTPConnection) -> Guard:
    """The guard of the application that a request came to."""
    return cast(Guard, connection.app.state.guard)


class Recognise(SecurityBase):
    """A dependency that knows who asks, by HTTP or WebSocket, and refuses strangers."""

    def __init__(self, scope: Scope) -> None:
        self.model = HTTPBearer(
            bearerFormat="hutch_…", description="A token, see `hutch tokens create`. Browsers send a cookie."
        )
        self.scheme_name = "token"
        self._scope = scope

    async def __call__(self, connection: HTTPConnection) -> Caller:
        who = await guard_of(connection).recognise(connection.scope)
        who.need(self._scope)
        return who


def require(scope: Scope) -> Recognise:
    """Whoever holds this scope: `Depends(require("write"))`."""
    return _KINDS[scope]


_KINDS: dict[Scope, Recognise] = {
    "read": Recognise("read"),
    "write": Recognise("write"),
    "admin": Recognise("admin"),
}
who = require("read")

Reader = Annotated[Caller, Depends(who)]
Writer = Annotated[Caller, Depends(require("write"))]
Admin = Annotated[Caller, Depends(require("admin"))]
AGuard = Annotated[Guard, Depends(guard_of)]
