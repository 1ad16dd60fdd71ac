"""A file and the stored tasks end equal, only touched lines change, and conflicts list both values."""

from dataclasses import replace

from hutch.domain.task import AcceptanceCriterion, TaskFields
from hutch.flows.tasks_file.file_and_stored_task_merge import (
    StoredTask,
    SyncOutcome,
    TaskUpdate,
    sync_tasks_file,
)
from hutch.flows.tasks_file.task_keys import RenumberedTask
from hutch.flows.tasks_file.three_way_field_merge import FieldConflict

FILE = """\
# Tasks

Intro.

## To do
- [ ] T-1 One @alice
  - [ ] first
  - [x] second
- [ ] T-2 Two #bug

## In progress
* [ ] T-3 Three

## Done
"""


def stored_after(outcome: SyncOutcome, stored: list[StoredTask]) -> list[StoredTask]:
    """The stored tasks after the updates of a sync."""
    tasks = {task.key: task for task in stored}
    for update in outcome.updates:
        tasks[update.key] = StoredTask(
            update.key, update.fields, update.revision + 1, archived=update.kind == "archived"
        )
    return list(tasks.values())


def first_sync(text: str = FILE) -> tuple[str, list[StoredTask]]:
    outcome = sync_tasks_file("", text, [])
    return outcome.text, stored_after(outcome, [])


def changed(stored: list[StoredTask], key: str, **fields: object) -> list[StoredTask]:
    return [
        replace(task, fields=replace(task.fields, **fields), revision=task.revision + 1)  # type: ignore[arg-type]
        if task.key == key
        else task
        for task in stored
    ]


def synced(base: str, text: str, stored: list[StoredTask]) -> tuple[str, dict[str, StoredTask], SyncOutcome]:
    """Sync, and check that a second sync changes nothing."""
    outcome = sync_tasks_file(base, text, stored)
    after = stored_after(outcome, stored)
    again = sync_tasks_file(outcome.text, outcome.text, after)
    assert again == SyncOutcome(outcome.text, (), (), (), ())
    return outcome.text, {task.key: task for task in after}, outcome


def changed_lines(old: str, new: str) -> list[tuple[str, str]]:
    assert len(old.splitlines()) == len(new.splitlines())
    return [pair for pair in zip(old.splitlines(), new.splitlines(), strict=True) if pair[0] != pair[1]]


def test_the_first_sync_takes_all_tasks_and_leaves_a_file_with_keys_as_it_is() -> None:
    text, stored = first_sync()
    assert text == FILE
    criteria = (AcceptanceCriterion("first"), AcceptanceCriterion("second", True))
    assert {task.key: task.fields for task in stored} == {
        "T-1": TaskFields(title="One", owner="alice", criteria=criteria),
        "T-2": TaskFields(title="Two", labels=("bug",)),
        "T-3": TaskFields(title="Three", state="doing"),
    }


def test_a_line_without_a_key_gets_the_next_one() -> None:
    text, stored, _ = synced("", "- [ ] T-7 A\r\n- [x] B @bob\r\n", [])
    assert text == "- [ ] T-7 A\r\n- [x] T-8 B @bob <!-- hutch:rev=1 -->\r\n"
    assert stored["T-8"].fields == TaskFields(title="B", state="done", owner="bob")


def test_new_keys_have_the_style_of_the_file() -> None:
    assert "T003 New" in sync_tasks_file("", "- [ ] T001 A\n- [ ] T002 B\n- [ ] New\n", []).text
    assert "BACK-8 New" in sync_tasks_file("", "- [ ] BACK-7.1 A\n- [ ] New\n", []).text
    assert "T-1 New" in sync_tasks_file("", "- [ ] #41 A\n- [ ] New\n", []).text


def test_a_change_of_the_store_touches_one_line() -> None:
    text, stored = first_sync()
    after, _, _ = synced(text, text, changed(stored, "T-2", owner="bob", title="Two!"))
    assert changed_lines(text, after) == [
        ("- [ ] T-2 Two #bug", "- [ ] T-2 Two! @bob #bug <!-- hutch:rev=2 -->")
    ]


def test_a_ticked_box_beats_the_hidden_comment() -> None:
    text = "- [ ] T-1 A <!-- hutch:status=doing rev=3 -->\n"
    base, stored = first_sync(text)
    ticked = base.replace("[ ]", "[x]")
    after, tasks, _ = synced(base, ticked, stored)
    assert (after, tasks["T-1"].fields.state) == (ticked, "done")
    after, tasks, _ = synced(after, base, list(tasks.values()))
    assert (after, tasks["T-1"].fields.state) == (base, "doing")


