"""A call of a tool on a session: who calls, with which rights, and the description of a tool."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import Field

from hutch.domain.user import Caller
from hutch.flows import sessions as flow
from hutch.gateway.gateway_context import Server
from hutch.gateway.request_and_response_bodies import In, Out
from hutch.sessions.file_and_command_requests import Request
from hutch.system.lazy_dataclass import dataclass

T = TypeVar("T")


class SessionArguments(In):
    """The session that a tool works on."""

    session_id: str = Field("", max_length=80, description="The id that list_sessions returns.")


@dataclass(frozen=True, slots=True)
class Call:
    """The caller and the server of a tool call."""

    server: Server
    caller: Caller

    async def ask(self, args: SessionArguments, request: Request[T]) -> T:
        """Send a request to a session, if the caller may."""
        services = self.server.services
        session = await flow.allowed(
            services, self.caller, args.session_id, "input" if request.changes else "read"
        )
        return await services.host.call(session.id, request, by=self.caller.user.id)

    async def is_read_only(self, args: SessionArguments) -> bool:
        """True if the caller may read the session but not write to it."""
        services = self.server.services
        return not await flow.may_write(
            services, self.caller, await flow.allowed(services, self.caller, args.session_id)
        )


@dataclass(frozen=True, slots=True)
class SessionTool:
    """A tool for MCP clients."""

    name: str
    title: str
    description: str
    arguments: type[In]
    output: type[Out] | Mapping[str, Any]  # the model, or the schema, of its structured content
    use: Callable[[Call, Any], Awaitable[Any]]
    reads: bool = False  # changes nothing

    @property
    def output_schema(self) -> dict[str, Any]:
        if isinstance(self.output, type):
            return self.output.model_json_schema(mode="serialization")
        return dict(self.output)
