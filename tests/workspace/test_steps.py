"""Steps that find something else than was planned, with others at work in the same tree."""

import contextlib
import itertools
import mmap
import os
import signal
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.workspace.changing import close, everything, make_place, opened, sha

from hutch.domain.errors import HutchError
from hutch.workspace.calls import Calls

ROUNDS = 1500


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be had: there are thousands of rounds."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield make_place(tmp_path)
        return
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield make_place(Path(place))


@contextmanager
def swapping(tree: Path, name: str, target: Path) -> Iterator[Callable[[], int]]:
    """A process that keeps exchanging a name for a link that leads out, as one in a jail could."""
    (tree / "swap").symlink_to(target)
    count = mmap.mmap(-1, 8)
    pid = os.fork()
    if pid == 0:
        fd = os.open(tree, os.O_RDONLY)
        for number in itertools.count(1):
            with contextlib.suppress(OSError):  # the host may have taken it away for a moment
                Calls().exchange(fd, "swap", fd, name)
                if not ((tree / "swap").is_symlink() or (tree / name).is_symlink()):  # it came between
                    (tree / "swap").unlink()
                    (tree / "swap").symlink_to(target)
            count[:] = struct.pack("q", number)
    try:
        yield lambda: struct.unpack("q", count[:])[0]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_plain_open_is_led_outside(tree: Path) -> None:
    """The control: what the others here defend against does happen."""
    outside = tree.parent / "outside"
    (outside / "c").write_bytes(b"outside")
    with swapping(tree, "src", outside):
        for number in itertools.count():
            (tree / "src/c").write_bytes(b"inside")
            if (outside / "c").read_bytes() != b"outside":
                break
            assert number < 2_000_000


@pytest.mark.parametrize("what", ["directory", "file"])
def test_nothing_outside_is_touched_while_links_are_swapped_in(tree: Path, what: str) -> None:
    outside = tree.parent / "outside"
    (outside / "deep").mkdir()
    for name in ("c", "new", "victim", "deep/d"):
        (outside / name).write_bytes(b"outside")
    before = everything(outside)
    files = opened(tree)
    target = outside if what == "directory" else outside / "c"
    done = failed = 0
    with swapping(tree, "src" if what == "directory" else "src/c", target) as rounds:
        number = 0
        while number < ROUNDS or rounds() < ROUNDS:
            number += 1
            for work in (
                lambda number=number: files.write("src/c", b"%d" % number),
                lambda: files.create("src/new", b"new"),
                lambda: files.move("src/new", "src/victim", replace=True),
                lambda: files.delete("src/victim"),
                lambda: files.read_bytes("src/c"),
                lambda: files.make_directory("src/made"),
                lambda: files.delete("src/made"),
            ):
                try:
                    work()
                    done += 1
                except HutchError:
                    failed += 1
    close(files)
    assert everything(outside) == before
    assert done > ROUNDS / 10
    assert failed > ROUNDS / 10


def test_what_comes_at_the_last_moment_is_not_overwritten(tree: Path) -> None:
    """Somebody in the jail, who knows of no lock, adds lines to a file that we keep emptying."""
    place, new = tree / "log", tree / "log.new"
    place.write_bytes(b"")
    files = opened(tree)
    stop = threading.Event()
    added: list[bytes] = []

    def add() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            new.write_bytes(place.read_bytes() + b"%d\n" % number)
            new.rename(place)
            added.append(b"%d" % number)

    other = threading.Thread(target=add)
    other.start()
    taken: set[bytes] = set()
    emptied = conflicts = 0
    try:
        while emptied < 100 or conflicts < 20:
            data, _ = files.read_bytes("log")
            try:
                files.write("log", b"", if_hash=sha(data))
                taken.update(data.split())
                emptied += 1
            except HutchError:
                conflicts += 1
    finally:
        stop.set()
        other.join()
    assert set(added) == taken | set(place.read_bytes().split())
    assert not list((tree.parent / "journal").iterdir())
    close(files)


def test_of_two_editors_exactly_one_wins_each_round(tree: Path) -> None:
    rounds = 300
    place = tree / "a"
    barrier = threading.Barrier(2)
    wins: list[list[bool]] = [[], []]

    def edit(who: int) -> None:
        files = opened(tree)
        for _ in range(rounds):
            data, _ = files.read_bytes("a")
            barrier.wait()  # both have seen the same
            try:
                files.write("a", data + b"%d" % who, if_hash=sha(data))
                wins[who].append(True)
            except HutchError:
                wins[who].append(False)
            barrier.wait()
        close(files)

    place.write_bytes(b"")
    threads = [threading.Thread(target=edit, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [first + second for first, second in zip(*wins, strict=True)] == [1] * rounds
    expected = b"".join(b"0" if first else b"1" for first in wins[0])
    assert place.read_bytes() == expected


def test_a_hard_link_is_no_way_to_alter_something_else(tree: Path) -> None:
    outside = tree.parent / "outside/secret"
    os.link(outside, tree / "hard")
    files = opened(tree)
    change = files.write("hard", b"mine")
    assert (change.before, change.after) == (sha(b"secret"), sha(b"mine"))
    assert outside.read_bytes() == b"secret"
    assert outside.stat().st_nlink == 1
    close(files)
