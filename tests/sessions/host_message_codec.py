"""Requests, answers, updates and errors of a session host as bytes, as for a host on another machine.

The bytes name only the request or error; the rest is read by the types that
`requests` declares, so nothing but these types can be made of what comes in. Bytes, and text
that is no Unicode (names of files), are base 64 under a name of their own; so are mappings, whose
keys may be anything.
"""

import base64
import types
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson

from hutch.domain.errors import HutchError
from hutch.domain.events import Entry, ErasedEvent, WithheldEvent, from_json
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.debugging import debug_requests
from hutch.sessions.file_and_command_requests import Request
from hutch.sessions.interface import Delta, SessionHost, Stream, Update, Viewer

T = TypeVar("T")
BYTES, TEXT, MAP = "$bytes", "$text", "$map"  # no field of a dataclass has such a name
REQUESTS: dict[str, type[Request[Any]]] = {
    name: kind
    for name, kind in {**vars(requests), **vars(debug_requests)}.items()
    if isinstance(kind, type) and issubclass(kind, Request) and is_dataclass(kind)
}


def encode_request(request: Request[Any]) -> bytes:
    return _dump({"request": type(request).__name__, "fields": request})


def decode_request(data: bytes) -> Request[Any]:
    read = _load(data)
    return cast("Request[Any]", _build(REQUESTS[read["request"]], read["fields"]))


def encode_answer(answer: object) -> bytes:
    return _dump({"answer": answer})


def decode_answer(request: Request[T], data: bytes) -> T:
    """The answer to this request; an error that was sent in its place is raised."""
    read = _load(data)
    if "error" in read:
        raise _error(read)
    return cast("T", _build(_answer_type(type(request)), read["answer"]))


def encode_error(error: HutchError) -> bytes:
    return _dump({"error": type(error).__name__, "args": error.args, "fields": vars(error)})


def encode_update(update: Update) -> bytes:
    if isinstance(update, Delta):
        return _dump({"delta": update})
    event = update.event
    about: dict[str, Any] = {"type": event.type, "payload": update.payload}
    if isinstance(event, ErasedEvent):
        about = {"type": event.type, "erased": [event.at_ms, event.reason]}
    elif isinstance(event, WithheldEvent):
        about = {"type": event.type, "withheld": True}
    place = {name: getattr(update, name) for name in ("session_id", "seq", "at_ms", "hash")}
    return _dump({"entry": {**place, **about}})


def decode_update(data: bytes) -> Update:
    read = _load(data)
    if "error" in read:
        raise _error(read)
    if "delta" in read:
        return cast("Delta", _build(Delta, read["delta"]))
    entry = read["entry"]
    if "erased" in entry:
        event: Any = ErasedEvent(entry["type"], *entry["erased"])
    elif "withheld" in entry:
        event = WithheldEvent(entry["type"])
    else:
        event = from_json(entry["payload"], entry["type"])
    found = Entry(
        entry["session_id"], entry["seq"], entry["at_ms"], event, entry["hash"], entry.get("payload", b"")
    )
    return cast("VisibleEntry", found)  # the host has shown it to its reader


class CodecHost:
    """A session host whose requests, answers, updates and errors pass through bytes.

    Terminals and connections are streams of bytes already, and are handed through.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def open(self, session_id: SessionId) -> None:
        await self._host.open(session_id)

    async def input(self, session_id: SessionId) -> None:
        await self._host.input(session_id)

    async def apply_changes(self, session_id: SessionId) -> Sequence[str]:
        return await self._host.apply_changes(session_id)

    async def call(self, session_id: SessionId, request: Request[T], *, by: str = "") -> T:
        return decode_answer(request, await self._answer(session_id, encode_request(request), by))

    async def _answer(self, session_id: SessionId, sent: bytes, by: str) -> bytes:
        try:
            return encode_answer(await self._host.call(session_id, decode_request(sent), by=by))
        except HutchError as error:
            return encode_error(error)

    def terminal(
        self,
        session_id: SessionId,
        terminal: str,
        *,
        resume: int | None = None,
        masked: bool = True,
        by: str = "",
    ) -> AbstractAsyncContextManager[Viewer]:
        return self._host.terminal(session_id, terminal, resume=resume, masked=masked, by=by)

    async def connect(self, session_id: SessionId, port: int) -> Stream:
        return await self._host.connect(session_id, port)

    async def follow(
        self, session_id: SessionId, reader: Reader, *, after: int = 0
    ) -> AsyncGenerator[Update]:
        sent = cast("Reader", _build(Reader, _load(_dump(reader))))
        async with aclosing(self._sent_updates(session_id, sent, after)) as updates:
            async for data in updates:
                yield decode_update(data)

    async def _sent_updates(self, session_id: SessionId, reader: Reader, after: int) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(self._host.follow(session_id, reader, after=after)) as updates:
                async for update in updates:
                    yield encode_update(update)
        except HutchError as error:
            yield encode_error(error)

    async def close(self, session_id: SessionId, *, reason: str) -> None:
        await self._host.close(session_id, reason=reason)

    async def remove_workspace(self, workspace_id: str) -> None:
        await self._host.remove_workspace(workspace_id)


def _dump(value: object) -> bytes:
    return orjson.dumps(_plain(value))


def _plain(value: object) -> object:
    match value:
        case bytes():
            return {BYTES: base64.b64encode(value).decode()}
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return {TEXT: base64.b64encode(value.encode(errors="surrogatepass")).decode()}
            return value
        case None | bool() | int() | float():
            return value
        case datetime():
            return value.isoformat()
        case Mapping():
            return {MAP: [[_plain(name), _plain(each)] for name, each in value.items()]}
        case Sequence():
            return [_plain(each) for each in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be sent to another machine")


def _load(data: bytes) -> Any:
    return _restore(orjson.loads(data))


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(each) for each in value]
    if not isinstance(value, dict):
        return value
    if BYTES in value:
        return base64.b64decode(value[BYTES])
    if TEXT in value:
        return base64.b64decode(value[TEXT]).decode(errors="surrogatepass")
    if MAP in value:
        return {_restore(name): _restore(each) for name, each in value[MAP]}
    return {name: _restore(each) for name, each in value.items()}


def _build(hint: Any, value: Any) -> Any:
    """Parse a value of a declared type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _build(next(each for each in inner if each is not type(None)), value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(hint) and isinstance(hint, type):
        declared = _hints(hint)
        return hint(**{name: _build(declared[name], each) for name, each in value.items()})
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        return tuple(_build(kind, each) for kind, each in zip(kinds, value, strict=True))
    if origin is list or (origin is not None and origin is not Literal and isinstance(value, list)):
        return [_build(inner[0], each) for each in value]
    if isinstance(value, dict) and inner:
        return {name: _build(inner[1], each) for name, each in value.items()}
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _answer_type(kind: type[Request[Any]]) -> Any:
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]
    return get_args(base)[0]


def _error(read: Mapping[str, Any]) -> HutchError:
    """The error that was sent, as its own type; one of a newer version is a plain one."""
    kind = _errors().get(read["error"], HutchError)
    error = kind.__new__(kind)
    Exception.__init__(error, *read["args"])
    vars(error).update(read["fields"])
    return error


def _errors() -> dict[str, type[HutchError]]:
    known, new = {"HutchError": HutchError}, [HutchError]
    while new:
        new = [each for kind in new for each in kind.__subclasses__()]
        known |= {each.__name__: each for each in new}
    return known
