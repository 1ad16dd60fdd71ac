"""Extensions: list, try and approve them. The catalogue itself is a file of the server's machine."""

from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.agent.extensions.extension_trial import TrialCall
from hutch.domain.errors import NotFound
from hutch.flows.extensions.extension_management import ExtensionManagement, entry_json
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("extensions")

Name = Annotated[str, Path(max_length=80, examples=["files"])]


class ExtensionToolOut(Out):
    """A tool, as its server declares it; text of strangers, bounded."""

    name: str
    full_name: str = Field(description="Its name for the agent.")
    description: str
    problem: str = Field(description="Why it is left out; empty if it is not.")


class HostOut(Out):
    """A host that an extension asked for."""

    host: str
    allowed: bool


class ActivityOut(Out):
    """The activity of an extension in its trial; empty lists if it was not tried."""

    files_read: list[str]
    files_written: list[str]
    hosts: list[HostOut]
    processes: list[str]
    unseen: list[str] = Field(description="What could not be recorded.")


class ExtensionOut(Out):
    """An extension of the catalogue, and whether it can be used."""

    name: str
    state: Literal["approved", "changed", "tried", "listed", "unusable"]
    problem: str
    kind: str = Field(description="`mcp`, `http` or `program`; empty if the entry is unusable.")
    description: str
    command: list[str]
    url: str
    workspace: Literal["none", "read", "write"] = Field(description="Its use of the files of a session.")
    paths: list[str]
    network: list[str]
    variables: list[str]
    secrets: list[str] = Field(description="Names of jail secrets.")
    personas: list[str]
    server: str = Field(description="Its name and version, as it says.")
    tools: list[ExtensionToolOut]
    activity: ActivityOut
    approved_by: str
    approved_ms: int | None


class TrialCallIn(In):
    """A call to make in a trial."""

    tool: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)


class TrialIn(In):
    """A trial."""

    calls: list[TrialCallIn] = Field(default_factory=list, max_length=20)


class ReplyOut(Out):
    """The reply to a call of a trial."""

    ok: bool
    text: str


class TrialOut(Out):
    """An extension after its trial."""

    extension: ExtensionOut
    activity: ActivityOut = Field(description="Of this trial.")
    replies: list[ReplyOut]


@routes.get("/extensions", response_model=Page[ExtensionOut])
async def list_extensions(request: Request, caller: Admin) -> Response:
    """The extensions of the catalogue; for owners."""
    found = await _management(request).list()
    return page(request, [entry_json(each) for each in found], None)


@routes.get("/extensions/{name}", response_model=ExtensionOut)
async def get_extension(request: Request, caller: Admin, name: Name) -> Response:
    """An extension, its tools, and what its trial has shown."""
    return answer(entry_json(await _management(request).show(name)))


@routes.post("/extensions/{name}/trial", response_model=TrialOut)
async def try_extension(request: Request, caller: Admin, name: Name, body: TrialIn) -> Response:
    """Run an extension in its jail on sample files, and record what it touches."""
    management = _management(request)
    result = await management.try_(name, [TrialCall(each.tool, each.arguments) for each in body.calls])
    extension = entry_json(await management.show(name))
    replies = [{"ok": each.ok, "text": each.text} for each in result.replies]
    return answer({"extension": extension, "activity": dict(result.trial.activity), "replies": replies})


@routes.post("/extensions/{name}/approval", response_model=ExtensionOut)
async def approve_extension(
    request: Request, caller: Admin, authenticator: AuthenticatorDep, name: Name
) -> Response:
    """Approve what the last trial has shown. Any change afterwards makes it unusable again."""
    management = _management(request)
    await management.approve(name, by=caller.user.id)
    return answer(entry_json(await management.show(name)))


@routes.delete("/extensions/{name}/approval", status_code=204)
async def withdraw_extension(request: Request, caller: Admin, name: Name) -> Response:
    """Withdraw an approval. Runs that use the extension keep it until they end."""
    await _management(request).withdraw(name, by=caller.user.id)
    return Response(status_code=204)


def _management(request: Request) -> ExtensionManagement:
    management = server_of(request).services.extensions
    if management is None:
        raise NotFound("This server has no extensions.")
    return management
