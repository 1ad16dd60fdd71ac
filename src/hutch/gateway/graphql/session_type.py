"""A session as a GraphQL type, with the objects that belong to it."""

import asyncio
from typing import Annotated, Any, cast

import strawberry

from hutch.domain.errors import BadRequest, Denied
from hutch.domain.relative_path import parse_path
from hutch.flows import user_test_runs
from hutch.flows.log_visible_to_reader import Search, read_page, search_events
from hutch.flows.session_permissions import may
from hutch.flows.sessions import Shown, effective_limits, may_write
from hutch.gateway.graphql.object_types import (
    BigInt,
    Change,
    ChangedFile,
    Difference,
    EffectiveLimit,
    Event,
    EventPage,
    File,
    FileContent,
    FilePage,
    Generation,
    Head,
    Limits,
    ResourceLimits,
    Run,
    Share,
    Snapshot,
    TestRun,
    User,
    node,
)
from hutch.gateway.graphql.query_cost import MAX_PAGE
from hutch.gateway.graphql.resolver_context import Info
from hutch.gateway.rest import files, snapshots_and_diff
from hutch.gateway.rest.sessions import OWN_FIELDS, SessionOut
from hutch.sessions.file_and_command_requests import Diff, ListFiles, ListSnapshots, ReadFile
from hutch.sessions.response_redaction import clean_text

FILE_BYTES = 256 * 1024

First = Annotated[int, strawberry.argument(description=f"The maximum number of items, up to {MAX_PAGE}.")]
Path = Annotated[str, strawberry.argument(description="Relative to the workspace.")]

Time = Annotated[
    str,
    strawberry.argument(
        description="Milliseconds since 1970, an ISO 8601 date or time, or an age: 30m, 2h, 7d."
    ),
]


def within(first: int) -> int:
    """The length of a page. Refused if it is out of range."""
    if not 1 <= first <= MAX_PAGE:
        raise BadRequest(f"`first` is 1 to {MAX_PAGE}, not {first}.")
    return first


