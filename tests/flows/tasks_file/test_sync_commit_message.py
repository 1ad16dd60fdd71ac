"""The message of a commit that syncs a TASKS.md."""

from hutch.flows.tasks_file.sync_commit_message import sync_message

BEFORE = "## To do\n- [ ] T-1 Fix\n- [ ] T-2 Say so\n"


def test_the_message_names_changed_tasks_and_their_states() -> None:
    after = "## To do\n- [x] T-1 Fix\n- [ ] T-2 Say so <!-- hutch:status=doing rev=2 -->\n"
    assert sync_message(BEFORE, after) == "Sync TASKS.md: T-1 done, T-2 doing\n"


def test_many_tasks_are_counted_and_other_lines_are_not_named() -> None:
    added = "".join(f"1. [ ] T-{number} New\n" for number in range(3, 8))
    assert (
        sync_message(BEFORE, f"{BEFORE}{added}") == "Sync TASKS.md: T-3 todo, T-4 todo, T-5 todo and 2 more\n"
    )
    assert sync_message(BEFORE, BEFORE.replace("To do", "Plan")) == "Sync TASKS.md with the tasks\n"
