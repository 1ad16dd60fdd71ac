"""An undo takes back the changes of one author, keeps those of others, and touches no other file."""

import asyncio
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.sessions.undo_planning import Merged, Mode, Reversal, UndoPlan, plan_undo

pytestmark = pytest.mark.anyio

# A version is a row of cells. Cells that only one side changed can be merged.
Text = tuple[str, ...]
BINARY = ("binary",)


async def merge(path: str, ours: Text, base: Text | None, theirs: Text) -> Merged[Text] | None:
    if BINARY in (ours, base, theirs):
        return None
    merged, has_conflicts = [], False
    for cell, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        common = base[cell] if base else ""
        is_conflict = mine != yours and common not in (mine, yours)
        has_conflicts |= is_conflict
        merged.append(f"<{mine}|{yours}>" if is_conflict else mine if yours == common else yours)
    return Merged(tuple(merged), has_conflicts)


async def plan(current: dict[str, Text], *reversals: Reversal[Text]) -> UndoPlan[Text]:
    return await plan_undo(reversals, current, merge)


async def test_files_get_the_version_from_before_the_first_change() -> None:
    found = await plan(
        {"a": ("3",), "new": ("1",)},
        Reversal("a", ("1",), ("2",)),
        Reversal("new", None, ("1",)),
        Reversal("gone", ("1",), None),
        Reversal("a", ("2",), ("3",)),
    )
    assert found.writes("refuse") == {"a": ("1",), "gone": ("1",), "new": None}
    assert (found.merged, found.conflicts) == ([], {})


async def test_an_undo_that_was_made_before_changes_nothing() -> None:
    changes = Reversal("a", ("1",), ("2",)), Reversal("new", None, ("1",))
    assert (await plan({"a": ("1",)}, *changes)).writes("refuse") == {}


async def test_changes_of_others_are_kept_between_and_after() -> None:
    """The author wrote cell 0 twice; others wrote cell 1 in between, and cell 2 afterwards."""
    found = await plan(
        {"a": ("y", "b", "c")},
        Reversal("a", ("", "", ""), ("x", "", "")),
        Reversal("a", ("x", "b", ""), ("y", "b", "")),
    )
    assert found.writes("refuse") == {"a": ("", "b", "c")}
    assert (found.merged, found.conflicts) == (["a"], {})


@pytest.mark.parametrize(
    ("change", "now", "reason", "resolved"),
    [
        (
            Reversal("a", ("1",), ("2",)),
            ("3",),
            "overlap",
            {"merge": ("<3|1>",), "keep": ("3",), "discard": ("1",)},
        ),
        (
            Reversal("a", ("1",), BINARY),
            ("3",),
            "binary",
            {"merge": ("3",), "keep": ("3",), "discard": ("1",)},
        ),
        (
            Reversal("a", None, ("2",)),
            ("3",),
            "changed_since",
            {"merge": ("3",), "keep": ("3",), "discard": None},
        ),
        (
            Reversal("a", ("1",), ("2",)),
            None,
            "deleted_since",
            {"merge": None, "keep": None, "discard": ("1",)},
        ),
        (
            Reversal("a", ("1",), None),
            ("3",),
            "created_again",
            {"merge": ("<3|1>",), "keep": ("3",), "discard": ("1",)},
        ),
        (
            Reversal("a", ("1",), ("2",), is_clear=False),
            ("2",),
            "unclear",
            {"merge": ("<2|1>",), "keep": ("2",), "discard": ("1",)},
        ),
        (
            Reversal("a", ("1",), BINARY, is_clear=False),
            BINARY,
            "unclear",
            {"merge": BINARY, "keep": BINARY, "discard": ("1",)},
        ),
        (
            Reversal("a", None, ("2",), is_clear=False),
            ("2",),
            "unclear",
            {"merge": ("2",), "keep": ("2",), "discard": None},
        ),
        (
            Reversal("a", ("1",), None, is_clear=False),
            None,
            "unclear",
            {"merge": ("1",), "keep": None, "discard": ("1",)},
        ),
        (
            Reversal("a", None, None, is_stored=False),
            ("2",),
            "gone",
            {"merge": ("2",), "keep": ("2",), "discard": ("2",)},
        ),
    ],
)
async def test_the_caller_decides_about_a_conflict(
    change: Reversal[Text], now: Text | None, reason: str, resolved: dict[Mode, Text | None]
) -> None:
    current = {} if now is None else {"a": now}
    found = await plan(current, change)
    assert found.conflicts == {"a": reason}
    assert {mode: found.files["a"].resolved(mode) for mode in resolved} == resolved


