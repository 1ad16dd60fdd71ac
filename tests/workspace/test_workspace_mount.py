"""A workspace in layers: changes by a jail never reach the base, nor anything else."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.user_given_starter_files import StarterFile
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.shared_base_checkout import tree_path
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount, open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from tests.forked_command import PLAIN
from tests.forked_command import run as run_forked
from tests.workspace.preparation_fixtures import (
    HOST,
    MEMORY,
    OVERLAY,
    content,
    fingerprint,
    make_home,
    make_project,
)

pytestmark = pytest.mark.anyio

SPACE = "trusted" if os.geteuid() == 0 else "user"  # where overlayfs keeps its notes


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
async def record(home: Home, tmp_path: Path) -> Record:
    make_project(tmp_path / "project")
    made = await prepare(home, "w", tmp_path / "project", git=HOST, options=OVERLAY)
    assert made.mode == "overlay"
    return made


def base_of(home: Home, record: Record) -> Path:
    return tree_path(home, record.base)


def read(opened: WorkspaceMount, path: str) -> bytes:
    fd = opened.directory.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


async def run(opened: WorkspaceMount, script: str, program: str = "sh") -> str:
    async with open_jail(opened.place) as jail:
        ran = await jail.run(["sh" if program == "sh" else "python3", "-c", script])
    assert ran.exit_code == 0, ran.stderr.decode()
    return ran.stdout.decode()


async def test_host_and_jail_see_one_tree(home: Home, record: Record, tmp_path: Path) -> None:
    opened = await open_workspace(home, "w")
    assert read(opened, "README.md") == b"# A project\n"
    result = await run(opened, "cat README.md; echo new > made; echo more >> README.md; rm -r src")
    assert result == "# A project\n"
    assert read(opened, "made") == b"new\n"
    assert read(opened, "README.md") == b"# A project\nmore\n"
    assert not opened.directory.exists("src")
    fd = opened.directory.open("by-host", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"hi\n")
    opened.directory.set_owner(fd)
    os.close(fd)
    assert await run(opened, "cat by-host; echo x >> by-host") == "hi\n"
    opened.close()
    assert list((home.workspace("w") / "tree").iterdir()) == []  # nothing of it shows on the host


async def test_it_is_all_there_after_closing_and_opening(home: Home, record: Record) -> None:
    opened = await open_workspace(home, "w")
    await run(opened, "echo new > made; rm README.md; mkdir -p src/x; chmod 700 src; mv data moved")
    opened.close()
    again = await open_workspace(home, "w")
    assert read(again, "made") == b"new\n"
    assert not again.directory.exists("README.md") and not again.directory.exists("data")
    assert len(read(again, "moved/large.bin")) == 200_000
    assert again.directory.stat("src").st_mode & 0o777 == 0o700
    result = await run(again, "id -u; stat -c %u made src . moved/large.bin; echo y >> made; touch src/x/y")
    assert len(set(result.split())) == 1  # whoever the jail is now, the files are its own
    again.close()
    third = await open_workspace(home, "w")
    assert await run(third, "echo back > README.md; mkdir data; ls data; rm made; rm -r src; ls") == (
        "README.md\ndata\nmoved\nwith space\n"
    )
    third.close()


async def test_what_the_base_has_is_never_changed(home: Home, record: Record) -> None:
    before = fingerprint(base_of(home, record))
    opened = await open_workspace(home, "w")
    await run(
        opened,
        "git commit -qam x 2>&1; echo over > README.md; chmod 000 src/main.py; chmod 777 src\n"
        "touch -d 2001-01-01 data/large.bin\n"
        "truncate -s 5 data/large.bin; mv src/deep src/moved; ln README.md hard; echo through >> hard\n"
        "mkdir tmp; mv 'with space' tmp/; git gc -q; chmod -R a-w . ; chmod -R u+w .\n"
        "ln -s /etc/passwd link; cp -a src copy; rm -rf src .git; rm -rf ./* ./.[a-z]*; ls -A",
    )
    opened.close()
    assert fingerprint(base_of(home, record)) == before
    again = await open_workspace(home, "w")
    assert os.listdir(f"/proc/self/fd/{again.directory.fd}") == []  # noqa: PTH208
    again.close()


ROUND_THE_BACK = """
import ctypes, fcntl, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
FICLONE, FS_IOC_SETFLAGS, FS_IOC_SETVERSION = 0x40049409, 0x40086602, 0x40087602
def attempt(what):
    try:
        what()
    except OSError as error:
        print(what.__name__, error.errno)
