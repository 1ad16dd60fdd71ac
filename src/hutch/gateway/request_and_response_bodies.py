"""JSON responses: plain values, models and dataclasses, and paged lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Generic, TypeVar, cast, get_type_hints

import orjson
from fastapi import Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from hutch.domain.errors import BadRequest
from hutch.domain.ids import ID_PATTERN, is_id
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.one_line_text import echo

T = TypeVar("T")

MAX_ITEMS = 200
MAX_SIZE = 2**63 - 1  # the largest integer of the database


Limit = Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The maximum number of items.")]
Cursor = Annotated[
    str,
    Query(
        max_length=80,
        description="`next` of the previous page; empty for the first.",
        json_schema_extra={"pattern": f"^(?:{ID_PATTERN})?$"},
    ),
    AfterValidator(lambda text: _validated_cursor(text)),
]
NumberCursor = Annotated[
    str, Query(pattern="^[0-9]{0,18}$", description="`next` of the previous page; empty for the first.")
]
Id = Annotated[str, Field(max_length=80)]


class In(BaseModel):
    """The base of request bodies: no unknown fields, no NaN, and true is not 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class Out(BaseModel):
    """The base of response bodies."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @classmethod
    def of(cls, value: object) -> dict[str, Any]:
        """The fields of this response, read from a value of the domain; no other field is published."""
        return {name: getattr(value, name) for name in cls.model_fields}


AnOut = TypeVar("AnOut", bound=Out)


def fields_from(source: type, names: str = "") -> Callable[[type[AnOut]], type[AnOut]]:
    """Give a response the fields of a dataclass: all of them, or those named.

    The class itself declares only the fields that need a description, another type, or are not in the
    dataclass.
    """
    types = get_type_hints(source)
    copied = names.split() or [field.name for field in fields(source)]

    def extend(model: type[AnOut]) -> type[AnOut]:
        own = model.model_fields
        order = dict.fromkeys([*copied, *own])
        all_fields: dict[str, Any] = {
            name: (own[name].annotation, own[name]) if name in own else (types[name], ...) for name in order
        }
        about: dict[str, Any] = {"__doc__": model.__doc__, "__module__": model.__module__}
        extended: Any = create_model(model.__name__, __base__=model.__base__, **about, **all_fields)
        return cast("type[AnOut]", extended)

    return extend


class Page(Out, Generic[T]):
    """A page of a list; `next` is the cursor of the next page, null on the last."""

    items: Sequence[T]
    next: str | None = None


def cursor(text: str) -> str:
    """Check a caller's cursor into a list of items with ids."""
    if text and not is_id(text):
        raise BadRequest(f"{echo(text)} is not a cursor. Use `next` of the previous page.")
    return text


def _validated_cursor(text: str) -> str:
    try:
        return cursor(text)
    except BadRequest as error:
        raise ValueError(str(error)) from None


def to_json(value: Any) -> bytes:
    """Serialize a response. Bytes of file names that are not UTF-8 become U+FFFD."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return orjson.dumps(_without_surrogates(value))


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(value), status, headers, "application/json")


def page(
    request: Request,
    items: Sequence[Any],
    next: str | int | None,
    cursor: str = "cursor",
    **more: Any,
) -> Response:
    """A page of a list; the header Link has the URL of the next one."""
    return answer({"items": items, "next": next, **more}, headers=next_link(request, cursor, next))


def next_link(request: Request, parameter: str, next: str | int | None) -> dict[str, str]:
    """The header with the URL of the next page, if there is one."""
    if next is None:
        return {}
    url = request.url.include_query_params(**{parameter: next})
    return {"Link": f'<{url.path}?{url.query}>; rel="next"'}


def paged(request: Request, found: Sequence[Any], limit: int, model: type[Out] | None = None) -> Response:
    """A page of items with ids; `found` has one more than `limit` if there is a next page."""
    more = found[limit - 1].id if len(found) > limit else None
    return page(request, [model.of(each) for each in found[:limit]] if model else found[:limit], more)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    raise TypeError(f"{type(value).__name__} cannot be serialized")


def _without_surrogates(value: Any) -> Any:
    """The same value with lone surrogates in strings replaced."""
    match value:
        case str():
            return replace_surrogates(value)
        case Mapping():
            return {replace_surrogates(str(key)): _without_surrogates(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_without_surrogates(inner) for inner in value]
        case BaseModel():
            return _without_surrogates(_plain(value))
        case _ if is_dataclass(value):
            return {field.name: _without_surrogates(getattr(value, field.name)) for field in fields(value)}
    return value
