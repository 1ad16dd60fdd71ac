"""The result of a delivery as text, the same for every command."""

from collections.abc import Mapping
from typing import Any

NOTHING = "Nothing was changed, so there is nothing to deliver."


def delivery_lines(run_id: str, delivery: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Labelled lines: the result and, after a failure, the command that delivers again."""
    if delivery.get("outcome") == "proposed":
        note = [("note", str(delivery["reason"]))] if delivery.get("reason") else []
        return [("delivered", f"{delivery.get('change_id')} {delivery.get('url') or ''}".strip()), *note]
    if delivery.get("outcome") != "failed":
        return [("delivered", NOTHING)]
    if delivery.get("failing"):
        again = ("deliver anyway", f"hutch changes propose {run_id}")
    else:
        again = ("try again", f"hutch changes deliver {run_id}")
    return [("not delivered", str(delivery.get("reason") or "")), again]
