"""Ways round an active guard: avoid the moment or path that the host inspects, or use
what it cannot count.
"""

import contextlib
import os
import shutil
from dataclasses import replace

from hutch.domain.errors import HutchError, LimitReached
from hutch.jail.interface import Exit
from hutch.jail.jail_startup import start_jail
from hutch.jail.policy import GIB, MIB

from .attack import Bomb, Scenes
from .bombs import HOLD
from .program import PYTHON, SMALL
from .waiting import TIMEOUT_S, until

scene = Scenes()

SWAP = """
import ctypes, platform, random, sys, time
libc, number = ctypes.CDLL(None), 276 if platform.machine() == "aarch64" else 316  # renameat2
while True:
    libc.syscall(number, -100, b"sub", -100, b"link", 2)
    time.sleep(random.random() * 0.004)
"""

# 6,000 locks, each in a place of its own so that they are not joined; from the end, which is faster.
LOCK = """
def lock(command):
    kept = []
    for number in range(12):
        kept.append(os.open("%s/locked-%d" % (at, number), os.O_CREAT | os.O_RDWR))
        for place in range(1000, 0, -2):
            fcntl.fcntl(kept[-1], command, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, place, 1, 0))
    return kept
"""


def locking(name: str, text: str, program: str) -> Bomb:
    return Bomb(
        name=name,
        guard="memory",
        text=text,
        program=LOCK + program + HOLD,
        tight={"locks": 2000},
        loose={"locks": 100_000},
        limit="locks",
    )


# The walk spends its time in `slow`; files in `last` are moved to `first` meanwhile.
BEHIND_THE_WALK = """
for number in range(12): os.mkdir("d%d" % number)
order = [name for name in os.listdir(".") if name.startswith("d")]
first, slow, last = order[0], order[6], order[-1]
for number in range(20000): os.close(os.open("%s/f%d" % (slow, number), os.O_CREAT))
watch = libc.inotify_init()
opened = libc.inotify_add_watch(watch, slow.encode(), 0x20)  # IN_OPEN
left = libc.inotify_add_watch(watch, last.encode(), 0x10)  # IN_CLOSE_NOWRITE
os.mkdir(last + "/hoard")
hoard = os.open(last + "/hoard", os.O_RDONLY)
mover = os.fork()
if mover == 0:
    at = last
    while True:
        data, place = os.read(watch, 65536), 0
        while place < len(data):
            which, _, _, length = struct.unpack_from("iIII", data, place)
            named, place = data[place + 16 : place + 16 + length], place + 16 + length
            if not named and which == opened and at == last:
                os.rename(last + "/hoard", first + "/hoard")
                at = first
            elif not named and which == left and at == first:
                os.rename(first + "/hoard", last + "/hoard")
                at = last
for number in range(96):
    file = os.open("x%d" % number, os.O_CREAT | os.O_WRONLY, dir_fd=hoard)
    os.write(file, os.urandom(MIB))
    os.close(file)
    time.sleep(0.01)
time.sleep(LONG if HOST["tight"] else 0)
os.kill(mover, 9)
"""

# 30,000 mappings in each of four processes; only what is not alike stays apart.
MANY_MAPPINGS = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
base = libc.mmap(None, 30000 * 4096, 0, 0x4022, -1, 0)
for page in range(0, 30000, 2): libc.mprotect(ctypes.c_void_p(base + page * 4096), 4096, 1)
for _ in range(3):
    if os.fork() == 0: time.sleep(500)
print("there", flush=True)
time.sleep(500)
"""

BOMBS = [
    Bomb(
        name="disk-behind-the-walk",
        guard="disk",
        text="watch the host's walk, and move files that it has not reached to where it has been",
        program=BEHIND_THE_WALK,
        tight={"workspace_growth_bytes": 16 * MIB},
        loose={"workspace_growth_bytes": 64 * GIB},
        limit="workspace_growth_bytes",
    ),
    locking("locks", "lock files, which is memory that no cgroup counts",
            'at = "/tmp"\nkept = lock(fcntl.F_SETLK)'),
    locking("locks-of-nobody", "lock files in a way that names no process",
            'at = "."\nkept = lock(37)'),
    locking("locks-of-the-dead", "lock files by a process that shares the descriptors, and has ended", """
at = "."
files = [os.open("locked-%d" % number, os.O_CREAT | os.O_RDWR) for number in range(12)]
pid = call("clone", 0x400 | 17, 0, 0, 0, 0)
if pid == 0:
    lock(fcntl.F_SETLK)
    os._exit(0)
