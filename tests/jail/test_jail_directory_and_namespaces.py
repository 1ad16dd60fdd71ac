"""A jail on a directory that only exists in its own namespaces."""

# ruff: noqa: ASYNC240 (reading the host's /proc is fast enough here)

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, NotFound, Unavailable
from hutch.jail.jail_directory_and_namespaces import JailLocation, Namespaces, OpenLocation, to_location
from hutch.jail.jail_startup import open_jail
from hutch.jail.launch.idmapped_mount import mount, own_mount_namespace
from hutch.jail.launch.jail_uid import Identity, claim_identity
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def hidden(workspace: Path) -> Iterator[JailLocation]:
    """A directory with a file `secret` that is not visible from outside."""
    opened = hidden_place(workspace)
    yield opened
    for fd in (opened.namespaces.user, opened.namespaces.mount):
        if fd is not None:
            os.close(fd)
    if opened.identity is not None:
        opened.identity.release()


def hidden_place(directory: Path) -> JailLocation:
    if os.geteuid() != 0:
        script = 'mount -t tmpfs hutch "$1" && echo here > "$1/secret" && echo ready && exec cat'
        holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with holder:
            assert holder.stdout.read(6) == b"ready\n"
            fds = [os.open(f"/proc/{holder.pid}/ns/{name}", os.O_RDONLY) for name in ("user", "mnt")]
            holder.kill()
        return JailLocation(directory, directory, Namespaces(*fds))
    identity = claim_identity()
    made: list[int] = []

    def make() -> None:
        with own_mount_namespace():
            mount("tmpfs", directory, f"uid={identity.uid},gid={identity.gid}")
            (directory / "secret").write_text("here\n")
            made.append(os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return JailLocation(directory, directory, Namespaces(None, made[0]), identity)


def test_a_plain_path_is_used_in_place(workspace: Path) -> None:
    (workspace / "link").symlink_to(workspace)
    there = workspace.resolve()
    assert to_location(workspace / "link") == JailLocation(there, there, is_resolved=True)
    place = JailLocation(workspace, workspace)
    assert to_location(place) is place


def swap_for_link(directory: Path, *, to: Path) -> None:
    directory.rename(directory.with_name("away"))
    directory.symlink_to(to)


async def test_a_directory_that_was_swapped_for_a_link_is_refused(workspace: Path) -> None:
    for name in ("sub", "outside"):
        (workspace / name).mkdir()
    place = to_location(workspace / "sub")
    swap_for_link(workspace / "sub", to=workspace / "outside")
    with pytest.raises(Conflict, match="was replaced by another directory"):
        async with open_jail(place):
            pass


def test_a_jail_must_get_the_directory_that_was_opened(workspace: Path) -> None:
    for name in ("sub", "outside"):
        (workspace / name).mkdir()
    (workspace / "sub" / "own").touch()
    with contextlib.closing(OpenLocation(to_location(workspace / "sub"))) as opened:
        opened.check(workspace / "sub")
        swap_for_link(workspace / "sub", to=workspace / "outside")
        with pytest.raises(Conflict, match="was replaced by another directory"):
            opened.check(workspace / "sub")
        fd = opened.written()  # wherever the name leads now
    assert os.listdir(fd) == ["own"]  # noqa: PTH208
    os.close(fd)


async def test_the_jail_sees_the_directory_and_the_host_does_not(hidden: JailLocation) -> None:
    async with open_jail(hidden) as jail:
        ran = await jail.run(["sh", "-c", "cat secret; echo made > new; stat -c %u new; id -u"])
    word, owner, own = ran.stdout.decode().split()
    assert (word, owner) == ("here", own)
    assert list(hidden.directory.iterdir()) == []


async def test_a_second_jail_sees_the_files_of_the_first(hidden: JailLocation) -> None:
    for number in range(2):
        async with open_jail(hidden) as jail:
            ran = await jail.run(["sh", "-c", f"ls | tr '\\n' ' '; touch made-{number}"])
    assert ran.stdout == b"made-0 secret "


async def test_no_command_is_in_the_outer_namespaces_or_has_their_descriptors(hidden: JailLocation) -> None:
    """A process with a descriptor of the outer namespaces, or in them, could leave the jail."""
    kinds = ("user", "mnt", "pid", "net")
    outer = {_link(Path(f"/proc/self/fd/{fd}")) for fd in _descriptors(hidden)}
    outer |= {_link(Path(f"/proc/self/ns/{kind}")) for kind in kinds}
    async with open_jail(hidden) as jail:
        ran = await jail.run(["sh", "-c", "ls -l /proc/self/fd/ /proc/self/ns/"])
    inside = {line.rpartition("-> ")[2] for line in ran.stdout.decode().splitlines() if "->" in line}
    assert len([each for each in inside if each.startswith(("user:", "mnt:"))]) == 2  # its own
    assert not inside & outer


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may inspect a warden")
async def test_neither_does_the_warden(hidden: JailLocation) -> None:
    async with open_jail(hidden) as jail:
        await jail.run(["true"])
        for pid in (jail.warden_pid, *_children(jail.warden_pid)):
            opened = set()
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # the warden closed it since
                    opened.add(_link(path))
            assert opened and not {each for each in opened if each.startswith(("mnt:", "user:"))}


async def test_the_jail_is_as_bare_as_any_other(hidden: JailLocation, workspace: Path) -> None:
    script = "cat /proc/1/environ; grep -E '^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)' /proc/self/status; ls /"
    result = []
    for place in (hidden, workspace):
        async with open_jail(place) as jail:
            ran = await jail.run(["sh", "-c", script])
            result.append(re.sub(rb"\d{6}", b"uid", ran.stdout))
    assert result[0] == result[1]


async def test_no_new_user_namespace_to_be_had_inside(hidden: JailLocation) -> None:
    async with open_jail(hidden) as jail:
        ran = await jail.run(["unshare", "--user", "--map-root-user", "true"])
    assert ran.exit_code != 0


HOST = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[2])
from tests.jail.test_jail_directory_and_namespaces import hidden_place
from hutch.jail.jail_startup import open_jail
async def main():
    async with open_jail(hidden_place(pathlib.Path(sys.argv[1]))) as jail:
        process = await jail.spawn(["sleep", "8002"])
        print(jail.warden_pid, flush=True)
        await process.wait()
