"""The GraphQL types that only hold values.

Their fields come from the responses of the REST API, which take theirs from the domain.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial, reduce
from inspect import get_annotations
from operator import or_
from types import GenericAlias, UnionType
from typing import Any, Literal, NewType, Self, TypeVar, cast, get_args, get_origin, get_type_hints

import orjson
import strawberry
from pydantic import BaseModel
from strawberry.scalars import JSON

from hutch.domain.generation_option_fields import GenerationFields
from hutch.domain.log_entry_audience import VisibleEntry, entry_json
from hutch.gateway.rest.files import FileOut
from hutch.gateway.rest.language_models import ModelsOut, ProviderOut
from hutch.gateway.rest.login_and_account import UserOut
from hutch.gateway.rest.personas import PersonaOut
from hutch.gateway.rest.proposed_changes import ChangeOut
from hutch.gateway.rest.run_and_command_limit_fields import EffectiveLimitOut, ResourcesOut
from hutch.gateway.rest.runs import RunOut
from hutch.gateway.rest.session_shares import ShareOut
from hutch.gateway.rest.sessions import HeadOut, LimitsOut
from hutch.gateway.rest.snapshots_and_diff import ChangedOut, DifferenceOut, SnapshotOut
from hutch.gateway.rest.test_runs import TestRunOut
from hutch.sessions.interface import Delta as SessionDelta

T = TypeVar("T")
BigInt = NewType("BigInt", int)
BIG = frozenset({"seq", "input", "turn", "turns", "tokens", "size", "bytes"})
BIG_ENDINGS = ("_ms", "_bytes")
SCALARS: dict[object, Any] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="A 64-bit integer, as a JSON number. Times are in milliseconds since 1970.",
        serialize=int,
        parse_value=int,
    )
}


def node(source: type, without: str = "", description: str = "") -> Callable[[type[T]], type[T]]:
    """Make a GraphQL type with the fields of a response or a dataclass, except those in `without`."""
    described: Mapping[str, Any] = source.model_fields if issubclass(source, BaseModel) else {}
    types = {name: field.annotation for name, field in described.items()}
    if not types:
        types = {field.name: get_type_hints(source)[field.name] for field in fields(source)}
    left_out = without.split()

    def make(cls: type[T]) -> type[T]:
        own = get_annotations(cls)
        taken = [name for name in types if name not in left_out and name not in own]
        for name in taken:
            if name in described and described[name].description:
                setattr(cls, name, strawberry.field(description=described[name].description))
        cls.__annotations__ = {**{name: _graph_type(name, types[name]) for name in taken}, **own}
        return strawberry.type(cls, description=description or source.__doc__)

    return make


def _graph_type(name: str, annotation: Any) -> Any:
    """The GraphQL type of a field."""
    match get_origin(annotation):
        case origin if origin is UnionType:
            return reduce(or_, (_graph_type(name, each) for each in get_args(annotation)))
        case origin if origin is Literal:
            return str
        case origin if origin in (tuple, list):
            return GenericAlias(list, get_args(annotation)[:1])
    if annotation is int:
        return BigInt if name in BIG or name.endswith(BIG_ENDINGS) else int
    return strawberry.ID if name in ("id", "session_id", "run_id", "user_id") else annotation


class Node:
    """Made from a value of the domain, or from its REST response."""

    @classmethod
    def of(cls, value: Any) -> Self:
        read = value.__getitem__ if isinstance(value, Mapping) else partial(getattr, value)
        make: Any = cls
        return cast("Self", make(**{name: read(name) for name in cls.__annotations__}))


@node(UserOut, "created_ms disabled")
class User(Node):
    pass


@node(UserOut, "created_ms disabled", "The caller and their credential.")
class Me(Node):
    scopes: list[str]


@node(HeadOut)
class Head(Node):
    pass


@node(LimitsOut, description="The limits of a run; null means the default of the persona or the settings.")
class Limits(Node):
    pass


@node(ResourcesOut)
class ResourceLimits(Node):
    pass


@node(GenerationFields, description="Options of the model's replies; null means not set.")
class Generation(Node):
    temperature: float | None
    max_reply_tokens: int | None
    effort: str | None


@node(EffectiveLimitOut)
class EffectiveLimit(Node):
    value: float | None


@node(RunOut, "owner delivered")
class Run(Node):
    pass


@node(TestRunOut)
class TestRun(Node):
    pass


@node(ChangeOut)
class Change(Node):
    pass


@strawberry.type(description="An event with its number in a session's log; docs/events.md describes `event`.")
class Event:
    seq: BigInt
    at_ms: BigInt
    hash: str
    type: str
    event: JSON

    @classmethod
    def of(cls, entry: VisibleEntry) -> "Event":
        entry_fields = orjson.loads(entry_json(entry))
        return cls(
            seq=entry_fields["seq"],
            at_ms=entry_fields["at_ms"],
            hash=entry_fields["hash"],
            type=entry.event.type,
            event=entry_fields["event"],
        )


@strawberry.type(
    description="Events; `next` is `after` of the next page, null when the whole log was searched."
)
class EventPage:
    items: list[Event]
    next: BigInt | None


@node(
    SessionDelta,
    "audience",
    "A part of a reply while it arrives. It is not stored: the complete reply becomes an event.",
)
class Delta(Node):
    pass


@node(FileOut)
class File(Node):
    pass


@strawberry.type(
    description="Entries of a directory; `next` is the cursor of the next page, null on the last."
)
class FilePage:
    items: list[File]
    next: str | None


@strawberry.type(description="The content of a file; bytes that are not UTF-8 become U+FFFD.")
class FileContent:
    path: str
    text: str
    size: BigInt
    cut: bool = strawberry.field(description="The content was truncated.")


@node(SnapshotOut)
class Snapshot(Node):
    pass


@node(ChangedOut, "old_mode new_mode")
class ChangedFile(Node):
    pass


@node(DifferenceOut)
class Difference(Node):
    files: list[ChangedFile]


@node(ShareOut, "session_id user_name created_by")
class Share(Node):
    pass


@node(PersonaOut)
class Persona(Node):
    generation: Generation

    @classmethod
    def of(cls, value: Any) -> "Persona":
        return super().of({**value, "generation": Generation.of(value["generation"])})


@node(ProviderOut)
class Provider(Node):
    pass


@node(ModelsOut)
class Models(Node):
    providers: list[Provider]
