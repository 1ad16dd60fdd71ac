"""Reads a `TASKS.md`: which lines are tasks, which belong to them, and under which heading they are.

Every line is kept as it is. Boxes in code fences, HTML comments, front matter, tables and quotes are
no tasks; boxes below a task are its acceptance criteria.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from hutch.domain.one_line_text import is_line
from hutch.domain.task import (
    MAX_LISTED,
    MAX_TITLE_CHARS,
    AcceptanceCriterion,
    TaskFields,
)
from hutch.flows.tasks_file.heading_sections import find_sections
from hutch.flows.tasks_file.hidden_task_comment import keys_in, priority_in, short_text_in
from hutch.flows.tasks_file.task_line import TaskLine, read_line
from hutch.system.lazy_dataclass import dataclass

MAX_LINE_CHARS = 4000  # a longer line is no task
TICKED = ("x", "X")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENT = re.compile(r"[ \t]*")
_ITEM = re.compile(r"([ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+)(?:\[(.)\](?=[ \t])(.*))?")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")


@dataclass(frozen=True, slots=True)
class CriterionLine:
    """A box below a task."""

    number: int  # of the line, from 0
    lead: str
    text: str
    done: bool


@dataclass(slots=True)
class FileTask:
    """A task of the file: its line, and the lines below that belong to it."""

    number: int  # of its line, from 0
    end: int  # of its block: the number of the first line that does not belong to it
    indent: int
    section: int
    line: TaskLine
    criteria: list[CriterionLine]
    unclosed_fence: int = 0  # the line of a code fence in the block that only the end of the block closes

    @property
    def criteria_end(self) -> int:
        """Where a further acceptance criterion goes."""
        return self.unclosed_fence or self.end


class TasksFile:
    """A parsed file. `lines` have their ends, and joined they are the text after the byte order mark.

    `parsed_lines` can be passed to a further file, which then parses only lines that differ.
    """

    def __init__(self, text: str, parsed_lines: dict[str, TaskLine | None] | None = None) -> None:
        self.parsed_lines = {} if parsed_lines is None else parsed_lines
        self._fields: dict[int, TaskFields] = {}
        self.bom = "\ufeff" if text.startswith("\ufeff") else ""
        self.lines: list[str] = _LINE.findall(text[len(self.bom) :])
        self.tasks: list[FileTask] = []
        self.first_line = 0  # after the front matter
        self.safe_end = len(self.lines)  # before a code fence or comment that never ends
        self._headings: list[tuple[int, int, str]] = []
        _Scan(self).run(self._headings)
        self.sections = find_sections(self._headings, self.first_line, self.safe_end)

    @cached_property
    def line_end(self) -> str:
        """The line end that this file uses."""
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"

    def fields(self, task: FileTask) -> TaskFields:
        """The fields that the line of a task and its place show by themselves."""
        if (found := self._fields.get(task.number)) is None:
            found = self._fields[task.number] = self._read_fields(task)
        return found

    def _read_fields(self, task: FileTask) -> TaskFields:
        section, line = self.sections[task.section], task.line
        return TaskFields(
            title=line.title,
            state=line.state(section.state),
            owner=line.owner,
            priority=priority_in(line.pairs),
            estimate=short_text_in(line.pairs, "estimate"),
            milestone=section.milestone,
            labels=line.labels,
            depends_on=keys_in(line.pairs),
            criteria=tuple(AcceptanceCriterion(each.text, each.done) for each in task.criteria),
        )

    def notes(self, task: FileTask) -> str:
        """The text below a task that is no acceptance criterion, without its indent."""
        boxes = {each.number for each in task.criteria}
        lines = [
            line
            for at, line in enumerate(self.lines[task.number + 1 : task.end], task.number + 1)
            if at not in boxes
        ]
        width = min((_indent(line) for line in lines if line.strip()), default=0)
        return "\n".join(line.expandtabs(4)[width:].rstrip() for line in lines).strip("\n")


class _Scan:
    """One pass over the lines, with the list items that are open at the current one."""

    def __init__(self, file: TasksFile) -> None:
        self._file = file
        self._open: list[tuple[int, FileTask | None]] = []  # indent and task of each open list item
        self._last_text = -1  # the last line that is not blank
        self._section = 0

    def run(self, headings: list[tuple[int, int, str]]) -> None:
        lines = self._file.lines
        at = self._file.first_line = _front_matter_end(lines)
        while at < len(lines):
            line = lines[at]
            bare = line.strip()
            if not bare:
                at += 1
                continue
            indent = _indent(line)
            if (end := self._skipped_end(at, line, indent)) is not None:
                if end > len(lines):  # it never ends
                    self._file.safe_end = at
                    break
                self._close(indent)
                self._last_text = end - 1
                at = end
                continue
            if (
                bare[0] == "#"
                and (found := _HEADING.match(line.rstrip("\r\n")))
                and self._may_be_heading(indent)
            ):
                self._close(-1)
                self._section += 1
                headings.append((at, len(found[1]), (found[2] or "").strip()))
            elif not (found := _ITEM.match(line)) or not self._add_item(at, found, indent):
                self._close(indent)
            self._last_text = at
            at += 1
        self._close(-1)

    def _may_be_heading(self, indent: int) -> bool:
        return indent < 2 or not self._open

    def _skipped_end(self, at: int, line: str, indent: int) -> int | None:
        """Where a code fence or an HTML comment that starts here ends; past the file if it never does."""
        if indent > 3 and not self._open:
            return None
        if ("```" in line or "~~~" in line) and (found := _FENCE.match(line.rstrip("\r\n"))):
            inside = max((item for item, _ in self._open if item < indent), default=-1)
            end, closed = _fence_end(self._file.lines, at, found[1], inside + 1)
            task = next((task for item, task in self._open if task and item < indent), None)
            if task and not closed:
                task.unclosed_fence = task.unclosed_fence or at
            return end
        if (bare := line.lstrip()).startswith("<!--"):
            if "-->" in bare[4:]:
                return at + 1
            lines = self._file.lines
            return next((n + 1 for n in range(at + 1, len(lines)) if "-->" in lines[n]), len(lines) + 1)
        return None

    def _add_item(self, at: int, found: re.Match[str], indent: int) -> bool:
        """Note a list item; False if the line is none, or a box that cannot be a task."""
        while self._open and self._open[-1][0] + 2 > indent:
            self._pop()
        if not self._open and indent > 3:
            return False
        task = next((task for _, task in self._open if task), None)
        lead, box, body = found[1], found[2], (found[3] or "").rstrip("\r\n")
        if box is None or len(body) > MAX_LINE_CHARS:
            self._open.append((indent, None))
        elif task:
            text = body.strip()
            if text and is_line(text) and len(text) <= MAX_TITLE_CHARS and len(task.criteria) < MAX_LISTED:
                task.criteria.append(CriterionLine(at, lead, text, box in TICKED))
            self._open.append((indent, None))
        else:
            parsed = self._file.parsed_lines
            if found.string in parsed:
                line = parsed[found.string]
            else:
                line = parsed[found.string] = read_line(lead, box, body)
            added = FileTask(at, at + 1, indent, self._section, line, []) if line else None
            if added:
                self._file.tasks.append(added)
            self._open.append((indent, added))
        return True

    def _close(self, indent: int) -> None:
        """Close the list items that do not contain a line with this indent."""
        while self._open and self._open[-1][0] >= indent:
            self._pop()

    def _pop(self) -> None:
        _, task = self._open.pop()
        if task:
            task.end = self._last_text + 1


def _indent(line: str) -> int:
    if line[:1] not in (" ", "\t"):
        return 0
    found = _INDENT.match(line)
    return len(found[0].expandtabs(4)) if found else 0


def _front_matter_end(lines: Sequence[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    return next((at + 1 for at in range(1, len(lines)) if lines[at].rstrip() in ("---", "...")), 0)


def _fence_end(lines: Sequence[str], at: int, mark: str, min_indent: int) -> tuple[int, bool]:
    """The end of a fence, and True if a mark closes it; otherwise the list item around it ends there."""
    for number in range(at + 1, len(lines)):
        bare = lines[number].strip()
        if bare and _indent(lines[number]) < min_indent:
            return number, False
        if bare.startswith(mark) and not bare.strip(mark[0]):
            return number + 1, True
    return len(lines) + 1, False


def task_lines(file: TasksFile) -> Iterator[int]:
    """The numbers of the lines that are tasks or acceptance criteria."""
    for task in file.tasks:
        yield task.number
        yield from (each.number for each in task.criteria)