open("mine", "wb").write(b"m" * 8192)
def direct():
    fd = os.open("data/large.bin", os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, 4096)
    page.write(b"x" * 4096)
    os.writev(fd, [page])
def reader_made_writer():
    fd = os.open("README.md", os.O_RDONLY)
    os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), b"x")
def shared_map():
    fd = os.open("src/main.py", os.O_RDWR)
    mmap.mmap(fd, 0)[0] = 1
def map_of_a_reader():
    fd = os.open("src/deep/er/module.py", os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, 4096, 1, 1, fd, 0)  # shared, to be read
    if libc.mprotect(ctypes.c_void_p(at), 4096, 3):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.memset(at, 0, 1)
def cloned_over():
    fcntl.ioctl(os.open("README.md", os.O_RDWR), FICLONE, os.open("mine", os.O_RDONLY))
def flags():
    fcntl.ioctl(os.open("README.md", os.O_RDONLY), FS_IOC_SETFLAGS, (16).to_bytes(8, "little"))
def version():
    fcntl.ioctl(os.open("README.md", os.O_RDONLY), FS_IOC_SETVERSION, (7).to_bytes(8, "little"))
def ranged():
    os.copy_file_range(os.open("mine", os.O_RDONLY), os.open("data/large.bin", os.O_RDWR), 4096)
def linked():
    os.link("README.md", "again")
    open("again", "a").write("through a link")
def linked_by_descriptor():
    fd = os.open("src/main.py", os.O_RDONLY)
    os.link(f"/proc/self/fd/{fd}", "third", follow_symlinks=True)
    open("third", "a").write("x")
def exchanged():
    if libc.renameat2(-100, b"README.md", -100, b"mine", 2):
        raise OSError(ctypes.get_errno(), "renameat2")
def nameless():
    fd = os.open("src", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"x")
    os.link(f"/proc/self/fd/{fd}", "src/named", follow_symlinks=True)
def by_handle():
    handle = (ctypes.c_uint * 40)(128, 0)
    mount_id = ctypes.c_int()
    if libc.name_to_handle_at(-100, b"README.md", handle, ctypes.byref(mount_id), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    if libc.open_by_handle_at(os.open(".", os.O_RDONLY), handle, os.O_RDWR) < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
def whiteout():
    os.mknod("gone", 0o020000, 0)
def owner():
    os.chown("README.md", 0, 0)
def times():
    os.utime("data", (1, 1))
def punched():
    if libc.fallocate(os.open("data/large.bin", os.O_RDWR), 3, ctypes.c_long(0), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), "fallocate")
for each in (direct, reader_made_writer, shared_map, map_of_a_reader, cloned_over, flags, version, ranged,
             linked, linked_by_descriptor, exchanged, nameless, by_handle, whiteout, owner, times, punched):
    attempt(each)
"""


async def test_no_way_round_the_back_reaches_the_base(home: Home, record: Record) -> None:
    before = fingerprint(base_of(home, record))
    opened = await open_workspace(home, "w")
    refused = dict(line.split() for line in (await run(opened, ROUND_THE_BACK, "python")).splitlines())
    opened.close()
    assert fingerprint(base_of(home, record)) == before
    assert {"map_of_a_reader", "by_handle", "whiteout", "owner"} <= set(refused)
    assert {"direct", "shared_map", "linked", "reader_made_writer"}.isdisjoint(refused)  # allowed, on a copy


ATTRIBUTES = """
import os
os.makedirs("evil", exist_ok=True)
names = ("redirect", "opaque", "metacopy", "origin", "upper", "whiteout", "impure", "nlink", "uuid")
for space in ("user", "trusted"):
    for name in names:
        for path, value in (("evil", b"/src"), ("src", b"y"), ("README.md", b"/data/large.bin"), (".", b"y")):
            for prefix in (f"{space}.overlay.", f"{space}.overlay.overlay."):
                try:
                    os.setxattr(path, prefix + name, value)
                    print("set", path, prefix + name)
                except OSError:
                    pass
