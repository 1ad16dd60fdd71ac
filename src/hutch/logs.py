"""Logging of Hutch itself: one line per event.

The lines are JSON for machines, or plain text for people at a terminal. Every line has the
time, the level, the event and a trace id, so that one request can be followed
through all components. Lines that libraries send to the standard `logging` are
included (start uvicorn with `log_config=None`): warnings and errors only, unless the
level is debug.

Many logged strings are untrusted. Secrets are redacted in every string, and no string
can start a new line or control the terminal.
"""

import json
import logging
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter

from hutch.domain.redaction import MIN_VALUE_CHARS, Redactor
from hutch.domain.trace_id import trace_id
from hutch.system.terminal_safe_text import printable

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "human"]
Line = MutableMapping[str, Any]

MAX_DEPTH = 8  # levels of nesting that are written
FILE_BYTES, BACKUP_FILES = 16 * 1024 * 1024, 3
PROCESS_TRACE_ID = secrets.token_hex(16)

_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_PLAIN = re.compile(r"[\w./:@+,-]+", re.ASCII)
# Libraries log much as "info" that only helps to debug them.
_LIBRARY_LEVELS: dict[Level, int] = {
    "debug": logging.INFO,
    "info": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_COLOURS = {"debug": "\x1b[2m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}


def configure(
    level: Level = "info",
    format: Format = "auto",
    stream: TextIO | None = None,
    redactor: Redactor | None = None,
    *,
    file: Path | None = None,
    file_only: bool = False,
) -> None:
    """Send all lines, also of libraries, to `stream`, and as JSON to `file`; the last call wins."""
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    human = format == "human" or (format == "auto" and terminal)
    redactor = Redactor() if redactor is None else redactor

    handlers: list[logging.Handler] = []
    if file is None or not file_only:
        handlers.append(_ReportingHandler(stream))
        handlers[0].setFormatter(_formatter(redactor, _human(colours=terminal) if human else _json))
    if file is not None:
        handlers.append(_FileHandler(file))
        handlers[-1].setFormatter(_formatter(redactor, _json))
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
        if isinstance(other, _FileHandler):
            other.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(_LIBRARY_LEVELS[level])
    logging.getLogger("hutch").setLevel(level.upper())
    structlog.configure(
        processors=[structlog.processors.StackInfoRenderer(), ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # so that the last call wins
    )


def _formatter(redactor: Redactor, render: Callable[[Any, str, Line], str]) -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _drop_duplicates],
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            ProcessorFormatter.remove_processors_meta,
            _add_trace_id,
            _cleaner(redactor),
            render,
        ],
    )


@contextmanager
def trace(trace_id: str | None = None) -> Iterator[str]:
    """Give all lines of the block the same trace id: the one passed if it is valid (W3C), else a new one."""
    valid = trace_id is not None and _TRACE_ID.fullmatch(trace_id)
    bound = trace_id if trace_id and valid else secrets.token_hex(16)
    with structlog.contextvars.bound_contextvars(trace_id=bound):
        yield bound


def current_trace_id() -> str:
    """The trace id of a line written now; outside of any trace, the id of the process."""
    return trace_id() or PROCESS_TRACE_ID


def _drop_duplicates(_: Any, __: str, line: Line) -> Line:
    """Drop copies of the event: uvicorn's coloured form, and those that other handlers left on the record."""
    for copy in ("color_message", "message", "asctime"):
        line.pop(copy, None)
    return line


def _add_trace_id(_: Any, __: str, line: Line) -> Line:
    line["trace_id"] = current_trace_id()
    return line


def _cleaner(redactor: Redactor) -> Callable[[Any, str, Line], Line]:
    """A step that keeps only JSON values without secrets, and puts the four common fields first."""

    def clean(value: object, depth: int = 0) -> Any:
        match value:
            case str():
                return redactor.redact(value)
            case None | bool():
                return value
            case float() if not isfinite(value):
                return str(value)
            case int() | float():
                text = repr(value)  # a secret may consist of digits only
                cleaned = redactor.redact(text) if len(text) >= MIN_VALUE_CHARS else text
                return value if cleaned == text else cleaned
            case bytes():
                return redactor.redact(value.decode(errors="backslashreplace"))
            case Mapping() | list() | tuple() | set() | frozenset() if depth >= MAX_DEPTH:
                return "…"
            case Mapping():
                return {redactor.redact(str(key)): clean(inner, depth + 1) for key, inner in value.items()}
            case list() | tuple() | set() | frozenset():
                return [clean(inner, depth + 1) for inner in value]
            case _:
                return redactor.redact(repr(value))

    def step(_: Any, __: str, line: Line) -> Line:
        first = {key: line.pop(key, "") for key in ("time", "level", "event", "trace_id")}
        return {**clean(first), "event": clean(str(first["event"])), **clean(line)}

    return step


def _json(_: Any, __: str, line: Line) -> str:
    return json.dumps(line)  # in ASCII: newlines and control characters are escaped with the rest


def _human(*, colours: bool) -> Callable[[Any, str, Line], str]:
    """A step that renders `TIME LEVEL EVENT key=value …`, and below it the traceback, indented."""

    def render(_: Any, __: str, line: Line) -> str:
        time, level, event = (line.pop(key) for key in ("time", "level", "event"))
        details = [str(line.pop(key)) for key in ("exception", "stack") if key in line]
        pairs = [f"{_token(key)}={_token(value)}" for key, value in line.items()]
        text = f"{time} {level:<8} {' '.join([printable(event), *pairs])}"
        for row in (row for detail in details for row in detail.split("\n")):
            text += f"\n    | {printable(row)}"
        colour = _COLOURS.get(level, "") if colours else ""
        return f"{colour}{text}\x1b[0m" if colour else text

    return render


def _token(value: object) -> str:
    """A key or value as one token: quoted unless it is one plain word."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return printable(json.dumps(value, ensure_ascii=False))


class _ReportingHandler(logging.StreamHandler[Any]):
    """Reports in one safe line that a line could not be written. The default handler would print the raw
    arguments."""

    def handleError(self, record: logging.LogRecord) -> None:
        kind = getattr(sys.exc_info()[0], "__name__", "unknown")
        where = {"file": record.pathname, "line": record.lineno, "problem": kind}
        report = logging.LogRecord(
            record.name, logging.ERROR, "", 0, "log line could not be written", (), None
        )
        report.__dict__.update(where)
        with suppress(Exception):  # the stream itself is gone: there is no other place to report it
            self.stream.write(self.format(report) + self.terminator)


class _FileHandler(RotatingFileHandler, _ReportingHandler):
    """Lines to a rotating file that only its owner can read."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(file, maxBytes=FILE_BYTES, backupCount=BACKUP_FILES, encoding="utf-8")

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
