"""The line of a task is read in the dialects that people write, and written so that it reads the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.task import TaskFields
from hutch.flows.tasks_file.task_line import TaskLine, line_with_fields, read_line, with_key, write_line


def read(body: str, box: str = " ") -> TaskLine:
    line = read_line("- ", box, body)
    assert line
    return line


@pytest.mark.parametrize(
    ("body", "key", "title"),
    [
        ("T-12 Fix login", "T-12", "Fix login"),
        ("T001 [P] Create project structure", "T001", "[P] Create project structure"),
        ("BACK-7.1 Sub task", "BACK-7.1", "Sub task"),
        ("#41 From an issue", "#41", "From an issue"),
        ("**T-12** Fix login", "T-12", "Fix login"),
        ("**T-12:** Fix login", "T-12", "Fix login"),
        ("**T-12**: Fix login", "T-12", "Fix login"),
        ("**T-12 Fix login**", "T-12", "Fix login"),
        ("**T-12 Fix** login", "T-12", "Fix login"),
        ("`T-12` Fix login", "T-12", "Fix login"),
        ("[T-12] Fix login", "T-12", "Fix login"),
        ("[T-12](https://example.org/12) Fix login", "T-12", "Fix login"),
        ("T-12: Fix login", "T-12", "Fix login"),
        ("T-12 - Fix login", "T-12", "Fix login"),
        ("T-12 – Fix login", "T-12", "Fix login"),
        ("Fix login", "", "Fix login"),
        ("**Fix login**", "", "**Fix login**"),
        ("UTF-8 file names", "", "UTF-8 file names"),
        ("T-12", "T-12", "T-12"),
        ("T-12x Fix", "", "T-12x Fix"),
        ("`T-12 Fix", "", "`T-12 Fix"),
        ("#bug", "", "#bug"),
        ("👩‍💻 Größe\u00a0ändern", "", "👩‍💻 Größe\u00a0ändern"),
    ],
)
def test_keys_and_titles_of_all_dialects(body: str, key: str, title: str) -> None:
    line = read(body)
    assert (line.key, line.title) == (key, title)


def test_owners_labels_and_the_comment_are_read_from_the_end() -> None:
    line = read("T-1 Ask @bob about #41 @alice #bug #ui/forms <!-- see --> <!-- hutch:status=doing rev=3 -->")
    assert (line.title, line.owner, line.labels) == ("Ask @bob about #41", "alice", ("bug", "ui/forms"))
    assert (line.pairs, line.other_comments) == ({"status": "doing", "rev": "3"}, "<!-- see -->")
    assert line.state(None) == "doing"


@pytest.mark.parametrize(
    ("box", "comment", "under", "state"),
    [
        ("x", "status=doing", None, "done"),  # a ticked box beats the comment
        ("X", "", "todo", "done"),
        ("/", "", None, "doing"),
        ("~", "", None, "doing"),
        ("!", "", None, "blocked"),
        ("-", "", None, "cancelled"),
        (" ", "status=review", "doing", "review"),
        (" ", "status=done", None, "todo"),  # it was unticked
        (" ", "status=nonsense", None, "todo"),
        (" ", "", "doing", "doing"),
        (" ", "", "done", "todo"),
    ],
)
def test_the_box_decides_before_the_comment_and_the_heading(
    box: str, comment: str, under: str, state: str
) -> None:
    line = read(f"T-1 A <!-- hutch:{comment} -->", box)
    assert line.state(under) == state  # type: ignore[arg-type]


@pytest.mark.parametrize("body", ["", "   ", "a\x1b[2Jb", "a\u202eb", "a\udcffb", "x" * 1001])
def test_a_line_that_cannot_be_a_task_is_none(body: str) -> None:
    assert read_line("- ", " ", body) is None


def test_a_change_keeps_the_other_parts_of_the_line() -> None:
    line = read("**T-12:** Fix login @alice @bob #bug <!-- see --> <!-- hutch:rev=1 color=red -->", "/")
    fields = TaskFields(title="Fix login", state="done", owner="carol", labels=("bug", "ui"), priority="high")
    assert write_line(line_with_fields(line, fields, None, 4)) == (
        "- [x] **T-12:** Fix login @carol @bob #bug #ui <!-- see --> "
        "<!-- hutch:rev=4 priority=high color=red -->"
    )


def test_a_new_title_closes_bold_text_that_ended_in_the_old_one() -> None:
    line = read("**T-12 Fix login**")
    assert write_line(line_with_fields(line, TaskFields(title="New"), None, 2)) == (
        "- [ ] **T-12** New <!-- hutch:rev=2 -->"
    )


TITLES = st.one_of(
    st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=30),
    st.lists(
        st.sampled_from(
            ["a", "@bob", "#bug", "#41", "\\@x", "\\", "<!--", "-->", "-", "–", "T-1", "**", ":", "`"]
        ),
        min_size=1,
        max_size=5,
    ).map(" ".join),
).filter(lambda text: text.strip())
NAMES = st.sampled_from(["", "alice", "Jane Doe", "a@b.org", "persona:engineer", "--x--", "O'Neil"])


@given(
    TITLES,
    NAMES,
    st.lists(st.sampled_from(["bug", "ui/x", "a:b"]), unique=True),
    st.sampled_from(["todo", "doing", "done", "cancelled"]),
    st.sampled_from([None, "doing", "done"]),
)
def test_every_written_line_is_read_back_as_the_same_fields(
    title: str, owner: str, labels: list[str], state: str, under: str | None
) -> None:
    fields = TaskFields(
        title=title.strip(),
        owner=owner,
        labels=tuple(sorted(labels)),
        state=state,  # type: ignore[arg-type]
        estimate="3 -- 4 h",
    )
    old = with_key(read("Old title @dave #old"), "T-1")
    text = write_line(line_with_fields(old, fields, under, 7))  # type: ignore[arg-type]
    assert text.startswith(("- [ ] ", "- [x] "))
    again = read(text[6:], text[3])
    shown = (again.key, again.title, again.owner, again.labels, again.state(under))  # type: ignore[arg-type]
    assert shown == ("T-1", fields.title, owner, fields.labels, state)
    assert again.pairs["estimate"] == "3 -- 4 h"
