"""Sessions as rows of a list."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len, set_cell_size

from hutch.cli.server_requests import short
from hutch.domain.errors import HutchError
from hutch.forge.repo_url import parse_repo_url
from hutch.system.terminal_safe_text import one_line

COLOURS = {
    "running": "green",
    "waiting": "yellow",
    "queued": "cyan",
    "starting": "cyan",
    "paused": "magenta",
}
UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))
HEAD = ("ID", "STATE", "AGE", "OWNER", "PURPOSE")
LOG_HEAD = ("ID", "STATE", "AGE", "EVENTS", "REPOSITORY", "PURPOSE")
LOG_WIDTHS = (6, 8, 4, 6, 20)  # fixed, since rows are printed page by page


def age(since_ms: int, now_s: float | None = None) -> str:
    """The time since, in one unit."""
    seconds = max(0, int((time.time() if now_s is None else now_s) - since_ms / 1000))
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def state_of(session: Mapping[str, Any]) -> str:
    """A session's state, with its position in the queue while it waits."""
    position = session.get("queue_position")
    return f"{session['state']} {position}" if position else str(session["state"])


def row(session: Mapping[str, Any], depth: int = 0) -> tuple[str, ...]:
    """The cells of a session in a list; `depth` is that of a helper."""
    owner = one_line(session.get("owner_name") or "", 40) or short(session["owner"])
    purpose = session["purpose"] or session["repository"] or "(no purpose)"
    cells = (short(session["id"]), state_of(session), age(session["created_ms"]), owner)
    branch = f"{'   ' * (depth - 1)}└─ " if depth else ""
    return (*cells, branch + one_line(purpose, 500))


def as_tree(sessions: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Sessions with their depths: helpers follow their parent, the oldest first."""
    ids = {each["id"] for each in sessions}
    below: dict[str, list[Mapping[str, Any]]] = {}
    for each in reversed(sessions):
        below.setdefault(str(each.get("parent") or ""), []).append(each)
    rows: list[tuple[Mapping[str, Any], int]] = []

    def add(session: Mapping[str, Any], depth: int) -> None:
        rows.append((session, depth))
        for child in below.get(session["id"], ()):
            add(child, depth + 1)

    for each in sessions:
        if each.get("parent") not in ids:
            add(each, 0)
    return rows


def table(sessions: Sequence[Mapping[str, Any]], columns: int) -> list[str]:
    """The lines of a table that fits a terminal, with helpers below their parents; the last column takes the
    remaining width."""
    tree = as_tree(sessions)
    sessions = [each for each, _ in tree]
    rows = [HEAD, *(row(each, depth) for each, depth in tree)]
    widths = [max(cell_len(each[i]) for each in rows) for i in range(len(HEAD) - 1)]
    last_width = max(20, columns - sum(widths) - 2 * len(widths))
    lines = []
    for number, each in enumerate(rows):
        cells = [set_cell_size(text, width) for text, width in zip(each, widths, strict=False)]
        last = each[-1] if cell_len(each[-1]) <= last_width else set_cell_size(each[-1], last_width - 1) + "…"
        if number == 0:
            lines.append(typer.style("  ".join([*cells, last]), bold=True))
            continue
        state = sessions[number - 1]["state"]
        cells[1] = typer.style(cells[1], fg=COLOURS.get(state), dim=state == "ended" or None)
        lines.append("  ".join([*cells, last]).rstrip())
    return lines


def helper_lines(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The helpers of the first session, as a tree."""
    lines = []
    for session, depth in as_tree(sessions)[1:]:
        last = session.get("last_run") or {}
        how = str(last.get("outcome") or state_of(session))
        purpose = one_line(session["purpose"], 90)
        lines.append(f"{'   ' * (depth - 1)}└─ {short(session['id'])}  {how:<13} {purpose}")
    return lines


def log_table(rows: Sequence[Mapping[str, Any]], columns: int, *, head: bool) -> list[str]:
    """The lines of the list of logs, with a head above them; the last column takes the remaining width."""
    cells = [
        (
            short(row["session"]),
            str(row["state"]),
            age(row["opened_ms"]),
            str(row["events"]),
            one_line(repository_name(row["repository"]), LOG_WIDTHS[-1]),
            one_line(row["purpose"], max(20, columns - sum(LOG_WIDTHS) - 2 * len(LOG_WIDTHS))),
        )
        for row in rows
    ]
    lines = [
        "  ".join([*map(set_cell_size, row[:-1], LOG_WIDTHS), row[-1]]).rstrip()
        for row in ([LOG_HEAD, *cells] if head else cells)
    ]
    return [typer.style(lines[0], bold=True), *lines[1:]] if head else lines


def repository_name(address: str) -> str:
    """The short name of a repository: owner/name on a forge, else the last part of its address."""
    if not address:
        return ""
    try:
        url = parse_repo_url(address)
    except HutchError:  # of an older version
        return address
    return "/".join(url.slug) if url.slug else url.name
