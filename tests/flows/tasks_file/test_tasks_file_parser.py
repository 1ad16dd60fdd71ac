"""Of a file only the boxes that Markdown shows as tasks are read, each under its heading."""

from hutch.domain.task import AcceptanceCriterion, TaskFields
from hutch.flows.tasks_file.tasks_file_parser import TasksFile

DIALECTS = """\
---
title: Plan
list:
- [ ] front matter
---
# Tasks

Some text, then a table.

| - [ ] no | task |
|---|---|

- [ ] T-1 Dash
* [x] T-2 Star
+ [X] T-3 Plus
1. [/] T-4 Number
2) [!] T-5 Parenthesis

> - [ ] a quote

```md
- [ ] T-90 in a fence
```

<!--
- [ ] T-91 in a comment
-->
<!-- one line --> - [ ] T-93 after a comment

Text

    - [ ] T-92 in an indented code block

## In progress

- [ ] T-6 With criteria @alice #bug
  A note about it.

  - [x] reproduce
    - [ ] deeper
  ~~~
  - [ ] T-94 in a fence of the note
  ~~~
  1. [ ] last
- Group
  - [ ] T-7 Below a plain item

## v2.0
### Done
- [x] T-8 Of a milestone
- [ ]
- [ ]no space
"""


def fields_by_key(text: str) -> dict[str, TaskFields]:
    file = TasksFile(text)
    return {task.line.key: file.fields(task) for task in file.tasks}


def test_dialects() -> None:
    assert fields_by_key(DIALECTS) == {
        "T-1": TaskFields(title="Dash"),
        "T-2": TaskFields(title="Star", state="done"),
        "T-3": TaskFields(title="Plus", state="done"),
        "T-4": TaskFields(title="Number", state="doing"),
        "T-5": TaskFields(title="Parenthesis", state="blocked"),
        "T-6": TaskFields(
            title="With criteria",
            state="doing",
            owner="alice",
            labels=("bug",),
            criteria=(
                AcceptanceCriterion("reproduce", True),
                AcceptanceCriterion("deeper"),
                AcceptanceCriterion("last"),
            ),
        ),
        "T-7": TaskFields(title="Below a plain item", state="doing"),
        "T-8": TaskFields(title="Of a milestone", state="done", milestone="v2.0"),
    }


def test_windows_line_ends_a_byte_order_mark_and_no_final_newline() -> None:
    text = "\ufeff" + DIALECTS.replace("\n", "\r\n").rstrip("\r\n")
    assert fields_by_key(text) == fields_by_key(DIALECTS)
    file = TasksFile(text)
    assert file.bom + "".join(file.lines) == text
    assert file.line_end == "\r\n"


def test_notes_are_the_lines_of_a_task_that_are_no_boxes() -> None:
    file = TasksFile(DIALECTS)
    noted = next(task for task in file.tasks if task.line.key == "T-6")
    assert file.notes(noted) == "A note about it.\n\n~~~\n- [ ] T-94 in a fence of the note\n~~~"


def test_a_fence_that_never_ends_hides_the_rest() -> None:
    file = TasksFile("- [ ] T-1 A\n\n```\n- [ ] T-2 B\n")
    assert [task.line.key for task in file.tasks] == ["T-1"]
    assert file.safe_end == 2


def test_a_fence_in_a_list_item_ends_with_the_item() -> None:
    file = TasksFile("- [ ] T-1 A\n  ```\n  code\n- [ ] T-2 B\n")
    assert [(task.line.key, task.criteria_end) for task in file.tasks] == [("T-1", 1), ("T-2", 4)]


def test_the_only_first_heading_is_the_title_and_no_milestone() -> None:
    assert fields_by_key("# Plan\n- [ ] T-1 A\n")["T-1"].milestone == ""
    assert fields_by_key("# v1\n- [ ] T-1 A\n# v2\n")["T-1"].milestone == "v1"


def test_headings_name_states_with_decoration_and_counts() -> None:
    for heading in ("In Progress", "🚧 In progress (3)", "in-progress:", "**WIP**", "Doing ##"):
        assert fields_by_key(f"## {heading}\n- [ ] T-1 A\n")["T-1"].state == "doing", heading
