"""The sections of a `TASKS.md`: each heading gives the tasks under it a milestone or a state."""

from collections.abc import Sequence

from hutch.domain.one_line_text import is_line
from hutch.domain.task import MAX_NAME_CHARS, TaskState, heading_state
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """The lines under a heading, up to the next one of any level."""

    number: int  # of the heading's line; -1 for the lines before the first heading
    end: int
    level: int
    milestone: str
    state: TaskState | None


def find_sections(headings: Sequence[tuple[int, int, str]], first: int, safe_end: int) -> list[Section]:
    """The sections, with the milestone and the state that their headings and those above give."""
    ends = [*(at for at, _, _ in headings), safe_end]
    top = [text for _, level, text in headings if level == 1]
    is_title = bool(headings) and headings[0][1] == 1 and len(top) == 1
    sections = [Section(first - 1 if first else -1, ends[0], 0, "", None)]
    above: list[tuple[int, str, TaskState | None]] = []
    for order, (at, level, text) in enumerate(headings):
        above = [each for each in above if each[0] < level]
        state = heading_state(text)
        named = not state and 0 < len(text) <= MAX_NAME_CHARS and is_line(text)
        milestone = text if named and not (order == 0 and is_title) else ""
        above.append((level, milestone, state))
        sections.append(
            Section(
                at,
                ends[order + 1],
                level,
                next((each[1] for each in reversed(above) if each[1]), ""),
                next((each[2] for each in reversed(above) if each[2]), None),
            )
        )
    return sections
