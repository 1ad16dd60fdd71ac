"""Every line has its four fields, no secret, and no way to pretend to be two."""

import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from hutch import logs
from hutch.domain.redaction import Redactor

SECRET = "correct horse battery"
FORGERY = "x\r\n\x1b[2J\x9b2J\u2028\u202e\x00 level=error"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("hutch").setLevel(logging.NOTSET)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


class Written(io.StringIO):
    """The written log, as a file or as a terminal."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


def configured(
    level: logs.Level = "info", format: logs.Format = "json", *, terminal: bool = False
) -> Written:
    written = Written(terminal=terminal)
    logs.configure(level, format, written, Redactor([SECRET]))
    return written


def test_a_json_line_has_time_level_event_and_trace_id_first() -> None:
    written = configured()
    structlog.get_logger("hutch.jail").info("jail.opened", session="ses_1", took_ms=20)
    (line,) = written.json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("time"))
    assert list(line)[:3] == ["level", "event", "trace_id"]
    assert line == {
        "level": "info",
        "event": "jail.opened",
        "trace_id": logs.PROCESS_TRACE_ID,
        "logger": "hutch.jail",
        "session": "ses_1",
        "took_ms": 20,
    }


def test_lines_below_the_level_are_not_written() -> None:
    written = configured("warning")
    structlog.get_logger("hutch.test").info("quiet")
    logging.getLogger("library").info("quiet")
    structlog.get_logger("hutch.test").warning("loud")
    assert [line["event"] for line in written.json()] == ["loud"]


def test_other_libraries_log_from_warning_up_and_more_when_debugging() -> None:
    written = configured()
    logging.getLogger("library").info("chatter")
    logging.getLogger("library").warning("heard")
    structlog.get_logger("hutch.test").debug("quiet")
    debugging = configured("debug")
    logging.getLogger("library").info("chatter")
    structlog.get_logger("hutch.test").debug("heard")
    assert [line["event"] for line in written.json()] == ["heard"]
    assert [line["event"] for line in debugging.json()] == ["chatter", "heard"]


def test_the_last_configuration_counts_also_for_loggers_made_before() -> None:
    first = configured()
    log = structlog.get_logger("hutch.test")
    log.info("one")
    second = configured()
    log.info("two")
    assert [line["event"] for line in first.json() + second.json()] == ["one", "two"]


def test_auto_is_for_people_on_a_terminal_and_json_elsewhere() -> None:
    terminal = configured(format="auto", terminal=True)
    structlog.get_logger("hutch").warning("disk.filling")
    file = configured(format="auto")
    structlog.get_logger("hutch").warning("disk.filling")
    assert " warning  disk.filling trace_id=" in terminal.getvalue()
    assert file.json()[0]["event"] == "disk.filling"


def test_colours_are_for_terminals_only() -> None:
    terminal = configured(format="human", terminal=True)
    structlog.get_logger("hutch.test").error("e")
    file = configured(format="human")
    structlog.get_logger("hutch.test").error("e")
    assert "\x1b[31m" in terminal.getvalue()
    assert "\x1b" not in file.getvalue()


def test_a_trace_marks_its_lines_and_ends() -> None:
    written = configured()
    log = structlog.get_logger("hutch.test")
    with logs.trace() as outer:
        log.info("a")
        with logs.trace("0af7651916cd43dd8448eb211c80319c") as inner:
            logging.getLogger("library").warning("b")
            assert logs.current_trace_id() == inner == "0af7651916cd43dd8448eb211c80319c"
        log.info("c")
    log.info("d")
    assert [line["trace_id"] for line in written.json()] == [outer, inner, outer, logs.PROCESS_TRACE_ID]
    assert all(re.fullmatch("[0-9a-f]{32}", line["trace_id"]) for line in written.json())


@pytest.mark.parametrize("strange", ["", "abc", "A" * 32, "0" * 32, "a" * 31 + "\n", "a" * 33])
def test_a_strange_trace_id_from_outside_is_replaced(strange: str) -> None:
    with logs.trace(strange) as trace_id:
        assert re.fullmatch("[0-9a-f]{32}", trace_id)
        assert trace_id != strange


def test_fields_cannot_take_the_place_of_the_four() -> None:
    written = configured()
    structlog.get_logger("hutch.test").info("event", level="fake", time="fake", trace_id="fake")
    (line,) = written.json()
    assert "fake" not in line.values()


def test_lines_of_other_libraries_go_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # A server that ran in this process before may have silenced it.
    uvicorns = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(uvicorns, "propagate", True)
    before = logging.StreamHandler(io.StringIO())  # a formatter leaves the message on the record
    before.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    monkeypatch.setattr(uvicorns, "handlers", [before])
    written = configured()
    uvicorns.warning("%s %d", "GET /", 200, extra={"took_ms": 3, "color_message": "x"})
    (line,) = written.json()
    del line["time"]
    assert line == {
        "level": "warning",
        "event": "GET / 200",
        "trace_id": logs.PROCESS_TRACE_ID,
        "logger": "uvicorn.access",
        "took_ms": 3,
    }


class Leaky:
    def __repr__(self) -> str:
        return f"Leaky({SECRET})"


@pytest.mark.parametrize("format", ["json", "human"])
def test_secrets_are_taken_out_wherever_they_hide(format: logs.Format) -> None:
    written = configured(format=format)
    log = structlog.get_logger("hutch.test")
    log.info(f"in the event {SECRET}", plain=SECRET, **{SECRET: "in a key"})
    log.info("nested", value={"a": [SECRET, (SECRET, {SECRET})], SECRET: {"b": SECRET.encode()}})
    log.info("object", value=Leaky(), error=ValueError(SECRET))
    log.info("shape", header="Authorization: Bearer abcdefghijklmnop")
    logging.getLogger("library").warning("argument %s", SECRET, extra={"more": SECRET})
    try:
        raise RuntimeError(SECRET) from KeyError(SECRET)
    except RuntimeError:
        log.exception("failed")
        logging.getLogger("library").exception("failed")
    with structlog.contextvars.bound_contextvars(bound=SECRET):
        log.info("bound")
    assert SECRET not in written.getvalue()
    assert "abcdefghijklmnop" not in written.getvalue()
    assert written.getvalue().count("Traceback (most recent call last)") == 2
    assert written.getvalue().count("RuntimeError: [redacted:secret]") == 2


@pytest.mark.parametrize("format", ["json", "human"])
def test_secrets_are_taken_out_of_numbers_reprs_and_exception_groups(format: logs.Format) -> None:
    quoted, number, lines = "hunter2'\"pass\tw0rd-é", "123456789012", "line1-secret-aaaa\nline2-secret-bbbb"
    written = Written()
    logs.configure("info", format, written, Redactor([quoted, number, lines]))
    log = structlog.get_logger("hutch.test")
    log.info("number", value=int(number), more=[-int(number), float(number), int(number + "00")])
    log.info("repr", value=ValueError(quoted), more=(ValueError(quoted.encode()), bytearray(quoted.encode())))
    log.info(f"argv {['--token', quoted]!r}")
    try:
        raise ExceptionGroup("several", [ValueError(lines), ExceptionGroup("more", [KeyError(quoted)])])
    except ExceptionGroup:
        log.exception("failed")
    for secret in ("hunter2", "w0rd", number, "line1-secret", "line2-secret"):
        assert secret not in written.getvalue()
    assert "ExceptionGroup: several (2 sub-exceptions)" in written.getvalue()


def test_ordinary_numbers_stay_numbers() -> None:
    written = configured()
    structlog.get_logger("hutch.test").info(
        "e", values=[0, -1, 10**400, 1.5, 1e300, True], size=1_732_000_000_000
    )
    (line,) = written.json()
    assert (line["values"], line["size"]) == ([0, -1, 10**400, 1.5, 1e300, True], 1_732_000_000_000)


@pytest.mark.parametrize("format", ["json", "human"])
def test_no_string_starts_a_line_or_steers_the_terminal(format: logs.Format) -> None:
    written = configured(format=format)
    log = structlog.get_logger("hutch.test")
    log.info(FORGERY, value=FORGERY, nested=[FORGERY], **{FORGERY: 1})
    logging.getLogger(FORGERY).warning(FORGERY)
    assert len(written.getvalue().split("\n")) == 3
    assert re.search(r"[^\n -~]", written.getvalue()) is None


def test_a_hostile_exception_stays_inside_its_indented_block() -> None:
    written = configured(format="human")
    try:
        raise ValueError("first\n2026-01-01T00:00:00Z info     forged\x1b[2J")
    except ValueError:
        structlog.get_logger("hutch.test").exception("failed")
    head, *rows = written.getvalue().rstrip("\n").split("\n")
    assert " error    failed " in head
    assert all(row.startswith("    | ") for row in rows)
    assert "\x1b" not in written.getvalue()


def test_a_value_of_several_words_is_quoted_for_people() -> None:
    written = configured(format="human")
    structlog.get_logger("hutch.test").info(
        "e", value='a b="c"', word="docs.example.com:443", empty="", number=1.5
    )
    assert r' value="a b=\"c\"" word=docs.example.com:443 empty="" number=1.5' in written.getvalue()


def test_values_that_json_has_no_word_for_are_still_written() -> None:
    written = configured()
    loop: list[Any] = []
    loop.append(loop)
    structlog.get_logger("hutch.test").info(
        "e", nan=float("nan"), raw=b"\xff", loop=loop, surrogate="\udc80", none=None
    )
    (line,) = written.json()
    assert (line["nan"], line["raw"], line["surrogate"], line["none"]) == ("nan", "\\xff", "\udc80", None)


def test_a_line_that_cannot_be_formatted_is_reported_without_its_arguments(
    capfd: pytest.CaptureFixture[str],
) -> None:
    written = configured()
    logging.getLogger("library").warning("%d", SECRET)
    (line,) = written.json()
    assert (line["level"], line["event"], line["problem"]) == (
        "error",
        "log line could not be written",
        "TypeError",
    )
    assert line["file"].endswith("test_logs.py")
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_went_away_does_not_break_the_writer(capfd: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w", buffering=1)
    logs.configure(stream=stream)
    structlog.get_logger("hutch.test").info("nobody reads this")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), writing)
    stream.close()
    assert capfd.readouterr() == ("", "")


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    structlog.get_logger("hutch.test").info("e")
    out, err = capsys.readouterr()
    assert (out, json.loads(err)["event"]) == ("", "e")


def test_lines_also_go_to_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    written, file = Written(), tmp_path / "state" / "server.log"
    logs.configure("info", "human", written, Redactor([SECRET]), file=file)
    structlog.get_logger("hutch").info("server.started", note=SECRET)
    (line,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (line["event"], line["level"]) == ("server.started", "info")
    assert SECRET not in file.read_text() + written.getvalue()
    assert "server.started" in written.getvalue()
    assert file.stat().st_mode & 0o777 == 0o600
    logs.configure("info", "json", written)


def test_lines_go_only_to_a_file_when_the_stream_has_no_reader(tmp_path: Path) -> None:
    written, file = Written(), tmp_path / "server.log"
    logs.configure("info", "human", written, file=file, file_only=True)
    structlog.get_logger("hutch").warning("alone")
    assert (written.getvalue(), json.loads(file.read_text())["event"]) == ("", "alone")
    logs.configure("info", "json", written)
