"""Lines of the transcript about installed dependencies."""

from collections.abc import Mapping
from typing import Any

from hutch.cli.render.byte_size import byte_size
from hutch.system.terminal_safe_text import one_line

MAX_CHARS = 200
MAX_REASON_CHARS = 1500  # its end says what to do


def environment_note(kind: str, event: Mapping[str, Any]) -> str:
    """One line about an event of an environment; empty for other events."""
    match kind:
        case "environment.build_started":
            return f"installing dependencies: {one_line('; '.join(event.get('steps') or ()), MAX_CHARS)}"
        case "environment.built":
            size, seconds = byte_size(int(event.get("bytes") or 0)), float(event.get("duration_s") or 0)
            dropped = ", ".join(event.get("dropped") or ())
            left_out = f"; left out: {one_line(dropped, MAX_CHARS)}" if dropped else ""
            failed = "; ".join(one_line(each, MAX_CHARS) for each in event.get("failed") or ())
            but = f"; but {failed}" if failed else ""
            return f"dependencies are installed: {size} in {seconds:.1f} s{left_out}{but}"
        case "environment.failed":
            output = str(event.get("output") or "").splitlines()[-5:]
            denied = [f"not reached: {host}" for host in event.get("denied") or ()]
            reasons = (one_line(part, MAX_REASON_CHARS) for part in (str(event.get("reason") or ""), *denied))
            return "; ".join((*reasons, *(one_line(line, MAX_CHARS) for line in output)))
        case "environment.attached":
            roots = ", ".join(event.get("roots") or ())
            return f"dependencies in {one_line(roots, MAX_CHARS)}"
        case "service.started":
            return f"starting the service {one_line(str(event.get('service')), MAX_CHARS)}"
        case "service.failed":
            why = one_line(str(event.get("reason")), MAX_CHARS)
            return f"the service {one_line(str(event.get('service')), MAX_CHARS)} is not ready: {why}"
    return ""
