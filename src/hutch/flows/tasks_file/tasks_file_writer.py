"""Writes tasks into a file: only the lines of tasks that differ are changed, added, moved or removed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hutch.domain.task import AcceptanceCriterion, TaskFields, TaskState
from hutch.flows.tasks_file.heading_sections import Section
from hutch.flows.tasks_file.task_line import TaskLine, line_with_fields, with_key, write_line
from hutch.flows.tasks_file.tasks_file_parser import FileTask, TasksFile
from hutch.flows.tasks_file.unchanged_criterion_lines import new_criterion_line, reusable_lines
from hutch.system.lazy_dataclass import dataclass

TITLE_OF_NEW_FILE = "# Tasks"
_NUMBER = re.compile(r"(\s*)(\d+)([.)]\s+)")
_BOX = re.compile(r"\[.\]")
_NEW_SECTION = -1
_LIST_END = "<!-- -->"  # so that indented lines after it do not belong to the list before it
_INDENTED_FENCE = re.compile(r"\s+(?:```|~~~)")
_INDENTED_BOX = re.compile(r"\s+(?:[-*+]|\d+[.)])\s+\[")


@dataclass(frozen=True, slots=True)
class TaskToWrite:
    """A task as it must be in the file."""

    key: str
    fields: TaskFields
    revision: int


class TasksFileWriter:
    """Collects changes of a file, then joins the text. Each task is given to it at most once."""

    def __init__(self, file: TasksFile) -> None:
        self._file = file
        self._replaced: dict[int, str] = {}
        self._removed: set[int] = set()
        # New criteria by the number of the line before which they go; with the number of their task.
        self._criteria_at: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._arrivals: defaultdict[tuple[int, str], list[list[str]]] = defaultdict(list)
        self._leaving: set[int] = set()  # numbers of tasks that are moved or removed
        self._gaps: set[int] = set()  # numbers of the lines after tasks that are moved or removed
        self._waiting: list[TaskToWrite] = []

    def change(self, task: FileTask, wanted: TaskToWrite) -> None:
        """Make the line of a task show these fields; it stays as it is if it does."""
        shown = self._file.fields(task)
        if task.line.key == wanted.key and shown == wanted.fields:
            return
        target = self._target(task, shown, wanted.fields)
        under = self._state_of(target)
        line = task.line if task.line.key == wanted.key else with_key(task.line, wanted.key)
        if target != (task.section, ""):
            line = replace(line, lead=line.lead.lstrip())
        text = write_line(line_with_fields(line, wanted.fields, under, wanted.revision))
        self._replaced[task.number] = text + self._end_of(task.number)
        self._change_criteria(task, wanted.fields.criteria)
        if target != (task.section, ""):
            self._leaving.add(task.number)
            self._gaps.add(task.end)
            self._arrivals[target].append(self._take_block(task))

    def remove(self, task: FileTask) -> None:
        """Remove the line of a task and its criteria; other lines below it stay.

        Without the list items around it, a code fence that is not closed would hide what follows. Then
        the items stay, without their boxes.
        """
        self._leaving.add(task.number)
        self._gaps.add(task.end)
        numbers = {task.number, *(each.number for each in task.criteria)}
        if not task.unclosed_fence:
            self._removed |= numbers
            return
        for number in numbers:
            self._replaced[number] = _BOX.sub("", self._file.lines[number], count=1)

    def add(self, wanted: TaskToWrite) -> None:
        self._waiting.append(wanted)

    def text(self) -> str:
        """The whole text with all changes."""
        last = self._last_tasks()
        added: defaultdict[tuple[int, str], list[list[str]]] = defaultdict(list)
        for wanted in self._waiting:
            target = self._place(wanted.fields.milestone, wanted.fields.state)
            neighbour = last.get(target[0])
            added[target].append(self._new_block(wanted, target, neighbour.line.lead if neighbour else "- "))
        before = {at: [line for _, line in lines] for at, lines in self._criteria_at.items()}
        for gap in sorted(self._gaps):
            if self._would_become_a_task(gap):
                before.setdefault(gap, []).append(self._eol(_LIST_END))
        new_sections: list[str] = []
        for target in dict.fromkeys([*added, *self._arrivals]):
            section, milestone = target
            # New lines first: a block that arrives may end in a code fence that is not closed.
            lines = [line for block in (*added[target], *self._arrivals[target]) for line in block]
            if section == _NEW_SECTION:
                new_sections += [self._eol(""), self._eol(f"## {milestone}"), self._eol(""), *lines]
            else:
                at, lines = self._inserted(section, lines, last.get(section))
                before.setdefault(at, []).extend(lines)
        if new_sections:
            there = before.setdefault(self._file.safe_end, [])
            there += self._without_double_blank(new_sections, there)
        return self._join(before)

    def _target(self, task: FileTask, shown: TaskFields, wanted: TaskFields) -> tuple[int, str]:
        """The section for a task: its own, unless its milestone or its state asks for another."""
        own = self._file.sections[task.section]
        if wanted.milestone != own.milestone:
            return self._place(wanted.milestone, wanted.state)
        moves = own.state not in (None, wanted.state) and shown.state != wanted.state and task.indent < 2
        if moves:
            for number, section in enumerate(self._file.sections):
                if (section.milestone, section.state) == (wanted.milestone, wanted.state):
                    return number, ""
        return task.section, ""

    def _place(self, milestone: str, state: TaskState) -> tuple[int, str]:
        """The best section for a task: with its milestone, if possible with its state."""
        used = {task.section for task in self._file.tasks}

        def score(number: int, section: Section) -> tuple[bool, bool, bool, bool, int]:
            plain = section.state is None
            return section.state == state, plain, plain and number in used, section.level > 0, -number

        fitting = [
            (score(number, section), number)
            for number, section in enumerate(self._file.sections)
            if section.milestone == milestone
        ]
        return (max(fitting)[1], "") if fitting else (_NEW_SECTION, milestone)

    def _state_of(self, target: tuple[int, str]) -> TaskState | None:
        if target[0] != _NEW_SECTION:
            return self._file.sections[target[0]].state
        return next((each.state for each in reversed(self._file.sections) if each.level == 1), None)

    def _last_tasks(self) -> dict[int, FileTask]:
        """The last task of each section that stays in it, if others can go behind it.

        A code fence behind it may be closed only by the end of its list item. After a new line it would be
        outside of the item, and hide what follows.
        """
        last = {task.section: task for task in self._file.tasks if task.number not in self._leaving}
        return {
            number: task
            for number, task in last.items()
            if not _INDENTED_FENCE.match(self._line_at(task.end))
        }

    def _change_criteria(self, task: FileTask, wanted: Sequence[AcceptanceCriterion]) -> None:
        """Mark, add and remove criteria. Lines get other texts only if the order has changed."""
        lines = reusable_lines(task.criteria, wanted)
        if lines is None:
            lines = [*task.criteria[: len(wanted)], *[None] * (len(wanted) - len(task.criteria))]
        added = []
        for line, criterion in zip(lines, wanted, strict=True):
            mark = "x" if criterion.done else " "
            if line is None:
                added.append(self._eol(new_criterion_line(task, criterion)))
            elif (line.text, line.done) != (criterion.text, criterion.done):
                text = f"{line.lead}[{mark}] {criterion.text}"
                self._replaced[line.number] = text + self._end_of(line.number)
        if added and task.unclosed_fence:
            added.append(self._eol(" " * (task.indent + 1) + _LIST_END))
        if added:
            self._criteria_at[task.criteria_end] += [(task.number, line) for line in added]
        self._removed |= {each.number for each in task.criteria if each not in lines}

    def _take_block(self, task: FileTask) -> list[str]:
        """The lines of a task that moves elsewhere, less indented if it was below a list item."""
        block = []
        for number in range(task.number, task.end):
            block += self._take_criteria(number, task)
            if number not in self._removed:
                line = self._replaced.get(number, self._file.lines[number])
                block.append(line if number == task.number else _dedent(line, task.indent))
        block += self._take_criteria(task.end, task)
        self._removed |= set(range(task.number, task.end))
        return [self._eol(line.rstrip("\r\n")) if not line.endswith("\n") else line for line in block]

    def _take_criteria(self, at: int, task: FileTask) -> list[str]:
        """The new criteria at a line, if they are of this task or of one in its lines; others stay."""
        found = self._criteria_at.pop(at, [])
        inside = range(task.number, task.end)
        if staying := [each for each in found if each[0] not in inside]:
            self._criteria_at[at] = staying
        return [line for owner, line in found if owner in inside]

    def _new_block(self, wanted: TaskToWrite, target: tuple[int, str], lead: str) -> list[str]:
        if found := _NUMBER.fullmatch(lead):
            lead = f"{found[1]}{int(found[2]) + 1}{found[3]}"
        empty = TaskLine(lead, " ", wanted.key, f"{wanted.key} ", "", "")
        line = line_with_fields(empty, wanted.fields, self._state_of(target), wanted.revision)
        task = FileTask(0, 1, 0, 0, line, [])
        return [
            self._eol(write_line(line)),
            *(self._eol(new_criterion_line(task, each)) for each in wanted.fields.criteria),
        ]

    def _inserted(self, section: int, lines: list[str], last: FileTask | None) -> tuple[int, list[str]]:
        """Where lines go in a section, and the lines with blank ones around them if they begin a list."""
        if last:
            return last.end, self._with_list_end(last.end, lines)
        found = self._file.sections[section]
        source = self._file.lines
        at = found.end
        while at > found.number + 1 and not source[at - 1].strip():
            at -= 1
        if not any(line.strip() for line in source):
            return 0, [self._eol(TITLE_OF_NEW_FILE), self._eol(""), *lines]
        if at > 0:
            lines = [self._eol(""), *lines]
        if at < len(source) and source[at].strip():
            lines = [*lines, self._eol("")]
        return at, self._with_list_end(at, lines)

    def _with_list_end(self, at: int, lines: list[str]) -> list[str]:
        """The lines, closed if the text after them is indented and would become a part of them."""
        return [*lines, self._eol(_LIST_END)] if self._line_at(at)[:1] in (" ", "\t") else lines

    def _line_at(self, at: int) -> str:
        """The first line from here on that is not blank; empty at the end."""
        following = (self._file.lines[each] for each in range(at, len(self._file.lines)))
        return next((line for line in following if line.strip()), "")

    def _would_become_a_task(self, gap: int) -> bool:
        """True if the next line has a box that counts for nothing yet: it is indented too little to be a part
        of the task before it. Without that task it could be a part of the item before.
        """
        if not _INDENTED_BOX.match(self._line_at(gap)):
            return False
        number = next(at for at in range(gap, len(self._file.lines)) if self._file.lines[at].strip())
        return not any(
            number in (task.number, *(each.number for each in task.criteria)) for task in self._file.tasks
        )

    def _without_double_blank(self, lines: list[str], inserted: list[str]) -> list[str]:
        at = self._file.safe_end
        previous = inserted or self._file.lines[:at]
        if not previous or not previous[-1].strip():
            lines = lines[1:]
        lines = [*lines, self._eol("")] if at < len(self._file.lines) else lines
        return self._with_list_end(at, lines)

    def _eol(self, text: str) -> str:
        return text + self._file.line_end

    def _end_of(self, number: int) -> str:
        line = self._file.lines[number]
        return line[len(line.rstrip("\r\n")) :]

    def _join(self, before: dict[int, list[str]]) -> str:
        source = self._file.lines
        out: list[str] = []
        for number, line in enumerate(source):
            out += before.get(number, ())
            if number not in self._removed:
                out.append(self._replaced.get(number, line))
        out += before.get(len(source), ())
        if out and out[0].rstrip() == "---" != source[0].rstrip():
            out.insert(0, self._eol(""))  # otherwise it would begin a front matter
        out = [
            line if line.endswith("\n") or number == len(out) - 1 else self._eol(line)
            for number, line in enumerate(out)
        ]
        text = "".join(out)
        if source and not source[-1].endswith("\n"):
            text = text.removesuffix("\n").removesuffix("\r")
        return self._file.bom + text


def _dedent(line: str, width: int) -> str:
    wide = line.expandtabs(4) if line[:width].strip(" ") else line
    return wide[width:] if not wide[:width].strip() else line


def write_tasks(
    file: TasksFile,
    changed: Iterable[tuple[FileTask, TaskToWrite]],
    removed: Iterable[FileTask],
    added: Iterable[TaskToWrite],
) -> str:
    """The text of the file with these tasks."""
    writer = TasksFileWriter(file)
    for task in removed:
        writer.remove(task)
    for task, wanted in changed:
        writer.change(task, wanted)
    for wanted in added:
        writer.add(wanted)
    return writer.text()
