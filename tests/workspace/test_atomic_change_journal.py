"""All of a change or nothing, wherever it is stopped."""

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, HutchError, Unavailable
from hutch.edit.file_operation_types import Delete, Move, Write
from hutch.workspace.files.atomic_change_journal import STAGING_PREFIX
from hutch.workspace.files.file_reads_and_changes import Files
from tests.workspace.file_change_helpers import (
    CODES,
    Failing,
    close,
    everything,
    failure,
    killed,
    make_place,
    opened,
    sha,
)

Work = Callable[[Files], object]
InChild = Callable[..., int]
OPERATIONS = [
    Write("a", b"ALPHA\n", None, sha(b"alpha\n")),
    Write("new/dir/file", b"new\n", 0o700, None),
    Move("b", "src/deep/b", None, sha(b"beta\n")),
    Move("src/deep/d", "moved", b"DELTA\n", sha(b"delta\n" * 1000)),
    Delete("src/c", sha(b"gamma\n")),
    Write("b", b"another b\n", None, None),
]
WORKS: dict[str, Work] = {
    "change": lambda files: files.change(OPERATIONS),
    "write": lambda files: files.write("a", b"ALPHA\n"),
    "create": lambda files: files.create("new/dir/file", b"new\n"),
    "move": lambda files: files.move("src", "elsewhere/src"),
    "replace": lambda files: files.move("a", "b", replace=True),
    "delete": lambda files: files.delete("src/c"),
    "delete-link": lambda files: files.delete("link"),
    "make": lambda files: files.make_directory("x/y/z"),
}


