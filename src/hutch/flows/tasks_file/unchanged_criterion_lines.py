"""Which lines of acceptance criteria in a task file can be kept, and the text of new ones."""

from collections.abc import Sequence

from hutch.domain.task import AcceptanceCriterion
from hutch.flows.tasks_file.tasks_file_parser import CriterionLine, FileTask


def reusable_lines(
    lines: Sequence[CriterionLine], wanted: Sequence[AcceptanceCriterion]
) -> list[CriterionLine | None] | None:
    """The line of each criterion, or None for new ones at the end; None if the order is another one."""
    rest = iter(lines)
    found: list[CriterionLine | None] = []
    for criterion in wanted:
        found.append(next((line for line in rest if line.text == criterion.text), None))
    missing = found.index(None) if None in found else len(found)
    if any(found[missing:]):
        return None
    texts = {line.text for line in lines if line not in found}
    return None if any(each.text in texts for each in wanted[missing:]) else found


def new_criterion_line(task: FileTask, criterion: AcceptanceCriterion) -> str:
    width = len(task.line.lead.expandtabs(4))
    lead = task.criteria[0].lead if task.criteria else f"{' ' * width}- "
    return f"{lead}[{'x' if criterion.done else ' '}] {criterion.text}"