asyncio.run(main())
"""


def test_killing_hutch_ends_its_jail(workspace: Path) -> None:
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", HOST, str(workspace), root]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        warden = int(host.stdout.readline())
        pids = [warden, *_children(warden)]
        host.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_alive, pids))


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's jails are all that user")
async def test_a_borrower_does_not_release_an_identity(hidden: JailLocation) -> None:
    async with open_jail(hidden) as jail:
        await jail.run(["true"])
    assert hidden.identity.claim.fileno() >= 0
    async with open_jail(hidden) as jail:
        assert (await jail.run(["id", "-u"])).stdout.decode().strip() == str(hidden.identity.uid)


async def test_namespaces_that_are_none_are_refused(workspace: Path) -> None:
    fd = os.open("/dev/null", os.O_RDONLY)
    user = None if os.geteuid() == 0 else fd
    with pytest.raises(Unavailable):
        async with open_jail(JailLocation(workspace, workspace, Namespaces(user, fd))):
            pass
    os.close(fd)
    async with open_jail(workspace) as jail:  # and the thread that starts jails is back where it was
        assert (await jail.run(["true"])).exit_code == 0


async def test_layers_cannot_be_used_without_a_jail(hidden: JailLocation) -> None:
    with pytest.raises(Unavailable, match="consists of layers"):
        async with open_jail(hidden, unsafe_no_jail=True):
            pass


async def test_the_measured_directory_must_exist(workspace: Path) -> None:
    with pytest.raises(NotFound, match="There is no directory"):
        async with open_jail(JailLocation(workspace, workspace / "gone")):
            pass


async def test_growth_is_measured_in_the_directory_that_stores_it(workspace: Path, tmp_path: Path) -> None:
    """The watched directory is the one that stores the files, not the one that is visible."""
    from_there = JailLocation(workspace, tmp_path)
    async with open_jail(from_there) as jail:
        await jail.run(["sh", "-c", "head -c 1000000 /dev/zero > grown"])
        assert (workspace / "grown").stat().st_size == 1_000_000
        assert list(tmp_path.iterdir()) == []


async def test_directories_beside_are_visible_at_their_path_and_read_only(workspace: Path) -> None:
    private = workspace / "private"
    (private / "shown").mkdir(parents=True)
    (private / "shown/file").write_text("x\n")
    (private / "shown/file").chmod(0o600)
    private.chmod(0o700)
    (workspace / "work").mkdir()
    place = JailLocation(workspace / "work", workspace / "work", beside=(private / "shown",))
    async with open_jail(place) as jail:
        ran = await jail.run(["sh", "-c", f"cd {private}/shown; cat file; echo y > file; touch new; ls .."])
    assert ran.stdout == b"x\nshown\n" and ran.stderr.count(b"Read-only file system") == 2
    assert (private / "shown/file").read_text() == "x\n"


def test_a_lent_identity_is_the_same_without_the_duty() -> None:
    mine = Identity(1, 2)
    assert mine.lend() == Identity(1, 2, lent=True)
    claimed = claim_identity()
    claimed.lend().release()
    assert claimed.claim is None or claimed.claim.fileno() >= 0
    claimed.release()
    assert claimed.claim is None or claimed.claim.fileno() < 0


def _link(path: Path) -> str:
    return str(path.readlink())


def _descriptors(place: JailLocation) -> list[int]:
    return [fd for fd in (place.namespaces.user, place.namespaces.mount) if fd is not None]


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(NotFound, match="circle"):
        OpenLocation(to_location(tmp_path / "one"))
