"""The caller of a request, as a dependency of a route: `Reader`, `Writer`, `Admin`."""

from typing import Annotated, cast

from fastapi import Depends
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from hutch.domain.user import Caller, Scope
from hutch.gateway.auth.authenticator import Authenticator


def authenticator_of(connection: HTTPConnection) -> Authenticator:
    """The authenticator of the application."""
    return cast(Authenticator, connection.app.state.authenticator)


class RequireScope(SecurityBase):
    """A dependency that identifies the caller and requires a scope, for HTTP and WebSocket."""

    def __init__(self, scope: Scope) -> None:
        self.model = HTTPBearer(
            bearerFormat="hutch_…", description="A token, see `hutch tokens create`. Browsers send a cookie."
        )
        self.scheme_name = "token"
        self._scope = scope

    async def __call__(self, connection: HTTPConnection) -> Caller:
        caller = await authenticator_of(connection).recognise(connection.scope)
        caller.need(self._scope)
        return caller


def require(scope: Scope) -> RequireScope:
    """Callers with this scope: `Depends(require("write"))`."""
    return _KINDS[scope]


_KINDS: dict[Scope, RequireScope] = {
    "read": RequireScope("read"),
    "write": RequireScope("write"),
    "admin": RequireScope("admin"),
}
Reader = Annotated[Caller, Depends(require("read"))]
Writer = Annotated[Caller, Depends(require("write"))]
Admin = Annotated[Caller, Depends(require("admin"))]
AuthenticatorDep = Annotated[Authenticator, Depends(authenticator_of)]
