"""Folders of Backlog.md are read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.task import AcceptanceCriterion, Task, TaskFields, task_fields
from hutch.flows.tasks_file.backlog_folder_conversion import BacklogTask, read_backlog, write_backlog

FILE = """\
---
id: task-12.1
title: 'Fix: flaky login'
status: In Progress
assignee:
  - '@alice'
created_date: '2026-07-06 12:00'
labels: [bug, needs review]
dependencies: [task-3]
priority: High
---

## Description

<!-- SECTION:DESCRIPTION:BEGIN -->
It fails at times.
<!-- SECTION:DESCRIPTION:END -->

## Acceptance Criteria
<!-- AC:BEGIN -->
- [x] #1 It is reproduced
- [ ] #2 It is fixed
<!-- AC:END -->

## Implementation Plan

1. Look
"""


def test_a_file_of_backlog_md_becomes_a_task() -> None:
    found = read_backlog({"backlog/tasks/task-12.1 - Fix-login.md": FILE.replace("\n", "\r\n")})
    assert found.problems == ()
    assert found.tasks == (
        BacklogTask(
            "TASK-12.1",
            TaskFields(
                title="Fix: flaky login",
                state="doing",
                owner="alice",
                priority="high",
                labels=("bug", "needs-review"),
                depends_on=("TASK-3",),
                criteria=(AcceptanceCriterion("It is reproduced", True), AcceptanceCriterion("It is fixed")),
            ),
            "It fails at times.\n\n\n## Implementation Plan\n\n1. Look",
        ),
    )


def test_files_that_are_no_tasks_are_reported() -> None:
    files = {
        "a.md": "no front matter",
        "b.md": "---\n[: \n---\n",
        "c.md": "---\n- list\n---\n",
        "d.md": "---\nid: nonsense\ntitle: A\n---\n",
        "e.md": "---\nid: T-1\n---\n",
        "f.md": "---\nid: T-1\ntitle: A\n---\n",
        "g.md": "---\nid: T-1\ntitle: B\n---\n",
    }
    found = read_backlog(files)
    assert [task.fields.title for task in found.tasks] == ["A"]
    assert [problem[:4] for problem in found.problems] == ["a.md", "b.md", "c.md", "d.md", "e.md", "g.md"]


@pytest.mark.parametrize(
    ("path", "status"),
    [("tasks", "Done"), ("completed", "Done"), ("archive/tasks", "To Do")],
)
def test_a_task_is_exported_to_the_folder_that_it_came_from(path: str, status: str) -> None:
    name = f"backlog/{path}/t-1 - A.md"
    [read] = read_backlog({name: f"---\nid: T-1\ntitle: A\nstatus: {status}\n---\n"}).tasks
    task = Task(
        id="tsk_1",
        repository="",
        key=read.key,
        fields=read.fields,
        description="",
        archived=read.archived,
        created_by="",
        created_ms=1,
        updated_ms=1,
    )
    assert list(write_backlog([task])) == [name]


LINE = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=20).filter(str.strip)


@given(LINE, st.lists(st.builds(AcceptanceCriterion, LINE, st.booleans()), max_size=3), st.booleans())
def test_written_tasks_are_read_back_the_same(
    title: str, criteria: list[AcceptanceCriterion], archived: bool
) -> None:
    fields = task_fields(title=title, owner="Jane Doe", criteria=criteria, milestone="v1", estimate="3h")
    task = Task(
        id="tsk_1",
        repository="",
        key="#41",
        fields=fields,
        description="Text\n\n## More",
        archived=archived,
        created_by="",
        created_ms=1,
        updated_ms=1,
    )
    files = write_backlog([task])
    assert read_backlog(files).tasks == (BacklogTask("#41", fields, task.description, archived),)