@node(
    SessionOut,
    "owner owner_name delivery delivered last_run effective_limits erased_events variables",
    "A piece of work with its own log, workspace and jail.",
)
class Session:
    shown: strawberry.Private[Shown]
    owner_id: strawberry.ID
    head: Head
    limits: Limits
    resources: ResourceLimits
    generation: Generation
    removed: bool = strawberry.field(
        description="Whether it was removed. Only subscribers to the list see removed sessions."
    )

    @classmethod
    def of(cls, shown: Shown, *, removed: bool = False) -> "Session":
        session, make = shown.session, cast("Any", cls)
        parts = {"limits": Limits, "resources": ResourceLimits, "generation": Generation}
        same = [name for name in OWN_FIELDS.split() if name in cls.__annotations__ and name not in parts]
        return cast(
            "Session",
            make(
                shown=shown,
                owner_id=session.owner,
                queue_position=shown.queue_position,
                interview=shown.interview,
                head=Head.of(shown.head),
                starter_files=session.delivery.starter_files,
                removed=removed,
                **{name: part.of(getattr(session, name)) for name, part in parts.items()},
                **{name: getattr(session, name) for name in same},
            ),
        )

    @strawberry.field(description="The user who owns it.")
    async def owner(self, info: Info) -> User | None:
        found = await info.context.users.load(self.shown.session.owner)
        return User.of(found) if found else None

    @strawberry.field(description="Variables of every command, as NAME=VALUE.")
    async def variables(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.shown.session.variables]

    @strawberry.field(description="The limits of its commands, and where each comes from.")
    async def effective_limits(self, info: Info) -> list[EffectiveLimit]:
        found = await effective_limits(info.context.server.services, self.shown.session)
        return [EffectiveLimit.of(each) for each in found]

    @strawberry.field(description="The newest runs.")
    async def runs(self, info: Info, first: First = 20) -> list[Run]:
        return [Run.of(each) for each in await info.context.runs(within(first)).load(self.shown.session.id)]

    @strawberry.field(description="The newest test runs, of users and of the agent.")
    async def test_runs(self, info: Info, first: First = 20) -> list[TestRun]:
        context, session = info.context, self.shown.session
        found = await user_test_runs.page(context.services, context.caller, session.id, limit=within(first))
        return [TestRun.of(each) for each in found]

    @strawberry.field(description="The newest changes that were proposed in it.")
    async def changes(self, info: Info, first: First = 20) -> list[Change]:
        info.context.refuse_candidates()
        found = await info.context.changes(within(first)).load(self.shown.session.id)
        return [Change.of(each) for each in found]

    @strawberry.field(description="The users that it is shared with; for callers who may manage it.")
    async def shares(self, info: Info) -> list[Share]:
        session = self.shown.session
        if not may(info.context.caller, session.owner, None, "manage"):
            raise Denied(f"{info.context.caller.user.name} can view session {session.id} but not manage it.")
        return [Share.of(each) for each in await info.context.shares.load(session.id)]

    @strawberry.field(description="The events after a number, the oldest first.")
    async def events(self, info: Info, after: BigInt = BigInt(0), first: First = 50) -> list[Event]:  # noqa: B008
        read = await read_page(
            info.context.services, info.context.caller, self.shown.session, after=after, limit=within(first)
        )
        return [Event.of(each) for each in read.entries]

    @strawberry.field(
        description="The events that match all conditions. A page may be empty and still have a `next`."
    )
    async def search_events(
        self,
        info: Info,
        text: str = "",
        kinds: list[str] | None = None,
        by: Annotated[
            list[str] | None, strawberry.argument(description="Names or ids of users, `agent`, `hutch`.")
        ] = None,
        since: Time = "",
        until: Time = "",
        newest_first: bool = False,
        after: Annotated[
            BigInt | None, strawberry.argument(description="`next` of the previous page.")
        ] = None,
        first: First = 50,
    ) -> EventPage:
        asked = Search(text, kinds or (), by or (), since, until, newest_first)
        found = await search_events(
            info.context.services,
            info.context.caller,
            self.shown.session,
            asked,
            after=after,
            limit=within(first),
        )
        return EventPage(
            items=[Event.of(each) for each in found.entries],
            next=None if found.next is None else BigInt(found.next),
        )

    @strawberry.field(description="The entries of a directory of the workspace.")
    async def files(
        self,
        info: Info,
        path: Path = "",
        recursive: bool = False,
        after: Annotated[str | None, strawberry.argument(description="`next` of the previous page.")] = None,
        first: First = 100,
    ) -> FilePage:
        request = ListFiles(
            parse_path(path, or_root=True), recursive=recursive, cursor=after or None, limit=within(first)
        )
        found = await info.context.services.host.call(
            self.shown.session.id, request, by=info.context.caller.user.id
        )
        return FilePage(items=[File.of(files.file_json(each)) for each in found.entries], next=found.cursor)

    @strawberry.field(description=f"The first {FILE_BYTES // 1024} KiB of a file.")
    async def file(self, info: Info, path: Path) -> FileContent:
        request = ReadFile(parse_path(path), length=FILE_BYTES)
        found = await info.context.services.host.call(
            self.shown.session.id, request, by=info.context.caller.user.id
        )
        return FileContent(
            path=path,
            text=await asyncio.to_thread(clean_text, found, info.context.server.redactor),
            size=BigInt(found.size),
            cut=len(found.data) < found.size,
        )

    @strawberry.field(description="The newest snapshots of the workspace.")
    async def snapshots(self, info: Info, first: First = 50) -> list[Snapshot]:
        found = await info.context.services.host.call(
            self.shown.session.id, ListSnapshots(), by=info.context.caller.user.id
        )
        newest = sorted(found, key=lambda each: -each.id)[: within(first)]
        return [Snapshot.of(snapshots_and_diff.snapshot_json(each)) for each in newest]

    @strawberry.field(
        description="The difference between two snapshots; the default is from the session's first to now."
    )
    async def diff(
        self,
        info: Info,
        old: int | None = None,
        new: int | None = None,
        path: Path = "",
        after: Annotated[str | None, strawberry.argument(description="`next` of the previous page.")] = None,
        first: First = 100,
    ) -> Difference:
        services, caller, session = info.context.services, info.context.caller, self.shown.session
        read_only = not await may_write(services, caller, session)
        request = Diff(old, new, parse_path(path, or_root=True), after or "", within(first), read_only)
        found = await info.context.services.host.call(
            self.shown.session.id, request, by=info.context.caller.user.id
        )
        changed = [ChangedFile.of(each) for each in found.files]
        return Difference.of({**snapshots_and_diff.difference_json(found), "files": changed})


@strawberry.type(
    description="Sessions, the newest first; `next` is the cursor of the next page, null on the last."
)
class SessionPage:
    items: list[Session]
    next: str | None
