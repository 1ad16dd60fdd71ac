"""The snapshots around a change have the versions that an undo leads back to."""

from pathlib import Path

import pytest

from hutch.domain.events import FileChanged, FilesChanged
from hutch.sessions.changes_to_undo import Change, TargetChange, UndoTarget
from hutch.sessions.undo_file_version_reader import is_work
from hutch.sessions.undo_planning import Reversal
from hutch.sessions.undo_target_versions import Reversals, read_reversals
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.path_version_restore import SnapshotVersions
from hutch.snapshots.snapshot import Content, Snapshots


class Place:
    def __init__(self, path: Path) -> None:
        self.tree = path / "tree"
        self.tree.mkdir(parents=True)
        (path / "store").mkdir()
        self.snapshots = Snapshots(path / "store")

    def take(self, **files: str | None) -> int:
        """Write files, or remove them, then take a snapshot."""
        for name, text in files.items():
            path = self.tree / name.replace("__", "/")
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        with Directory.at(self.tree) as directory:
            return self.snapshots.take(Content(directory), "test").id

    def read(
        self, target: list[TargetChange], recorded: list[Change], *, first: int = 0, last: int = 0
    ) -> Reversals:
        run_id = "run_1" if last else ""
        about = UndoTarget("it", tuple(target), run_id=run_id, first=first, last=last)
        return read_reversals(self.snapshots, about, recorded, lambda path: path.replace("secret", "…"))

    def reversal(self, path: str, old: int, new: int, *, is_clear: bool = True) -> Reversal[object]:
        before, after = (SnapshotVersions(self.snapshots, each).version(path) for each in (old, new))
        return Reversal(path, before, after, is_clear=is_clear)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def changed(path: str, old: int, new: int, by: str = "agent", **more: object) -> FileChanged:
    fields = {"kind": "modified", "previous_snapshot": old, "snapshot": new, "by": by, **more}
    return FileChanged.model_validate({"path": path, **fields})


def test_a_path_with_a_secret_is_found_by_its_name_in_the_log(place: Place) -> None:
    place.take(**{"a-secret": "old"})
    place.take(**{"a-secret": "new"})
    event = changed("a-…", 1, 2)
    found = place.read([TargetChange(1, event)], [event])
    assert found.changes == [place.reversal("a-secret", 1, 2)]


def test_a_summary_has_the_files_that_are_not_listed(place: Place) -> None:
    place.take(a="a", **{".gitignore": "ignored\n"})
    place.take(a="agent", b="agent", mine="ada", ignored="agent")
    mine, summary = changed("mine", 1, 2, "ada"), {"by": "agent", "previous_snapshot": 1, "snapshot": 2}
    counted, ignored = FilesChanged(**summary), FilesChanged(**summary, ignored=True)
    found = place.read([TargetChange(1, counted)], [mine, counted, ignored])
    assert found.changes == [place.reversal(path, 1, 2) for path in ("a", "b")]
    found = place.read([TargetChange(1, ignored)], [mine, counted, ignored])
    assert found.changes == [place.reversal("ignored", 1, 2)]


def test_summaries_of_two_authors_are_not_clear(place: Place) -> None:
    place.take(a="a")
    place.take(b="b", c="c")
    summaries = [FilesChanged(by=by, previous_snapshot=1, snapshot=2) for by in ("agent", "ada")]
    found = place.read([TargetChange(1, summaries[0])], [*summaries])
    assert found.changes == [place.reversal(path, 1, 2, is_clear=False) for path in ("b", "c")]


def test_differences_that_the_log_does_not_mention_are_nobodys(place: Place) -> None:
    """So are all changes in the log of an earlier version, which names no snapshots."""
    place.take(a="a", old="old")
    place.take(a="agent", mine="ada")
    place.take(old=None)
    legacy = FileChanged(path="a", kind="modified", call_id="c1")
    found = place.read([TargetChange(1, legacy)], [legacy, changed("mine", 1, 2, "ada")], first=1, last=3)
    assert found.changes == [place.reversal(path, 1, 3, is_clear=False) for path in ("a", "old")]


def test_a_change_that_others_continued_before_its_snapshot_is_not_clear(place: Place) -> None:
    place.take(a="a")
    place.take(a="agent, then ada")
    mine, theirs = changed("a", 1, 0), changed("a", 1, 2, "ada")
    found = place.read([TargetChange(1, mine)], [mine, theirs])
    assert found.changes == [place.reversal("a", 1, 2, is_clear=False)]


def test_changes_whose_snapshot_was_deleted_are_gone(place: Place) -> None:
    place.take(a="a")
    place.take(a="agent")
    place.snapshots.delete([1])
    events = [changed("a", 1, 2), FilesChanged(directories={"build": 3}, previous_snapshot=1, snapshot=2)]
    found = place.read([TargetChange(1, each) for each in events], events)
    assert found.changes == [Reversal(path, None, None, is_stored=False) for path in ("a", "build/")]


def test_directories_that_were_made_and_removed_are_noted(place: Place) -> None:
    place.take(old__a="a")
    (place.tree / "old").chmod(0o700)
    place.take(old__a="a2")
    (place.tree / "old/a").unlink()
    (place.tree / "old").rmdir()
    place.take(new__below__b="b")
    events: list[Change] = [changed("old/a", 2, 3), changed("new/below/b", 2, 3)]
    found = place.read([TargetChange(1, each) for each in events], events)
    assert (found.made, found.directories) == ({"new", "new/below"}, {"old": 0o700})


def test_a_file_without_a_name_before_the_first_snapshot_is_new(place: Place) -> None:
    place.take(a="a")
    event = changed("a", 0, 1)
    [found] = place.read([TargetChange(1, event)], [event]).changes
    assert (found.before, found.after is None) == (None, False)


@pytest.mark.parametrize(
    ("path", "is_ignored", "expected"),
    [
        ("a.py", False, True),
        ("build/a", True, True),
        ("a/__pycache__/b.pyc", True, False),
        ("a/__pycache__/b.pyc", False, True),
        (".git/config", True, True),
        (".git/refs/heads/main", True, True),
        (".git/index", True, True),
        (".git/objects/aa/bb", True, False),
        (".git/logs/HEAD", True, False),
        (".git/refs/heads/objects", True, True),
        (".git/modules/sub/objects/aa/bb", True, False),
        (".git/modules/sub/config", True, True),
        ("sub/.git/COMMIT_EDITMSG", True, False),
    ],
)
def test_caches_and_bookkeeping_are_nobodys_work(path: str, is_ignored: bool, expected: bool) -> None:
    assert is_work(path, is_ignored=is_ignored) == expected