os.waitpid(pid, 0)
"""),
]  # fmt: skip


@scene(
    "mounts",
    "swap a directory for a link to another, while a jail is opened on it",
    control="the same path, resolved twice by the host, leads outside",
)
async def swapped_workspace(setup) -> None:
    place, outside = (setup.directory(kind, uid=setup.owner) for kind in ("swapped", "outside"))
    (outside / "secret").write_text(setup.token)
    inside, refused = place / "sub", 0
    async with setup.jail_on(place) as jail:
        await jail.run(["sh", "-c", f"mkdir sub; ln -s {outside} link"])
        swapping = await jail.spawn([*PYTHON, SWAP])
        await until(lambda: not inside.is_symlink() and (inside / "secret").exists())
        for _ in range(60):
            try:
                second = await start_jail(inside, setup.policy())
            except HutchError:
                refused += 1
                continue
            try:
                if second._directory == inside:  # else its path was resolved while it was a link
                    done = await second.run(["cat", "secret"])
                    assert setup.token.encode() not in done.stdout, "it is open on the other directory"
            finally:
                await second.close()
        await swapping.kill()
        swapping.close()
    assert (outside / "secret").read_text() == setup.token
    setup.notes.append(f"swapped-workspace: refused {refused} times of 60")


@scene(
    "memory",
    "have so many mappings that reading their list takes seconds",
    control="the same with mappings raised",
)
async def mappings(setup) -> None:
    limits = replace(SMALL, memory_bytes=256 * MIB, mappings=50_000, workspace_growth_bytes=8 * MIB)
    async with setup.jail(limits, owner=setup.owner) as jail, setup.watched("mappings"):
        mark = jail.mark()
        running = await jail.spawn([*PYTHON, MANY_MAPPINGS])
        if (
            jail._meter.has_cgroup
        ):  # the kernel counts their memory; the watcher must see other things all the same
            assert await running.stdout.read() == b"there\n"
            done = await jail.run(
                ["sh", "-c", "head -c 32M /dev/urandom > file; sleep 500"], timeout_s=TIMEOUT_S
            )
            assert done.limit_hit and done.limit_hit.limit == "workspace_growth_bytes", done
        else:
            await until(lambda: jail.limit_hit(mark, Exit(0, None)))
            assert jail.limit_hit(mark, Exit(0, None)).limit == "mappings"
        await running.wait()
        running.close()
        assert (await jail.run(["echo", "alive"])).stdout == b"alive\n"
    async with setup.jail(replace(limits, mappings=10**9), owner=setup.owner) as jail:
        mark = jail.mark()
        running = await jail.spawn([*PYTHON, MANY_MAPPINGS])
        assert await running.stdout.read() == b"there\n"
        assert (await jail.run(["echo", "alive"])).stdout == b"alive\n"
        assert not running.is_gone and jail.limit_hit(mark, Exit(0, None)) is None
        await running.kill()
        running.close()


@scene(
    "disk",
    "repeatedly write a little more than allowed, before the host has seen it",
    control="the same with workspace_growth_bytes raised",
)
async def disk_creep(setup) -> None:
    script = "head -c 24M /dev/urandom > $0; while [ ! -e limit-seen ]; do sleep 0.01; done"
    left = {}
    for most in (8 * MIB, 64 * GIB):
        place = setup.directory("creep", uid=setup.owner)
        async with setup.jail_on(place, replace(SMALL, workspace_growth_bytes=most)) as jail:
            if most > GIB:
                (place / "limit-seen").touch()
            with contextlib.suppress(LimitReached):
                for number in range(12):
                    await jail.run(["sh", "-c", script, f"part-{number}"], timeout_s=TIMEOUT_S)
        left[most] = sum(path.stat().st_blocks * 512 for path in place.iterdir())
    assert left[64 * GIB] >= 12 * 24 * MIB
    assert left[8 * MIB] <= 4 * 24 * MIB, f"{left[8 * MIB] // MIB} MiB were left of 8"


@scene(
    "protocol",
    "make a result name a limit that was not hit: exit as if by its signal",
    control="the signal itself names the limit",
)
async def forged_limit(setup) -> None:
    async with setup.jail() as jail:
        for number in (24, 25):  # SIGXCPU, SIGXFSZ
            done = await jail.run(["sh", "-c", f"exit {128 + number}"])
            assert (done.exit_code, done.limit_hit) == (128 + number, None)
    async with setup.jail(replace(SMALL, file_bytes=1 * MIB)) as jail:
        done = await jail.run(["dd", "if=/dev/zero", "of=big", "bs=64k", "count=64"])
        assert done.limit_hit and done.limit_hit.limit == "file_bytes", done


@scene(
    "mounts",
    "write to a file outside by a hard link that existed before: not prevented, but reported at the start",
    control="a copy is not reported, and writes to it stay inside",
)
async def hard_link_before(setup) -> None:
    for linked in (True, False):
        place, outside = (setup.directory(kind, uid=setup.owner) for kind in ("linked", "outside"))
        (outside / "file").write_text("as it was\n")
        (outside / "file").chmod(0o666)
        os.link(outside / "file", place / "file") if linked else shutil.copy(outside / "file", place)
        if setup.is_root:
            os.chown(place / "file", setup.owner, setup.owner)
        async with setup.jail_on(place) as jail:
            assert await jail.linked_outside() == linked
            await jail.run(["sh", "-c", "echo changed > file"])
        assert (outside / "file").read_text() == ("changed\n" if linked else "as it was\n")