"""


async def test_overlays_own_notes_cannot_be_forged_from_inside(home: Home, record: Record) -> None:
    before = fingerprint(base_of(home, record))
    opened = await open_workspace(home, "w")
    await run(opened, ATTRIBUTES, "python")
    opened.close()
    upper = home.workspace("w") / "upper"
    own = f"{SPACE}.overlay."  # the other one means nothing to a mount of ours
    for path in (upper, upper / "evil", upper / "src", upper / "README.md"):
        if path.exists():
            noted = {name.removeprefix(own) for name in os.listxattr(path) if name.startswith(own)}
            assert {name for name in noted if "." not in name} <= {"origin", "impure", "uuid"}, path
            for name in noted & {"origin", "impure", "uuid"}:
                assert os.getxattr(path, own + name) not in (b"/src", b"/data/large.bin"), name
    again = await open_workspace(home, "w")
    assert os.listdir(f"/proc/self/fd/{again.directory.fd}/evil") == []  # noqa: PTH208
    assert read(again, "src/main.py") == b"print('hello')\n"
    assert read(again, "README.md") == b"# A project\n"
    again.close()
    assert fingerprint(base_of(home, record)) == before


async def test_such_a_note_would_matter_if_it_could_be_set(home: Home, record: Record) -> None:
    """The attack of the test before, with the guard off: the host itself writes the attribute."""
    opened = await open_workspace(home, "w")
    await run(opened, "touch src/new")
    opened.close()
    assert opened.attributes == f"{SPACE}.overlay."
    os.setxattr(home.workspace("w") / "upper/src", f"{opened.attributes}opaque", b"y")
    again = await open_workspace(home, "w")
    assert os.listdir(f"/proc/self/fd/{again.directory.fd}/src") == ["new"]  # noqa: PTH208
    again.close()


async def test_neither_layer_can_be_found_from_inside(home: Home, record: Record) -> None:
    opened = await open_workspace(home, "w")
    (home.workspace("w") / "upper" / "marker-of-upper").write_text("")
    script = (
        "exec 2>/dev/null\n"
        f"ls -d {home.data} {home.data.parent} {base_of(home, record)} /run/hutch/base /run/hutch/changes\n"
        "for root in /proc/1/root /proc/self/root /proc/self/cwd/../..; do ls $root/run/hutch; done\n"
        "cd .. && ls -A; mount --bind / /mnt && echo mounted\n"
        "umount -l /workspace && echo unmounted; nsenter -t 1 -m true && echo entered\n"
        "unshare -Ur true && echo unshared; chroot / true && echo chrooted; true"
    )
    result = await run(opened, script)
    opened.close()
    names = set(result.split())
    assert not names & {"mounted", "unmounted", "entered", "unshared", "chrooted", "base", "changes", "data"}
    assert "workspace" in names


async def test_set_id_programs_and_devices_mean_nothing_there(home: Home, record: Record) -> None:
    opened = await open_workspace(home, "w")
    result = await run(opened, "grep ' /workspace ' /proc/self/mountinfo")
    opened.close()
    assert {"nosuid", "nodev"} <= set(result.split()[5].split(","))


async def test_only_one_at_a_time_has_it_open(home: Home, record: Record) -> None:
    opened = await open_workspace(home, "w")
    with pytest.raises(Conflict, match="The workspace 'w' is already open"):
        await open_workspace(home, "w")
    opened.close()
    opened.close()
    (await open_workspace(home, "w")).close()


async def test_descriptors_are_released(home: Home, record: Record) -> None:
    (await open_workspace(home, "w")).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    mounts = Path("/proc/self/mountinfo").read_text()
    for _ in range(3):
        opened = await open_workspace(home, "w")
        await run(opened, "true")
        opened.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert Path("/proc/self/mountinfo").read_text() == mounts


async def test_an_opening_that_is_cancelled_holds_nothing(home: Home, record: Record) -> None:
    (await open_workspace(home, "w")).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for delay_s in (0, 0.002, 0.005, 0.01, 0.02):
        opening = asyncio.ensure_future(open_workspace(home, "w"))
        await asyncio.sleep(delay_s)
        opening.cancel()
        try:
            (await opening).close()
        except asyncio.CancelledError:
            continue
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    (await open_workspace(home, "w")).close()


HOST_THAT_DIES = """
import asyncio, os, pathlib, sys
sys.path.insert(0, sys.argv[2])
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
async def main():
    opened = await open_workspace(Home(pathlib.Path(sys.argv[1])), "w")
    async with open_jail(opened.place) as jail:
        await jail.run(["sh", "-c", "echo kept > kept; sync kept"])
        os.kill(os.getpid(), 9)
