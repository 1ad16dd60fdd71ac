"""How handing over what a run did ended, in the words that every command has for it."""

from collections.abc import Mapping
from typing import Any

NOTHING = "Nothing was changed, so there is nothing to deliver."


def delivery_lines(run_id: str, told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What became of it and, where it failed, the command that repeats it; each with what to call it."""
    if told.get("outcome") == "proposed":
        note = [("note", str(told["reason"]))] if told.get("reason") else []
        return [("delivered", f"{told.get('change_id')} {told.get('url') or ''}".strip()), *note]
    if told.get("outcome") != "failed":
        return [("delivered", NOTHING)]
    if told.get("failing"):
        again = ("all the same", f"hutch changes propose {run_id}")
    else:
        again = ("try again", f"hutch changes deliver {run_id}")
    return [("not delivered", str(told.get("reason") or "")), again]
