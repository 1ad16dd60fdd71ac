"""Every event of a log as one readable line."""

from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from hutch.cli.render.event_line import MAX_TEXT_CHARS, event_line
from hutch.domain.debug_events import BreakpointLine, StoppedFrame
from hutch.domain.events import (
    EVENT_TYPES,
    CallMade,
    CommandEnded,
    CommandStarted,
    ErasedEvent,
    Event,
    EventsOmitted,
    FileChanged,
    FilesChanged,
    ModelReplied,
    SessionRewound,
    ShellPrinted,
    TerminalTyped,
    ToolCalled,
    ToolReturned,
    UnknownEvent,
    WithheldEvent,
)
from hutch.domain.session_events import OptionChange
from hutch.domain.test_run_events import CaseResult, SuiteResult

NAMES = {"usr_1": "ada"}
PYTHON = ("None", "True", "False", "('", "{'", "usr_")
WITHOUT_TEXT = {"session.woken", "session.paused", "session.resumed", "delivery.requested", "run.resumed"}


def _value(name: str, field: FieldInfo) -> Any:
    """A value of a field's type; text is a word that no Python value contains."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    if name in ("by", "owner"):
        return "usr_1"
    if name == "calls":
        return (CallMade(id="c", tool="bash", arguments="{}"),)
    if name == "changes" and OptionChange.__name__ in str(kind):
        return (OptionChange(name="persona", before="", after="reviewer"),)
    if name == "cases" and CaseResult.__name__ in str(kind):
        return (CaseResult(suite="pytest", name="test_a", outcome="failed"),)
    if name == "suites" and SuiteResult.__name__ in str(kind):
        return (SuiteResult(name="pytest", command="pytest", ok=False),)
    if name == "frames":
        return (StoppedFrame(name="total", file="shop.py", line=8),)
    if name == "breakpoints":
        return (BreakpointLine(line=8),)
    if name in ("types", "opaque", "directories", "reasons"):
        return {"shell.printed": 2} if name == "types" else {}
    if name == "events":
        return ({"type": "message.sent"},)
    if "dict[" in str(kind):
        return ({},) if "tuple" in str(kind) else {}
    if "TryResult" in str(kind):
        return ({"name": "some-text", "helper": "some-text"},)
    if "tuple" in str(kind):
        return ("some-text",)
    if kind in (bool, int, float) or any(each in (int, float) for each in get_args(kind)):
        return True if kind is bool else 3
    return "some-text"


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_every_event_is_one_line_without_python_values(type_: str) -> None:
    kind: type[Event] = EVENT_TYPES[type_]
    fields = {
        name: _value(name, field)
        for name, field in kind.model_fields.items()
        if name not in ("v", "audience")
    }
    full = kind(**fields)
    required = {name: fields[name] for name, field in kind.model_fields.items() if field.is_required()}
    for event in (full, kind(**required)):
        line = event_line(event, NAMES)
        assert "\n" not in line and not any(each in line for each in PYTHON)
    assert event_line(full, NAMES).endswith("by ada") == ("by" in fields or "owner" in fields)
    assert type_ in WITHOUT_TEXT or event_line(full, {}).removesuffix("by usr_1").strip()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            ModelReplied(
                run_id="r",
                turn=1,
                text="I look.\nThen I edit.",
                input_tokens=1200,
                output_tokens=5,
                calls=(CallMade(id="c", tool="bash", arguments="{}"),),
            ),
            "I look. ⏎ Then I edit. calls bash (1,200 tokens in, 5 out)",
        ),
        (ToolCalled(run_id="r", call_id="c", tool="bash", arguments='{"command": "ls"}'), "bash ls"),
        (ToolReturned(run_id="r", call_id="c", tool="bash", ok=False, text="no"), "bash failed: no"),
        (
            CommandEnded(shell="agent", command="ls", cwd="/", exit_code=2, duration_s=1.25),
            "agent: exit code 2 after 1.2 s",
        ),
        (
            CommandEnded(shell="agent", command="ls", cwd="/", exit_code=None, signal=9, duration_s=1.0),
            "agent: signal KILL after 1.0 s",
        ),
        (ShellPrinted(shell="agent", stream="stdout", text="a\tb\nc\n"), "agent: a b ⏎ c"),
        (CommandStarted(terminal="1", command="ls", cwd="/", by="usr_1"), "terminal 1: ls  by ada"),
        (TerminalTyped(terminal="1", text="ls\r", by="usr_1"), "1: ls\\r  by ada"),
        (
            TerminalTyped(terminal="1", text="", hidden_chars=9, by="usr_1"),
            "1: [9 hidden characters]  by ada",
        ),
        (
            FileChanged(
                path="a", kind="created", cause="job", source="main", possible_authors=("usr_1", "agent")
            ),
            "created a  (job main)  perhaps by ada or agent",
        ),
        (
            FilesChanged(created=2000, deleted=1, directories={"": 1, "build": 2000}, by="usr_1"),
            "2,000 created, 1 deleted files (.: 1, build: 2,000)  by ada",
        ),
        (
            EventsOmitted(
                cause="storage",
                reason="The disk was full.",
                since_ms=1,
                until_ms=2,
                count=3,
                types={"shell.printed": 3},
            ),
            "The disk was full.  (3 shell.printed)",
        ),
        (
            SessionRewound(to_seq=4, snapshot=2, by="usr_1", discarded=("a.py", "b.py")),
            "to event 4; discarded a.py, b.py  by ada",
        ),
        (ErasedEvent("message.sent", 0, "asked"), "(erased 1970-01-01 00:00:00: asked)"),
        (WithheldEvent("message.sent"), "(withheld)"),
        (UnknownEvent("new.thing", b'{"a":1}'), '(from a newer Hutch) {"a":1}'),
    ],
)
def test_lines(event: Any, line: str) -> None:
    assert event_line(event, NAMES) == line


def test_a_long_text_is_cut_and_its_length_is_named() -> None:
    line = event_line(ShellPrinted(shell="agent", stream="stdout", text="x" * 5000), {})
    assert len(line) < MAX_TEXT_CHARS + 40 and line.endswith("x… (5,007 characters)")