asyncio.run(main())
"""


async def test_a_host_that_was_killed_leaves_a_workspace_that_opens(home: Home, record: Record) -> None:
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", HOST_THAT_DIES, str(home.data), root]
    assert (await asyncio.to_thread(run_forked, words, env=PLAIN)).returncode == -9
    opened = await open_workspace(home, "w")
    assert read(opened, "kept") == b"kept\n"
    opened.close()


async def test_a_removed_base_is_named(home: Home, record: Record, tmp_path: Path) -> None:
    base_of(home, record).parent.rename(tmp_path / "elsewhere")
    with pytest.raises(NotFound, match=r"The base .* of the workspace 'w' was removed"):
        await open_workspace(home, "w")


async def test_paths_that_would_need_quoting(tmp_path: Path) -> None:
    odd = tmp_path / "a,b:c\\d e'f"
    odd.mkdir()
    home = make_home(odd)
    make_project(odd / "project")
    made = await prepare(home, "w", odd / "project", git=HOST, options=OVERLAY)
    opened = await open_workspace(home, "w")
    assert (made.mode, read(opened, "README.md")) == ("overlay", b"# A project\n")
    assert await run(opened, "cat README.md") == "# A project\n"
    opened.close()


async def test_a_copy_is_opened_where_it_lies(home: Home, tmp_path: Path) -> None:
    await prepare(home, "files", {"a/b.txt": StarterFile(b"x")}, git=HOST)
    opened = await open_workspace(home, "files")
    assert opened.place.directory == opened.place.written == home.workspace("files") / "tree"
    assert (opened.upper, opened.attributes) == (None, None)
    assert await run(opened, "cat a/b.txt; echo y > c") == "x"
    opened.close()
    assert content(home.workspace("files") / "tree") == {"a/b.txt": b"x", "c": b"y\n"}


async def test_memory_has_a_hard_end_and_is_written_to_disk_at_the_end(home: Home, tmp_path: Path) -> None:
    make_project(tmp_path / "project")
    await prepare(home, "m", tmp_path / "project", git=HOST, options=MEMORY)
    opened = await open_workspace(home, "m")
    result = await run(
        opened,
        "echo new > made; rm README.md; rm -r src; mkdir src; echo other > src/main.py; ln -s x link\n"
        "chmod 750 src\n"
        "head -c 100000000 /dev/zero > big 2>/dev/null; stat -c %s big; rm big\n"
        "i=0; while echo > f$i 2>/dev/null && [ $i -lt 2000 ]; do i=$((i+1)); done; echo $i; rm -f f*",
    )
    filled, files = map(int, result.split())
    assert 1 << 20 < filled <= 8 << 20 and 100 < files <= 516
    opened.close()
    again = await open_workspace(home, "m")
    assert read(again, "made") == b"new\n"
    assert os.listdir(f"/proc/self/fd/{again.directory.fd}/src") == ["main.py"]  # noqa: PTH208
    assert again.directory.stat("src").st_mode & 0o777 == 0o750
    assert not again.directory.exists("README.md") and again.directory.read_link("link") == "x"
    assert await run(again, "stat -c %u made src . | uniq | wc -l; echo z >> made; cat made") == "1\nnew\nz\n"
    again.close()