def test_both_sides_change_different_fields() -> None:
    base, stored = first_sync()
    edited = base.replace("T-1 One @alice", "T-1 One more @alice #ui").replace("[ ] first", "[x] first")
    store = changed(
        stored, "T-1", owner="bob", criteria=(*stored[0].fields.criteria, AcceptanceCriterion("third"))
    )
    text, tasks, outcome = synced(base, edited, store)
    assert outcome.conflicts == ()
    assert tasks["T-1"].fields == TaskFields(
        title="One more",
        owner="bob",
        labels=("ui",),
        criteria=(
            AcceptanceCriterion("first", True),
            AcceptanceCriterion("second", True),
            AcceptanceCriterion("third"),
        ),
    )
    assert (
        "- [ ] T-1 One more @bob #ui <!-- hutch:rev=3 -->\n  - [x] first\n  - [x] second\n  - [ ] third\n"
        in text
    )


def test_a_conflict_keeps_the_file_and_lists_both_values() -> None:
    base, stored = first_sync()
    _, tasks, outcome = synced(
        base, base.replace("T-2 Two", "T-2 Zwei"), changed(stored, "T-2", title="Deux")
    )
    assert outcome.conflicts == (
        FieldConflict(key="T-2", field="title", base="Two", file="Zwei", stored="Deux"),
    )
    assert tasks["T-2"].fields.title == "Zwei"
    assert "hutch tasks edit T-2 --title 'Deux'" in outcome.conflicts[0].remedy


def test_a_state_set_by_the_store_moves_the_task_with_its_block_under_that_heading() -> None:
    base, stored = first_sync()
    text, _, _ = synced(base, base, changed(stored, "T-1", state="doing"))
    assert text == (
        "# Tasks\n\nIntro.\n\n## To do\n- [ ] T-2 Two #bug\n\n## In progress\n* [ ] T-3 Three\n"
        "- [ ] T-1 One @alice <!-- hutch:status=doing rev=2 -->\n  - [ ] first\n  - [x] second\n\n## Done\n"
    )
    text, _, _ = synced(base, base, changed(stored, "T-2", state="done"))
    assert text.endswith("## Done\n\n- [x] T-2 Two #bug <!-- hutch:rev=2 -->\n")


def test_a_line_that_a_person_moves_under_another_heading_gets_its_state() -> None:
    text = "## Doing\n- [ ] T-1 A <!-- hutch:status=doing rev=2 -->\n## Done\n- [x] T-2 B\n"
    base, stored = first_sync(text)
    moved = "## Doing\n- [x] T-2 B\n## Done\n- [ ] T-1 A <!-- hutch:status=doing rev=2 -->\n"
    after, tasks, _ = synced(base, moved, stored)
    assert {key: task.fields.state for key, task in tasks.items()} == {"T-1": "done", "T-2": "doing"}
    assert after == (
        "## Doing\n- [ ] T-2 B <!-- hutch:status=doing rev=2 -->\n## Done\n- [x] T-1 A <!-- hutch:rev=2 -->\n"
    )


def test_a_milestone_moves_a_task_and_a_missing_heading_is_written() -> None:
    base, stored = first_sync()
    text, tasks, _ = synced(base, base, changed(stored, "T-3", milestone="v2"))
    assert text.endswith(
        "## In progress\n\n## Done\n\n## v2\n\n* [ ] T-3 Three <!-- hutch:status=doing rev=2 -->\n"
    )
    text, _, _ = synced(text, text, changed(list(tasks.values()), "T-3", milestone=""))
    assert "## In progress\n\n* [ ] T-3 Three <!-- hutch:status=doing rev=3 -->\n\n## Done" in text


def test_tasks_added_on_both_sides_are_both_there_and_a_clashing_key_is_renumbered() -> None:
    base, stored = first_sync()
    store = [*stored, StoredTask("T-4", TaskFields(title="From the board", depends_on=("T-1",)), 1)]
    edited = base.replace("* [ ] T-3", "* [ ] T-4 From the file\n* [ ] T-3")
    text, tasks, outcome = synced(base, edited, store)
    assert outcome.renumbered == (RenumberedTask("From the file", "T-4", "T-5"),)
    assert {key: task.fields.title for key, task in tasks.items() if key > "T-3"} == {
        "T-4": "From the board",
        "T-5": "From the file",
    }
    assert "* [ ] T-5 From the file <!-- hutch:status=doing rev=1 -->\n" in text
    assert "- [ ] T-4 From the board <!-- hutch:rev=1 depends=T-1 -->\n\n## In progress" in text


def test_of_two_lines_with_one_key_the_known_one_keeps_it() -> None:
    base, stored = first_sync("- [ ] T-1 Old\n")
    text, _, outcome = synced(base, "- [ ] T-1 New\n- [ ] T-1 Old\n", stored)
    assert text == "- [ ] T-2 New <!-- hutch:rev=1 -->\n- [ ] T-1 Old\n"
    assert outcome.renumbered == (RenumberedTask("New", "T-1", "T-2"),)


