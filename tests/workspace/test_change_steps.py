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

from hutch.domain.errors import Conflict, HutchError
from hutch.workspace.files.file_change_syscalls import Syscalls
from tests.workspace.file_change_helpers import close, everything, make_place, opened, sha

ROUNDS = [500, pytest.param(5000, marks=pytest.mark.soak)]


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
                Syscalls().exchange(fd, "swap", fd, name)
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


@pytest.mark.long
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("what", ["directory", "file"])
def test_nothing_outside_is_touched_while_links_are_swapped_in(tree: Path, what: str, rounds: int) -> None:
    outside = tree.parent / "outside"
    (outside / "deep").mkdir()
    for name in ("c", "new", "victim", "deep/d"):
        (outside / name).write_bytes(b"outside")
    before = everything(outside)
    files = opened(tree)
    target = outside if what == "directory" else outside / "c"
    done = failed = 0
    with swapping(tree, "src" if what == "directory" else "src/c", target) as swapped:
        number = 0
        while number < rounds or swapped() < rounds or min(done, failed) < 100:
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


class Late(Syscalls):
    """Another process acts after a file was checked and right before it is exchanged or removed."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do

    def exchange(self, fd: int, name: str, to_fd: int, to_name: str) -> None:
        if name.isdigit() and self.do is not None:
            do, self.do = self.do, None
            do()
        super().exchange(fd, name, to_fd, to_name)

    def rename(self, fd: int, name: str, to_fd: int, to_name: str) -> None:
        if to_name.isdigit() and self.do is not None:
            do, self.do = self.do, None
            do()
        super().rename(fd, name, to_fd, to_name)


def put_another(place: Path) -> None:
    (place.parent / "new").write_bytes(b"theirs")
    (place.parent / "new").rename(place)


def write_into(place: Path) -> None:
    """Into the same file, the same number of bytes, and hide it by setting the times back."""
    at = place.stat()
    with place.open("r+b") as file:
        file.write(b"THEIRS")
    os.utime(place, ns=(at.st_atime_ns, at.st_mtime_ns))


def put_a_directory(place: Path) -> None:
    place.unlink()
    place.mkdir()
    (place / "theirs").touch()


def put_a_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("../outside/secret")


@pytest.mark.parametrize("do", [put_another, write_into, put_a_directory, put_a_link, Path.unlink])
@pytest.mark.parametrize("work", ["write", "delete", "move"])
def test_what_comes_at_the_very_last_moment_stays(
    tree: Path, do: Callable[[Path], object], work: str
) -> None:
    outside = everything(tree.parent / "outside")
    expected = make_place(tree.parent / "expected")
    do(expected / "a")
    files = opened(tree, Late(lambda: do(tree / "a")))
    with pytest.raises(HutchError, match=r"Nothing was changed, since .* 'a' failed"):
        {
            "write": lambda: files.write("a", b"ours", if_hash=sha(b"alpha\n")),
            "delete": lambda: files.delete("a"),
            "move": lambda: files.move("a", "b", replace=True),
        }[work]()
    close(files)
    assert contents(tree) == contents(expected)
    assert everything(tree.parent / "outside") == outside


def contents(tree: Path) -> dict[str, tuple[object, ...]]:
    return {name: about[:2] for name, about in everything(tree).items()}


def test_what_comes_at_the_last_moment_is_not_overwritten(tree: Path) -> None:
    """A process in the jail, without a lock, changes a file twice in a row while we replace it."""
    rounds = 250
    place = tree / "file"
    place.write_bytes(b"")

    def put(content: bytes) -> None:
        (tree / "file.new").write_bytes(content)
        (tree / "file.new").rename(place)

    def other() -> None:
        theirs = opened(tree)
        for number in range(rounds):
            while True:
                with theirs.exclusive():  # so that it is really we who emptied it, for good
                    if place.read_bytes() == b"":
                        break
            put(b"%d first" % number)
            put(b"%d" % number)

    files = opened(tree)
    seen: set[bytes] = set()
    pid = os.fork()
    if pid == 0:
        other()
        os._exit(0)
    while (data := files.read_bytes("file")[0]) != b"%d" % (rounds - 1):
        if data:
            with contextlib.suppress(Conflict):
                files.write("file", b"", if_hash=sha(data))
                seen.add(data)
    assert os.waitpid(pid, 0)[1] == 0
    assert not {b"%d" % number for number in range(rounds - 1)} - seen
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
