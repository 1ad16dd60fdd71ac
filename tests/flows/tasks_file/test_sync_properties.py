"""Random edits of the file and of the stored tasks end equal on both sides, and nothing is lost."""

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hutch.domain.task import TASK_STATES, AcceptanceCriterion, TaskFields
from hutch.flows.tasks_file.file_and_stored_task_merge import StoredTask, SyncOutcome, sync_tasks_file
from hutch.flows.tasks_file.tasks_file_parser import TasksFile, task_lines

LINES = st.sampled_from(
    [
        "# Tasks",
        "## To do",
        "## In progress",
        "## Done",
        "# Blocked",
        "## v1",
        "### v2 ###",
        "",
        "text",
        "  indented",
        "    - [ ] deep",
        "\t- [ ] tab",
        "- plain",
        "  - plain below",
        "```",
        "  ```",
        "~~~ x",
        "<!-- open",
        "close -->",
        "| a | b |",
        "> - [ ] quote",
        "---",
        "- [ ] T-1 One @alice #bug",
        "- [x] T-1 One",
        "* [ ] T-2 Two <!-- hutch:status=doing rev=3 -->",
        "1. [/] **T-3** Three",
        "  - [ ] T-4 Four",
        "+ [!] BACK-7.1 Sub",
        "- [-] #41 Issue",
        "- [ ] keyless",
        "  - [ ] criterion",
        "  - [x] criterion",
        "   1. [ ] other criterion",
        "- [ ] **T-5 Bold** title #x",
        "- [ ] T-6 - dash \\@bob",
        "- [ ] T-7 mid <!-- c --> title",
        "- [ ] \x1b[2J",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n"])
TEXTS = st.builds(
    lambda bom, lines, end, last: bom + end.join(lines) + last,
    st.sampled_from(["", "\ufeff"]),
    st.lists(LINES, max_size=14),
    ENDS,
    st.sampled_from(["", "\n"]),
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "move", "tick"]), st.integers(0, 30), LINES), max_size=4
)
TITLES = st.sampled_from(["One", "New @bob", "- x", "a <!-- b -->", "T-9 y", "keyless"])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "title": TITLES,
        "state": st.sampled_from(TASK_STATES),
        "owner": st.sampled_from(["", "bob", "Jane Doe"]),
        "milestone": st.sampled_from(["", "v1", "v9"]),
        "labels": st.sampled_from([(), ("bug",), ("a", "bug")]),
        "priority": st.sampled_from(["", "high"]),
        "depends_on": st.sampled_from([(), ("T-1", "T-2")]),
        "criteria": st.lists(
            st.builds(AcceptanceCriterion, st.sampled_from(["criterion", "new", "T-1 x"]), st.booleans()),
            max_size=3,
        ).map(tuple),
    },
)
STORE_EDITS = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from(["change", "archive", "add"]), CHANGES), max_size=4
)


def edit_text(text: str, edits: list[tuple[str, int, str]]) -> str:
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text[len(bom) :].splitlines(keepends=True)
    for kind, at, line in edits:
        at %= len(lines) + 1
        if kind == "insert":
            lines.insert(at, line + "\n")
        elif at < len(lines) and kind == "delete":
            del lines[at]
        elif at < len(lines) and kind == "move":
            moved = lines.pop(at)
            lines.insert((at * 7) % (len(lines) + 1), moved if moved.endswith("\n") else moved + "\n")
        elif at < len(lines):
            lines[at] = lines[at].replace("[ ]", "[x]", 1)
    return bom + "".join(lines)


def edit_store(stored: list[StoredTask], edits: list[tuple[int, str, dict[str, object]]]) -> list[StoredTask]:
    tasks = {task.key: task for task in stored}
    for at, kind, fields in edits:
        if kind == "add":
            key = f"T-{at + 20}"
            if key not in tasks:
                tasks[key] = StoredTask(key, TaskFields(**{"title": "Added", **fields}), 1)  # type: ignore[arg-type]
        elif tasks:
            task = tasks[list(tasks)[at % len(tasks)]]
            new = replace(task, archived=True) if kind == "archive" else task
            if kind == "change":
                new = replace(task, fields=replace(task.fields, **fields))  # type: ignore[arg-type]
            tasks[task.key] = replace(new, revision=task.revision + 1)
    return list(tasks.values())