def test_a_line_that_lost_its_key_gets_it_back() -> None:
    base, stored = first_sync()
    text, tasks, outcome = synced(base, base.replace("T-2 ", ""), stored)
    assert (outcome.updates, len(tasks)) == ((), 3)
    assert "- [ ] T-2 Two #bug <!-- hutch:rev=1 -->\n" in text


def test_a_line_that_was_removed_archives_the_task() -> None:
    base, stored = first_sync()
    removed = base.replace("- [ ] T-2 Two #bug\n", "")
    text, tasks, outcome = synced(base, removed, stored)
    assert (text, tasks["T-2"].archived) == (removed, True)
    assert outcome.updates == (TaskUpdate("archived", "T-2", stored[1].fields, 1),)
    text, tasks, _ = synced(text, text + "- [ ] T-2 Two\n", list(tasks.values()))
    assert tasks["T-2"].archived is False


def test_a_task_that_the_file_removed_and_the_store_changed_is_kept() -> None:
    base, stored = first_sync()
    removed = base.replace("- [ ] T-2 Two #bug\n", "")
    text, tasks, outcome = synced(base, removed, changed(stored, "T-2", owner="bob"))
    assert "- [ ] T-2 Two @bob #bug <!-- hutch:rev=2 -->\n" in text
    assert not tasks["T-2"].archived
    assert outcome.conflicts == (
        FieldConflict(key="T-2", field="task", base="Two", file="(removed)", stored="(changed)"),
    )


def test_an_archived_task_leaves_the_file_but_its_notes_stay() -> None:
    base, stored = first_sync("- [ ] T-1 A\n  - [ ] c\n  a note\n- [ ] T-2 B\n")
    store = [replace(task, archived=task.key == "T-1") for task in stored]
    text, _, outcome = synced(base, base, store)
    assert (text, outcome.removed_lines) == ("  a note\n- [ ] T-2 B\n", ("T-1",))


def test_a_task_that_the_store_archived_and_the_file_changed_is_restored() -> None:
    base, stored = first_sync("- [ ] T-1 A\n")
    edited = "- [x] T-1 A\n"
    text, tasks, outcome = synced(base, edited, [replace(stored[0], archived=True)])
    assert (text, tasks["T-1"].archived, tasks["T-1"].fields.state) == (edited, False, "done")
    assert [each.field for each in outcome.conflicts] == ["task"]


def test_without_a_base_equal_tasks_are_the_same_and_empty_fields_are_filled() -> None:
    stored = [StoredTask("T-1", TaskFields(title="A", owner="bob"), 4)]
    text, tasks, outcome = synced("", "- [x] T-1 A #ui\n", stored)
    assert tasks["T-1"].fields == TaskFields(title="A", state="done", owner="bob", labels=("ui",))
    assert (text, outcome.conflicts) == ("- [x] T-1 A @bob #ui <!-- hutch:rev=5 -->\n", ())


def test_without_a_base_a_criterion_that_one_side_has_ticked_stays_ticked() -> None:
    criteria = (AcceptanceCriterion("in the store", True), AcceptanceCriterion("in the file"))
    stored = [StoredTask("T-1", TaskFields(title="A", criteria=criteria), 4)]
    file = "- [ ] T-1 A\n  - [ ] in the store\n  - [x] in the file\n"
    text, tasks, outcome = synced("", file, stored)
    assert [each.done for each in tasks["T-1"].fields.criteria] == [True, True]
    assert (text.count("- [x]"), outcome.conflicts) == (2, ())


def test_a_missing_file_is_written_from_the_stored_tasks() -> None:
    stored = [
        StoredTask("T-1", TaskFields(title="A", criteria=(AcceptanceCriterion("c"),)), 1),
        StoredTask("T-2", TaskFields(title="B", milestone="v1", state="blocked"), 2),
    ]
    text, _, _ = synced("", "", stored)
    assert text == (
        "# Tasks\n\n- [ ] T-1 A <!-- hutch:rev=1 -->\n  - [ ] c\n\n"
        "## v1\n\n- [ ] T-2 B <!-- hutch:status=blocked rev=2 -->\n"
    )


def test_an_ordered_list_goes_on_and_the_missing_final_newline_stays_missing() -> None:
    base, stored = first_sync("1. [ ] T-1 A")
    text, _, _ = synced(base, base, [*stored, StoredTask("T-2", TaskFields(title="B"), 1)])
    assert text == "1. [ ] T-1 A\n2. [ ] T-2 B <!-- hutch:rev=1 -->"


def test_nothing_is_written_into_a_fence_that_never_ends() -> None:
    base, stored = first_sync("- [ ] T-1 A\n  ```\n  code\n")
    store = changed(stored, "T-1", criteria=(AcceptanceCriterion("c"),))
    text, _, _ = synced(base, base, [*store, StoredTask("T-2", TaskFields(title="B", milestone="v1"), 1)])
    assert text.endswith("  ```\n  code\n")
