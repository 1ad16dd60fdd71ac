"""Kills a process that takes, restores or collects snapshots, and checks the result.

Usage: DIRECTORY ROUNDS SEED WHAT

Each round forks a process that does it repeatedly, and reports through a pipe which
snapshots it made. It is killed with SIGKILL at a random moment. Then every reported
snapshot must exist with its content, everything listed must pass git's own check, and
the next snapshot can be taken.
"""

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hutch.forge.host_git import Git
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.garbage_collection import collect
from hutch.snapshots.restore import restore
from hutch.snapshots.snapshot import Content, Snapshots
from hutch.snapshots.snapshot_tree_layout import Branch, Leaf, read_items

LIMITS = SnapshotLimits(large_bytes=20_000)


def opened(place: Path) -> Snapshots:
    return Snapshots(place, limits=LIMITS)


def work(place: Path, what: str, seed: int, pipe: int) -> None:
    rng = random.Random(seed)
    snapshots = opened(place)
    with Directory.at(place / "tree") as directory:
        content = Content(directory)
        os.write(pipe, b"ready\n")
        while True:
            for _ in range(3):
                name = place / "tree" / f"d{rng.randrange(4)}" / f"f{rng.randrange(8)}"
                name.parent.mkdir(exist_ok=True)
                name.write_bytes(rng.randbytes(rng.choice((10, 1000, 30_000))))
            taken = snapshots.take(content, "killed?")
            os.write(pipe, b"%d %s\n" % (taken.id, taken.commit.encode()))
            numbers = [each.id for each in snapshots.list()]
            if what == "restore" and rng.random() < 0.5:
                restore(snapshots, content, rng.choice(numbers))
            if what == "collect":
                if len(numbers) > 6:
                    gone = rng.sample(numbers, 2)
                    os.write(pipe, b"".join(b"-%d\n" % number for number in gone))
                    snapshots.delete(gone)
                asyncio.run(collect(Git({"PATH": os.defpath}), snapshots.storage))


def parse_lines(lines: list[bytes]) -> dict[int, str]:
    """The snapshots that must exist: all that were returned, except those about to be deleted."""
    there: dict[int, str] = {}
    for line in lines:
        if line.startswith(b"-"):
            there.pop(int(line[1:]), None)
        elif line != b"ready":
            number, commit = line.split(b" ")
            there[int(number)] = commit.decode()
    return there


def contents(snapshots: Snapshots, branch: Branch) -> Iterator[bytes]:
    for item in read_items(snapshots.storage.objects, branch).values():
        if isinstance(item, Branch):
            yield from contents(snapshots, item)
        elif isinstance(item, Leaf):
            hasher = hashlib.sha1(usedforsecurity=False)
            data = b"".join(snapshots.storage.objects.chunks(item.name))
            hasher.update(b"blob %d\0" % len(data) + data)
            assert hasher.digest() == item.name
            yield data


def check(place: Path, must: dict[int, str]) -> int:
    snapshots = opened(place)
    listed = {each.id: each.commit for each in snapshots.list()}
    assert must.items() <= listed.items(), (must, listed)
    for each in snapshots.list():
        assert sum(1 for _ in contents(snapshots, snapshots.storage.top(each))) > 0
    ran = subprocess.run(
        ["git", "--git-dir", snapshots.storage.git_dir, "fsck", "--full", "--strict", "--no-dangling"],
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran
    with Directory.at(place / "tree") as directory:
        taken = snapshots.take(Content(directory), "after the crash")
        assert snapshots.list()[-1] == taken
    return len(listed)


def main(place: Path, rounds: int, seed: int, what: str) -> None:
    rng = random.Random(seed)
    (place / "tree").mkdir(parents=True, exist_ok=True)
    (place / "tree" / "first").write_bytes(b"no snapshot is empty, however soon its process is killed")
    must: dict[int, str] = {}
    for number in range(rounds):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reading)
                work(place, what, seed + number, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.readline() == b"ready\n"
            time.sleep(rng.random() * 0.3)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            lines = [line for line in pipe.read().split(b"\n") if line]
        old = [b"%d %s" % (known, commit.encode()) for known, commit in must.items()]
        must = parse_lines(old + lines)
        check(place, must)
        must = {each.id: each.commit for each in opened(place).list()}
    print(f"{rounds} rounds, {len(must)} snapshots")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