def stored_after(outcome: SyncOutcome, stored: list[StoredTask]) -> list[StoredTask]:
    tasks = {task.key: task for task in stored}
    for update in outcome.updates:
        tasks[update.key] = StoredTask(
            update.key, update.fields, update.revision + 1, archived=update.kind == "archived"
        )
    return list(tasks.values())


def other_lines(text: str) -> Counter[str]:
    """The lines that are no tasks; those of a task that leaves a list are less indented."""
    file = TasksFile(text)
    numbers = set(task_lines(file))
    return Counter(line.strip() for at, line in enumerate(file.lines) if at not in numbers and line.strip())


def shown(text: str) -> dict[str, TaskFields]:
    file = TasksFile(text)
    assert len({task.line.key for task in file.tasks}) == len(file.tasks)
    return {task.line.key: file.fields(task) for task in file.tasks}


def check_sync(base: str, text: str, stored: list[StoredTask]) -> tuple[str, list[StoredTask]]:
    outcome = sync_tasks_file(base, text, stored)
    after = stored_after(outcome, stored)
    # Both sides are equal.
    assert shown(outcome.text) == {task.key: task.fields for task in after if not task.archived}
    # A second sync changes nothing.
    assert sync_tasks_file(outcome.text, outcome.text, after) == SyncOutcome(outcome.text, (), (), (), ())
    # Lines that are no tasks are still there.
    assert not other_lines(text) - other_lines(outcome.text)
    # No task is lost: what the store had is there or archived, and what the file had is there.
    assert {task.key for task in stored} <= {task.key for task in after}
    archived = {task.key for task in stored if task.archived}
    gone = {update.key for update in outcome.updates if update.kind == "archived"} | set(
        outcome.removed_lines
    )
    lines_before = Counter(TasksFile(text).fields(task).title for task in TasksFile(text).tasks)
    lines_after = len(shown(outcome.text)) + len(set(outcome.removed_lines))
    assert lines_after >= sum(lines_before.values())
    assert set(outcome.removed_lines) <= archived
    assert gone - set(outcome.removed_lines) <= {task.key for task in stored if not task.archived}
    return outcome.text, after


@settings(max_examples=400, deadline=None)
@example(
    "# Tasks\n  - plain\n   1. [ ] moves\n    - [ ] deep\n# Tasks",
    [],
    [],
    [],
    [(0, "change", {"milestone": ""})],
)
@example(
    "- [ ] T-1 One\n- [ ] T-2 Two\n",
    [],
    [],
    [],
    [(0, "change", {"criteria": (AcceptanceCriterion("new"),)}), (1, "change", {"milestone": "v1"})],
)
@given(TEXTS, EDITS, STORE_EDITS, EDITS, STORE_EDITS)
@example("- [ ] T-1 One\n  ```\n", [], [(0, "change", {"criteria": (AcceptanceCriterion("new"),)})], [], [])
def test_random_edits_on_both_sides_converge_and_lose_nothing(
    text: str,
    edits: list[tuple[str, int, str]],
    store_edits: list[tuple[int, str, dict[str, object]]],
    more_edits: list[tuple[str, int, str]],
    more_store_edits: list[tuple[int, str, dict[str, object]]],
) -> None:
    base, stored = check_sync("", text, [])
    base, stored = check_sync(base, edit_text(base, edits), edit_store(stored, store_edits))
    check_sync(base, edit_text(base, more_edits), edit_store(stored, more_store_edits))


@settings(max_examples=200, deadline=None)
@given(TEXTS, STORE_EDITS)
def test_a_change_of_the_store_leaves_every_other_line_byte_for_byte(
    text: str, edits: list[tuple[int, str, dict[str, object]]]
) -> None:
    base, stored = check_sync("", text, [])
    unmoved = [
        (at, kind, {name: value for name, value in fields.items() if name not in ("milestone", "state")})
        for at, kind, fields in edits
        if kind == "change"
    ]
    after, _ = check_sync(base, base, edit_store(stored, unmoved))
    ours = set(task_lines(TasksFile(base)))
    others = [line for at, line in enumerate(TasksFile(base).lines) if at not in ours]
    new = TasksFile(after)
    theirs = set(task_lines(new))
    kept = [line for at, line in enumerate(new.lines) if at not in theirs and line.strip() != "<!-- -->"]
    assert [line.rstrip("\r\n") for line in kept] == [line.rstrip("\r\n") for line in others]
    assert kept[:-1] == others[:-1]
