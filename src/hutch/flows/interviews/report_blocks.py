"""The parts of a report, as every form of it shows them: headings, paragraphs and tables.

Text is split into spans. A span can lead to a moment in the playback of a log.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Literal

from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import visible

MAX_ROWS = 200  # of one table; the rest is counted
MAX_CHARS = 2_000  # of one text


@dataclass(frozen=True, slots=True)
class Span:
    """A text. With a session and a number it leads to that event."""

    text: str
    session: str = ""
    seq: int = 0

    @property
    def path(self) -> str:
        """Its page in the web app; empty if it leads nowhere."""
        return f"/s/{self.session}/play?at={self.seq}" if self.session and self.seq else ""


Cell = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A heading (with its level), a paragraph (one cell), or a table with a title, a head and rows."""

    kind: Literal["heading", "paragraph", "table"]
    level: int = 0
    spans: Cell = ()  # of a heading or a paragraph; the title of a table
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = field(default=())


def cell(*parts: str | Span) -> Cell:
    """A cell. Hidden and reordering characters of its texts are made visible."""
    return tuple(_safe(part if isinstance(part, Span) else Span(part)) for part in parts)


def _safe(span: Span) -> Span:
    text = visible(span.text, lines=True)
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}… ({len(text) - MAX_CHARS:,} more characters)"
    return Span(text, span.session, span.seq)


def moment(session: str, seq: int) -> Span:
    """A link to an event, named by its number."""
    return Span(f"#{seq}", session, seq)


def moments(session: str, numbers: Iterable[int]) -> Cell:
    """Links to events, with commas between them."""
    found: list[Span] = []
    for seq in numbers:
        found += [Span(", ")] if found else []
        found.append(moment(session, seq))
    return tuple(found)


def heading(level: int, *parts: str | Span) -> Block:
    return Block("heading", level, cell(*parts))


def paragraph(*parts: str | Span) -> Block:
    return Block("paragraph", spans=cell(*parts))


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell | str]]) -> list[Block]:
    """A table as a list of one block; of none without rows. Rows above the maximum are counted only."""
    found = [tuple(each if isinstance(each, tuple) else cell(each) for each in row) for row in rows]
    if not found:
        return []
    left_out = len(found) - MAX_ROWS
    blocks = [Block("table", 4, cell(title), tuple(head), tuple(found[:MAX_ROWS]))]
    if left_out > 0:
        blocks.append(paragraph(f"{left_out:,} more rows are in the JSON of the report."))
    return blocks


def blocks_to_json(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """The blocks for clients that render them on their own."""
    return [
        {
            "kind": each.kind,
            "level": each.level,
            "spans": _cell_to_json(each.spans),
            "head": list(each.head),
            "rows": [[_cell_to_json(one) for one in row] for row in each.rows],
        }
        for each in blocks
    ]


def _cell_to_json(spans: Cell) -> list[dict[str, str]]:
    return [{"text": each.text, "path": each.path} for each in spans]
