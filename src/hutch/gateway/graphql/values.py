"""The things of the graph that only hold values."""

from typing import Any, NewType

import orjson
import strawberry
from strawberry.scalars import JSON

from hutch.domain import change as domain
from hutch.domain.events import Entry, entry_json
from hutch.domain.session import QueuedRun
from hutch.domain.user import User as DomainUser
from hutch.gateway.rest import files, snapshots
from hutch.sessions.seam import Delta as SeamDelta
from hutch.snapshots.storage import Snapshot as StoredSnapshot
from hutch.store.seam import Head as StoreHead
from hutch.store.shares import Share as StoreShare
from hutch.workspace.comparison import Difference as FoundDifference
from hutch.workspace.files.listing import Entry as FileEntry

BigInt = NewType("BigInt", int)
SCALARS: dict[object, Any] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="A whole number of up to 64 bits, as a number: times are milliseconds since 1970.",
        serialize=int,
        parse_value=int,
    )
}


@strawberry.type(description="Somebody with an account here.")
class User:
    id: strawberry.ID
    name: str
    role: str

    @classmethod
    def of(cls, user: DomainUser) -> "User":
        return cls(id=strawberry.ID(user.id), name=user.name, role=user.role)


@strawberry.type(description="The caller, and what they came with.")
class Me(User):
    scopes: list[str]


@strawberry.type(description="The newest place in a session's log.")
class Head:
    seq: BigInt
    hash: str
    at_ms: BigInt

    @classmethod
    def of(cls, head: StoreHead) -> "Head":
        return cls(seq=BigInt(head.seq), hash=head.hash, at_ms=BigInt(head.at_ms))


@strawberry.type(description="How far a run may go; null is as the persona and the settings say.")
class Limits:
    turns: BigInt | None
    tokens: BigInt | None
    cost_usd: float | None
    timeout_s: float | None


@strawberry.type(description="One go of an agent at a prompt.")
class Run:
    id: strawberry.ID
    session_id: strawberry.ID
    prompt: str
    input: BigInt
    state: str
    queued_ms: BigInt
    started_ms: BigInt
    ended_ms: BigInt
    outcome: str
    reason: str

    @classmethod
    def of(cls, run: QueuedRun) -> "Run":
        return cls(**{name: getattr(run, name) for name in cls.__annotations__})


@strawberry.type(description="A branch with a commit that somebody can review and merge.")
class Change:
    id: strawberry.ID
    session_id: strawberry.ID
    run_id: strawberry.ID
    repository: str
    branch: str
    base: str
    base_commit: str
    commit: str
    title: str
    body: str
    tests: str
    state: str
    created_ms: BigInt
    merged_commit: str
    forge: str
    number: int
    url: str

    @classmethod
    def of(cls, change: domain.Change) -> "Change":
        return cls(**{name: getattr(change, name) for name in cls.__annotations__})


@strawberry.type(description="An event at its place in a session's log; `event` is as in docs/events.md.")
class Event:
    seq: BigInt
    at_ms: BigInt
    hash: str
    type: str
    event: JSON

    @classmethod
    def of(cls, entry: Entry) -> "Event":
        told = orjson.loads(entry_json(entry))
        return cls(
            seq=told["seq"],
            at_ms=told["at_ms"],
            hash=told["hash"],
            type=entry.event.type,
            event=told["event"],
        )


@strawberry.type(
    description="A piece of a reply as it comes. It is not kept: the whole reply will be an event."
)
class Delta:
    run_id: strawberry.ID
    turn: BigInt
    kind: str
    text: str
    call_id: str
    tool: str

    @classmethod
    def of(cls, delta: SeamDelta) -> "Delta":
        return cls(**{name: getattr(delta, name) for name in cls.__annotations__})


@strawberry.type(description="One name in a workspace.")
class File:
    path: str
    kind: str
    size: BigInt
    mode: int
    modified_ms: BigInt
    target: str | None
    utf8: bool

    @classmethod
    def of(cls, entry: FileEntry) -> "File":
        return cls(**files.told(entry))


@strawberry.type(
    description="Names in a workspace; ask again with `next` for what follows, until that is null."
)
class FilePage:
    items: list[File]
    next: str | None


@strawberry.type(description="The content of a file; bytes that are no UTF-8 are told as U+FFFD.")
class FileContent:
    path: str
    text: str
    size: BigInt
    cut: bool = strawberry.field(description="There is more than was told.")


@strawberry.type(description="The content of a workspace at one moment.")
class Snapshot:
    id: int
    tree: str
    taken_ms: BigInt
    reason: str
    files: int
    bytes: BigInt
    left_out: int

    @classmethod
    def of(cls, snapshot: StoredSnapshot) -> "Snapshot":
        return cls(**snapshots.told(snapshot))


@strawberry.type(description="What became of one file.")
class ChangedFile:
    path: str
    kind: str
    old_path: str | None
    added: int | None
    deleted: int | None


@strawberry.type(description="What differs between two snapshots.")
class Difference:
    old: int | None
    new: int | None
    files: list[ChangedFile]
    total: int
    next: str | None
    patch: str
    cut: bool

    @classmethod
    def of(cls, found: FoundDifference) -> "Difference":
        names = ChangedFile.__annotations__
        changed = [ChangedFile(**{name: getattr(each, name) for name in names}) for each in found.files]
        return cls(
            old=found.old,
            new=found.new,
            files=changed,
            total=found.total,
            next=found.cursor,
            patch=found.patch.decode(errors="replace"),
            cut=found.cut,
        )


@strawberry.type(description="A user's part in a session.")
class Share:
    user_id: strawberry.ID
    role: str
    created_ms: BigInt

    @classmethod
    def of(cls, share: StoreShare) -> "Share":
        return cls(**{name: getattr(share, name) for name in cls.__annotations__})


@strawberry.type(description="Who can work in a session.")
class Persona:
    name: str
    description: str
    tools: list[str]
    default: str
    model: str | None


@strawberry.type(description="Who gives models.")
class Provider:
    name: str
    usable: bool
    reason: str
    default_model: str | None


@strawberry.type(description="What can be used here. Keys are never told.")
class Models:
    default: str
    reason: str
    providers: list[Provider]