@pytest.fixture(params=["beside", "inside"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Content waits in the journal, or in the tree as where that is a mount of its own."""
    tree = make_place(tmp_path)
    if request.param == "inside":
        (tmp_path / "inside").touch()
    return tree


def files_of(tree: Path, calls: Failing | None = None) -> Files:
    files = opened(tree, calls)
    files.journal.is_beside = not (tree.parent / "inside").exists()
    return files


def attempt(tree: Path, work: str, calls: Failing) -> tuple[HutchError | None, int]:
    """Do it with these calls; the error, and how many calls there were."""
    files = files_of(tree, calls)
    try:
        WORKS[work](files)
    except HutchError as error:
        return error, calls.made
    finally:
        close(files)
    return None, calls.made


def killed_at(number: int, tree: Path, work: str) -> None:
    attempt(tree, work, Failing(number, killed))


def killed_when_made(tree: Path) -> None:
    attempt(tree, "change", KilledWhenMade())


def undo_killed_at(number: int, tree: Path) -> None:
    close(files_of(tree, Failing(number, killed)))


def die_inside(tree: Path) -> None:
    with files_of(tree).exclusive():
        killed()


def seen(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything, but the time of the top directory where content waits in it."""
    found = everything(tree)
    if (tree.parent / "inside").exists() and tree.name == "tree":
        del found["."]
    return found


class KilledWhenMade(Failing):
    """Killed when all steps are made and only the plan has to go."""

    def __init__(self) -> None:
        super().__init__(0, killed)

    def unlink(self, fd: int, name: str) -> None:
        killed()


def left(tree: Path) -> list[str]:
    return [path.name for path in [*(tree.parent / "journal").iterdir(), *tree.glob(f"{STAGING_PREFIX}*")]]


@pytest.fixture(params=sorted(WORKS))
def work(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_change_does_what_it_says(tree: Path) -> None:
    files = files_of(tree)
    changes = files.change(OPERATIONS)
    close(files)
    kept = {name: about[:2] for name, about in everything(tree).items() if name != "."}
    assert kept == {
        "a": (b"ALPHA\n", "0o100755"),
        "b": (b"another b\n", "0o100644"),
        "link": ("src/c", "0o120777"),
        "moved": (b"DELTA\n", "0o100644"),
        "new": (None, "0o40755"),
        "new/dir": (None, "0o40755"),
        "new/dir/file": (b"new\n", "0o100700"),
        "src": (None, "0o40755"),
        "src/deep": (None, "0o40755"),
        "src/deep/b": (b"beta\n", "0o100644"),
    }
    assert [(change.path, change.kind) for change in changes] == [
        ("a", "modified"),
        ("new/dir/file", "created"),
        ("src/deep/b", "moved"),
        ("moved", "moved"),
        ("src/c", "deleted"),
        ("b", "created"),
    ]
    assert left(tree) == []


@pytest.mark.parametrize("code", CODES, ids=[errno.errorcode[code] for code in CODES])
def test_when_any_call_fails_all_is_as_before(tree: Path, work: str, code: int) -> None:
    before = seen(tree)
    for number in range(1, 200):
        error, made = attempt(tree, work, Failing(number, failure(code)))
        if made < number:
            break  # there are no more calls
        if error is not None:
            assert seen(tree) == before, f"call {number}: {error}"
        else:  # it failed to clean up, which the next one does
            close(files_of(tree))
            assert seen(tree) != before
            return
        assert left(tree) == []
    assert number > 3


@pytest.mark.parametrize(
    "code",  # `make test` tries one, `make soak` all: no step treats one of these in its own way
    [
        pytest.param(code, marks=pytest.mark.soak if number else (), id=errno.errorcode[code])
        for number, code in enumerate(CODES)
    ],
)
def test_when_undoing_fails_too_the_next_one_finishes_it(tree: Path, work: str, code: int) -> None:
    """A disk that fails until the workspace is opened with a good one."""
    before = seen(tree)
    stuck = 0
    for number in range(1, 200):
        error, made = attempt(tree, work, Failing(number, failure(code), maximum=10_000))
        if made < number or error is None:
            break
        stuck += isinstance(error, Unavailable) and "not be undone yet" in str(error)
        close(files_of(tree))
        assert seen(tree) == before, f"call {number}: {error}"
        assert left(tree) == []
    assert stuck > 0


def test_when_killed_at_any_call_the_next_one_undoes_it(tree: Path, work: str, in_child: InChild) -> None:
    before = seen(tree)
    for number in range(1, 200):
        status = in_child(killed_at, number, tree, work)
        if os.WIFEXITED(status):
            break  # it came to its end
        assert os.WTERMSIG(status) == signal.SIGKILL
        close(files_of(tree))
        assert left(tree) == []
        if seen(tree) != before:  # killed when it was done and only had to clean up
            return
    assert os.WEXITSTATUS(status) == 0
    assert number > 3


def test_when_killed_while_undoing_the_next_one_still_does(tree: Path, in_child: InChild) -> None:
    """Killed in the middle of a change, then at every call of undoing it."""
    before = seen(tree)
    deepest = 0
    for number in range(22, 90, 9):
        for again in range(1, 100):
            status = in_child(killed_at, number, tree, "change")
            if os.WIFEXITED(status):
                return
            undone = in_child(undo_killed_at, again, tree)
            close(files_of(tree))
            if seen(tree) != before:
                assert deepest > 5
                return  # the change was done already
            assert left(tree) == []
            if os.WIFEXITED(undone):
                break
            deepest = max(deepest, again)
    assert deepest > 5


def test_the_error_says_which_step_failed(tree: Path) -> None:
    errors = set()
    for number in range(1, 200):
        error, made = attempt(tree, "change", Failing(number, failure(errno.ENOSPC)))
        if made < number or error is None:
            break
        errors.add(str(error))
    text = "\n".join(errors)
    for step in (
        "taking away 'b'",
        "replacing 'a'",
        "making the directory 'new/dir'",
        "writing 'new/dir/file'",
    ):
        assert f"Nothing was changed, since {step} failed." in text
    assert "No space for" in text


def test_the_staging_directory_in_the_tree_does_not_show(tmp_path: Path) -> None:
    tree = make_place(tmp_path)
    (tmp_path / "inside").touch()
    files = files_of(tree)
    shown: list[list[str]] = []

    class Looking(Failing):
        """Lists the tree at every call."""

    calls = Looking(1, lambda: shown.append(names(files)), maximum=1000)
    changing = files_of(tree, calls)
    changing.change(OPERATIONS)
    assert len(shown) > 20
    assert not [name for found in shown for name in found if name.startswith(STAGING_PREFIX)]
    (tree / f"{STAGING_PREFIX}{'0' * 32}").mkdir()  # a name of that kind that is none of ours is shown
    assert f"{STAGING_PREFIX}{'0' * 32}" in names(files)
    close(files)
    close(changing)


def names(files: Files) -> list[str]:
    return [entry.path for entry in files.list_directory(recursive=True).entries]


def test_later_work_of_others_survives_an_undo(tree: Path, in_child: InChild) -> None:
    """Between a crash and the undo, a command may have written to the same place."""
    in_child(killed_when_made, tree)
    assert (tree / "a").read_bytes() == b"ALPHA\n"
    (tree / "a").unlink()
    (tree / "a").write_bytes(b"theirs\n")
    (tree / "src/c").write_bytes(b"theirs too\n")
    close(files_of(tree))
    assert (tree / "a").read_bytes() == b"theirs\n"
    assert (tree / "src/c").read_bytes() == b"theirs too\n"
    assert (tree / "b").read_bytes() == b"beta\n"
    assert left(tree) == []


def test_an_undo_makes_directories_anew_that_went_meanwhile(tree: Path, in_child: InChild) -> None:
    in_child(killed_when_made, tree)
    (tree / "src").rename(tree.parent / "gone")
    close(files_of(tree))
    assert (tree / "src/c").read_bytes() == b"gamma\n"


@pytest.mark.parametrize("trap", ["src", "src/deep", "a", "b", "new"])
def test_an_undo_cannot_be_led_outside(tree: Path, trap: str, in_child: InChild) -> None:
    """Every name that an undo touches is swapped for a link that leads out."""
    outside = tree.parent / "outside"
    (outside / "deep").mkdir()
    for name in ("c", "deep/d", "deep/b", "dir"):
        (outside / name).write_bytes(b"outside")
    before = seen(outside)
    for number in range(20, 90, 2):
        status = in_child(killed_at, number, tree, "change")
        if os.WIFEXITED(status):
            break
        place = tree / trap
        if place.is_dir():
            place.rename(tree.parent / f"aside{number}")
        else:
            place.unlink(missing_ok=True)
        place.symlink_to(outside if trap != "a" else outside / "secret")
        close(files_of(tree))
        assert seen(outside) == before
        place.unlink()
        for path in tree.iterdir():
            path.rename(tree.parent / f"{path.name}-{number}")
        rebuild(tree)


def rebuild(tree: Path) -> None:
    for name, content in {"a": b"alpha\n", "b": b"beta\n", "src/c": b"gamma\n"}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "src/deep").mkdir()
    (tree / "src/deep/d").write_bytes(b"delta\n" * 1000)


def test_a_plan_that_never_reached_the_disk_is_no_plan(tree: Path) -> None:
    before = seen(tree)
    entry = tree.parent / "journal" / ("f" * 32)
    entry.mkdir()
    (entry / "plan").write_bytes(b"")
    (entry / "1").write_bytes(b"content that waited")
    close(files_of(tree))
    assert seen(tree) == before
    assert left(tree) == []


def test_only_one_changes_at_a_time(tree: Path) -> None:
    first, second = files_of(tree), files_of(tree)
    other = threading.Thread(target=lambda: second.write("a", b"second\n"))
    with first.exclusive():
        other.start()
        other.join(0.2)  # it would be done by then, were it let
        assert (tree / "a").read_bytes() == b"alpha\n"
    other.join()
    assert (tree / "a").read_bytes() == b"second\n"
    with pytest.raises(Conflict):
        first.write("a", b"first\n", if_hash=sha(b"alpha\n"))
    close(first)
    close(second)


def test_a_killed_writer_leaves_no_lock(tree: Path, in_child: InChild) -> None:
    assert os.WTERMSIG(in_child(die_inside, tree)) == signal.SIGKILL
    with files_of(tree).exclusive():
        pass