async def test_a_moved_file_takes_later_changes_of_others_back_to_its_old_name() -> None:
    move = Reversal("new", ("1", ""), ("2", ""), moved_from="old")
    found = await plan({"new": ("2", "x")}, move)
    assert found.writes("refuse") == {"new": None, "old": ("1", "x")}
    assert (found.merged, found.conflicts) == (["old"], {})


async def test_a_move_over_a_file_is_taken_back_for_both() -> None:
    move = Reversal("b", ("1",), ("1",), moved_from="a", replaced=("0",))
    assert (await plan({"b": ("1",)}, move)).writes("refuse") == {"a": ("1",), "b": ("0",)}


async def test_a_moved_file_does_not_replace_one_that_was_created_in_its_place() -> None:
    move = Reversal("b", ("1",), ("1",), moved_from="a")
    found = await plan({"a": ("theirs",), "b": ("1",)}, move)
    assert found.conflicts == {"a": "created_again", "b": "created_again"}
    assert found.writes("keep") == found.writes("merge") == {}


async def test_a_moved_file_that_others_deleted_stays_deleted() -> None:
    move = Reversal("b", ("1",), ("1",), moved_from="a")
    assert (await plan({}, move)).writes("refuse") == {}


PATHS, CELLS = ("a", "b", "c"), 3
Author = Literal["target", "other"]
Change = tuple[Author, str, str]  # an author, a path, and what is written into the author's cell; "" deletes


def apply(files: dict[str, Text], change: Change) -> None:
    """Each author has a cell in each file, so that changes of the two never overlap."""
    author, path, text = change
    cells = list(files.get(path, ("",) * CELLS))
    cells[0 if author == "target" else 2] = text
    files[path] = tuple(cells)


@given(
    st.lists(
        st.tuples(st.sampled_from(("target", "other")), st.sampled_from(PATHS), st.sampled_from("xyz")),
        max_size=20,
    )
)
def test_undoing_one_author_leaves_what_the_others_alone_would_have_made(made: list[Change]) -> None:
    files: dict[str, Text] = dict.fromkeys(PATHS, ("",) * CELLS)
    alone = dict(files)
    reversals: list[Reversal[Text]] = []
    for change in made:
        before = files[change[1]]
        apply(files, change)
        if change[0] == "target":
            reversals.append(Reversal(change[1], before, files[change[1]]))
        else:
            apply(alone, change)
    found = asyncio.run(plan_undo(reversals, files, merge))
    assert found.conflicts == {}
    assert files | found.writes("refuse") == alone
    assert set(found.files) <= {each.path for each in reversals}


VERSIONS = st.none() | st.tuples(st.sampled_from("012"), st.sampled_from("012"))


@given(
    st.lists(st.tuples(st.sampled_from("ab"), VERSIONS, st.booleans(), st.booleans()), max_size=12),
    st.sampled_from(["merge", "keep", "discard"]),
)
def test_an_undo_never_writes_a_file_that_it_does_not_concern_or_name(
    steps: list[tuple[str, Text | None, bool, bool]], mode: Mode
) -> None:
    files: dict[str, Text | None] = {"a": None, "b": None, "c": ("1", "1")}
    reversals = []
    for path, version, is_target, is_clear in steps:
        if is_target:
            reversals.append(Reversal(path, files[path], version, is_clear=is_clear))
        files[path] = version
    current = {path: version for path, version in files.items() if version is not None}
    found = asyncio.run(plan_undo(reversals, current, merge))
    writes = found.writes(mode)
    assert set(writes) <= {each.path for each in reversals}
    removed = {path for path, version in writes.items() if version is None}
    for path in removed - set(found.conflicts):  # only files that the author created
        assert any(each.path == path and each.before is None for each in reversals)
    if mode == "keep":
        assert not set(writes) & set(found.conflicts)
