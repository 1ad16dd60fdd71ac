"""Events of a debugger as lines of text, for `hutch log` and for the conversation."""

from collections.abc import Mapping
from typing import Any

from hutch.domain import debug_events as events
from hutch.domain.events import AnyEvent
from hutch.system.terminal_safe_text import one_line

MAX_CHARS = 200


def debug_line(event: AnyEvent) -> str:
    """An event of a debugger in one line; empty for all others."""
    match event:
        case events.BreakpointsChanged():
            lines = ", ".join(str(each.line) for each in event.breakpoints) or "none"
            return one_line(f"{event.file}: {lines}", MAX_CHARS)
        case events.DebugStarted():
            return one_line(event.command, MAX_CHARS)
        case events.DebugDriverChanged():
            return one_line(f"before: {event.before}", MAX_CHARS)
        case events.DebugContinued():
            return event.action.replace("_", " ")
        case events.DebugStopped():
            return _stop(event.__dict__)
        case events.DebugEvaluated():
            return one_line(f"{event.expression} = {event.result}", MAX_CHARS)
        case events.DebugPrinted():
            return one_line(event.text, MAX_CHARS)
        case events.DebugEnded():
            code = "" if event.exit_code is None else f", exit code {event.exit_code}"
            return one_line(f"{event.reason}{code}", MAX_CHARS)
    return ""


def debug_note(kind: str, event: Mapping[str, Any], by: str) -> str:
    """A note in a conversation; empty for events that are no note."""
    match kind:
        case "debug.started":
            return one_line(f"{by} debugs: {event.get('command')}", MAX_CHARS)
        case "debug.driver_changed":
            return f"{by} drives the debugger"
        case "debug.stopped":
            return one_line(f"the program stopped at {_stop(event)}", MAX_CHARS)
        case "debug.ended":
            return one_line(f"the debugger ended: {event.get('reason')}", MAX_CHARS)
    return ""


def _stop(event: Mapping[str, Any]) -> str:
    place = f"{event.get('file')}:{event.get('line')}" if event.get("file") else "code outside the workspace"
    text = f": {event.get('text')}" if event.get("text") else ""
    return one_line(f"{place} ({event.get('reason')}){text}", MAX_CHARS)
