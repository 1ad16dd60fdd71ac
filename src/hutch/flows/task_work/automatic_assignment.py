"""Chooses an owner for tasks that have none: by skill, past success on similar files, load and cost.

The candidates and their skills are the owner's choice, in the setting `tasks.skills`. Each choice comes with
a sentence that names what decided. It is off by default; a dry run shows what it would do.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.one_line_text import echo
from hutch.domain.task import PERSONA_OWNER, Task, TaskFilter, TaskState
from hutch.domain.user import Caller, name_key
from hutch.flows.personas import find_persona
from hutch.flows.tasks.task_requests import TaskServices, change_task, check_writer, list_tasks
from hutch.store.table_access_interface import Rows
from hutch.store.task_assignments import PastWork, TaskAssignments
from hutch.store.tasks import Tasks
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

MAX_TASKS = 1000
OPEN: tuple[TaskState, ...] = ("todo", "doing", "review", "blocked")
SKILL, SUCCESS, LOAD, COST = 4.0, 3.0, 1.0, 0.5  # weights
Assign = Callable[[Task, str], Awaitable[object]]  # a task to an agent, by the persona
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+|\b[\w-]+\.[a-z]{1,4}\b")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A person or a persona that tasks may be given to."""

    owner: str
    skills: frozenset[str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A task and who should do it; `owner` is empty if nobody fits."""

    task: Task
    owner: str
    why: str


def parse_skills(lines: Sequence[str]) -> list[Candidate]:
    """The candidates of the setting `tasks.skills`."""
    found = []
    for line in lines:
        owner, equals, labels = line.partition("=")
        if not equals or not owner.strip():
            raise BadRequest(f"tasks.skills has {echo(line)}. One looks like `alice=python docs`.")
        found.append(Candidate(owner.strip(), frozenset(labels.casefold().split())))
    return found


async def plan_assignments(
    services: TaskServices, who: Caller, candidates: Sequence[Candidate], which: TaskFilter
) -> list[Choice]:
    """A choice for each open task without an owner, the oldest first. Nothing is changed."""
    check_writer(who)
    tasks = await list_tasks(services, who, which, limit=MAX_TASKS)
    free = [each for each in reversed(tasks) if not each.fields.owner and each.fields.state == "todo"]
    everything = await Tasks(services.rows).matching(TaskFilter(states=OPEN), limit=MAX_TASKS)
    load = {each.owner: 0 for each in candidates}
    for task in everything:
        if task.fields.owner in load:
            load[task.fields.owner] += 1
    past = await TaskAssignments(services.rows).past_work()
    choices = []
    for task in free:
        choice = choose(task, candidates, load, past)
        if choice.owner:
            load[choice.owner] += 1  # the next task sees it
        choices.append(choice)
    return choices


def choose(
    task: Task, candidates: Sequence[Candidate], load: Mapping[str, int], past: Sequence[PastWork]
) -> Choice:
    """The best candidate for a task. Labels that nobody knows do not count."""
    labels = {label.casefold() for label in task.fields.labels}
    wanted = labels & frozenset[str]().union(*(each.skills for each in candidates))
    fitting = [each for each in candidates if not wanted or wanted & each.skills]
    if not fitting:
        return Choice(task, "", "There are no candidates. Set tasks.skills.")
    files = mentioned_files(task)
    scored = []
    for each in fitting:
        known = wanted & each.skills
        similar = [one for one in past if _is_by(one, each) and are_similar(files, one.files)]
        done = sum(one.done for one in similar)
        costs = [one.cost_usd for one in past if _is_by(one, each) and one.cost_usd]
        cost = sum(costs) / len(costs) if costs else 0.0
        score = SKILL * len(known) / max(1, len(wanted)) - LOAD * load[each.owner] - COST * cost
        score += SUCCESS * (2 * done - len(similar)) / (len(similar) + 1)
        scored.append((score, each, known, similar, done, cost))
    best = max(scored, key=lambda item: item[0])
    _, candidate, known, similar, done, cost = best
    parts = [f"knows {', '.join(sorted(known))}" if known else "fits, as no label asks for a skill"]
    if similar:
        where = " on similar files" if files else ""
        parts.append(f"finished {done} of {len(similar)} tasks{where}")
    count = load[candidate.owner]
    parts.append(f"has {count} open task{'' if count == 1 else 's'}")
    if cost:
        parts.append(f"costs {cost:.2f} dollars per task")
    rest = [each.owner for _, each, *_ in sorted(scored, key=lambda item: -item[0]) if each is not candidate]
    before = f", before {', '.join(rest[:3])}" if rest else ""
    return Choice(task, candidate.owner, f"{candidate.owner} {'; '.join(parts)}{before}.")


def mentioned_files(task: Task) -> frozenset[str]:
    """Paths that a task's texts name."""
    fields = task.fields
    texts = (fields.title, task.description[:10_000], *(each.text for each in fields.criteria))
    return frozenset(found for text in texts for found in _PATH.findall(text))


def are_similar(wanted: Collection[str], files: Collection[str]) -> bool:
    """True if two sets of files have a file or a directory in common; without files everything is similar."""
    if not wanted:
        return True
    there = {*files, *(path.rpartition("/")[2] for path in files)}
    if there.intersection(wanted):
        return True
    folders = {str(PurePosixPath(path).parent) for path in wanted} - {"."}
    return bool(folders & {str(PurePosixPath(path).parent) for path in files})


def _is_by(past: PastWork, candidate: Candidate) -> bool:
    return candidate.owner == f"{PERSONA_OWNER}{past.persona}"


async def check_candidates(rows: Rows, folder: Path | None, candidates: Sequence[Candidate]) -> None:
    """Refuse candidates that do not exist."""
    names = {name_key(user.name) for user in await Users(rows).list() if not user.disabled}
    for each in candidates:
        if each.owner.startswith(PERSONA_OWNER):
            name = each.owner.removeprefix(PERSONA_OWNER)
            await asyncio.to_thread(find_persona, name, folder)
        elif name_key(each.owner) not in names:
            raise BadRequest(f"tasks.skills names {echo(each.owner)}, and there is no such user.")


async def carry_out(
    services: TaskServices, who: Caller, choices: Sequence[Choice], assign: Assign
) -> list[Choice]:
    """Give the tasks to their owners; agents begin to work. Returns what failed, with the reason."""
    failed = []
    for choice in choices:
        if not choice.owner:
            continue
        try:
            if choice.owner.startswith(PERSONA_OWNER):
                await assign(choice.task, choice.owner)
            else:
                task = choice.task
                await change_task(services, who, task.id, {"owner": choice.owner}, revision=task.revision)
            note = f"Assigned automatically: {choice.why}"
            await services.tasks.note(choice.task, "progress", note, by=who.user.id)
        except HutchError as error:
            failed.append(Choice(choice.task, choice.owner, services.redactor.redact(str(error))))
    return failed
