"""One line about each event of a helper."""

from collections.abc import Mapping
from typing import Any

from hutch.cli.server_requests import short
from hutch.domain.dollar_amount_formatting import dollars
from hutch.system.terminal_safe_text import one_line

MAX_TASK_CHARS = 100


def helper_note(kind: str, event: Mapping[str, Any]) -> str:
    """A helper that started, ended, or whose changes were taken."""

    def text(name: str, chars: int = 200) -> str:
        return one_line(str(event.get(name) or ""), chars)

    name = text("name", 20)
    if kind == "helper.started":
        return f"helper {name} ({short(text('helper'))}) starts: {text('task', MAX_TASK_CHARS)}"
    if kind == "helper.changes_taken":
        files = int(event.get("files_count") or 0)
        count = f": {files} file{'' if files == 1 else 's'}" if event.get("action") == "merged" else ""
        return f"the changes of {name} were {text('action')}{count}"
    files, cost_usd = int(event.get("files") or 0), event.get("cost_usd")
    parts = [
        text("outcome").replace("_", " ") + (f" ({text('reason')})" if text("reason") else ""),
        f"{files} file{'' if files == 1 else 's'} +{event.get('added', 0)} -{event.get('deleted', 0)}",
        text("tests"),
        f"{event.get('turns', 0)} turns",
        "" if cost_usd is None else dollars(float(cost_usd)),
    ]
    return f"helper {name} ended: {', '.join(part for part in parts if part)}"


def tries_lines(event: Mapping[str, Any]) -> list[str]:
    """The table of tries, the chosen one with a mark."""
    rows = [("", "try", "outcome", "tests", "checks", "review", "lines", "turns", "cost", "why")]
    for each in event.get("tries") or ():
        cost_usd = each.get("cost_usd")
        is_over = each.get("outcome") not in ("not_started",)
        rows.append(
            (
                "*" if each.get("name") == event.get("best") else "",
                one_line(str(each.get("name")), 20),
                one_line(str(each.get("outcome")).replace("_", " "), 20),
                one_line(str(each.get("tests") or "-"), 30),
                f"{each.get('checks_passed', 0)}/{each['checks']}" if each.get("checks") else "-",
                one_line(str(each.get("review") or "-"), 20),
                f"+{each.get('added', 0)} -{each.get('deleted', 0)}" if is_over else "-",
                str(each.get("turns", 0)),
                "?" if cost_usd is None else dollars(float(cost_usd)),
                one_line(str(each.get("why") or ""), 80),
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
