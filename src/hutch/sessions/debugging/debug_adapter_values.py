"""Values from a debug adapter, read as hostile input: every type is checked, every text and list is cut.

Paths are mapped into the workspace by their text alone; what lies outside has only a name. Nothing on the
host is ever opened by such a path.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.redaction import Redactor
from hutch.sessions.debugging.debug_requests import DebugFrame, DebugThread, Variable
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable

MAX_NAME_CHARS = 200
MAX_PATH_CHARS = 1000
MAX_VALUE_CHARS = 4000
MAX_REDACTED_CHARS = 64_000  # of a value, before it is cut: a secret that crosses the cut is found
MAX_ID = 2**53
MAX_FRAMES = 200
MAX_THREADS = 100
MAX_VARIABLES = 500


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of one adapter, without secrets."""

    redactor: Redactor
    workspace: str  # its path in the jail
    also_at: Sequence[str] = ()  # other paths that lead to it

    def text(self, value: object, max_chars: int = MAX_NAME_CHARS) -> str:
        """A text on one line, without secrets; empty for anything else."""
        return printable(self.lines(value, max_chars))

    def lines(self, value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
        """A text that may have several lines."""
        if not isinstance(value, str):
            return ""
        cut = replace_surrogates(value[:MAX_REDACTED_CHARS])
        clean = self.redactor.redact(cut)
        if len(value) > MAX_REDACTED_CHARS:
            clean = self.redactor.drop_partial_secret(clean)
        clean = printable(clean, keep="\n\t")
        return clean if len(clean) <= max_chars else f"{clean[: max_chars - 1]}…"

    def path(self, source: object) -> tuple[str, str]:
        """The path of a source in the workspace, and its name if it is outside."""
        given = source.get("path") if isinstance(source, Mapping) else None
        if not isinstance(given, str) or not given or len(given) > MAX_PATH_CHARS or "\0" in given:
            return "", self.text(source.get("name")) if isinstance(source, Mapping) else ""
        normal = posixpath.normpath(given.removeprefix("file://"))
        for root in (self.workspace, *self.also_at):
            if normal.startswith(f"{root}/"):
                inside = normal[len(root) + 1 :]
                clean = self.text(inside, MAX_PATH_CHARS)
                if clean == inside:  # another name would lead elsewhere
                    return inside, ""
        return "", self.text(posixpath.basename(normal))

    def frames(self, body: Mapping[str, Any]) -> Iterator[tuple[int, DebugFrame]]:
        """The frames of a response, each with the adapter's number of it."""
        for each in _objects(body.get("stackFrames"), MAX_FRAMES):
            path, outside = self.path(each.get("source"))
            frame = DebugFrame(0, self.text(each.get("name")), path, whole(each.get("line")), outside)
            yield whole(each.get("id")), frame

    def threads(self, body: Mapping[str, Any]) -> tuple[DebugThread, ...]:
        found = _objects(body.get("threads"), MAX_THREADS)
        return tuple(DebugThread(whole(each.get("id")), self.text(each.get("name"))) for each in found)

    def variables(self, body: Mapping[str, Any], name: str) -> Iterator[Variable]:
        """The variables or scopes of a response; each `reference` is still the adapter's."""
        for each in _objects(body.get(name), MAX_VARIABLES):
            yield Variable(
                self.text(each.get("name")),
                self.lines(each.get("value")),
                self.text(each.get("type")),
                whole(each.get("variablesReference")),
            )

    def result(self, expression: str, body: Mapping[str, Any]) -> Variable:
        return Variable(
            expression,
            self.lines(body.get("result")),
            self.text(body.get("type")),
            whole(body.get("variablesReference")),
        )


def whole(value: object) -> int:
    """A number from 0, or 0 for anything else."""
    return value if type(value) is int and 0 <= value < MAX_ID else 0


def _objects(value: object, max_count: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value[:max_count] if isinstance(each, Mapping))
