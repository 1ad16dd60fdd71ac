"""Ways round a guard that stands: look where the host looks, and be elsewhere; or be what it cannot count."""

from hutch.domain.errors import HutchError
from hutch.jail.jail import start_jail

from .attack import Bomb, Scenes
from .bombs import HOLD
from .patience import until
from .program import PYTHON

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


BOMBS = [
    locking("locks", "lock files, which is memory that no cgroup counts",
            'at = "/tmp"\nkept = lock(fcntl.F_SETLK)'),
    locking("locks-of-nobody", "lock files in a way that tells no process",
            'at = "."\nkept = lock(37)'),
    locking("locks-of-the-dead", "lock files by a process that shares the descriptors, and is gone", """
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
    control="the same name, looked up twice by the host, leads outside",
)
async def swapped_workspace(bench) -> None:
    place, outside = (bench.directory(kind, uid=bench.owner) for kind in ("swapped", "outside"))
    (outside / "secret").write_text(bench.token)
    inside, told = place / "sub", 0
    async with bench.jail_on(place) as jail:
        await jail.run(["sh", "-c", f"mkdir sub; ln -s {outside} link"])
        swapping = await jail.spawn([*PYTHON, SWAP])
        await until(lambda: not inside.is_symlink() and (inside / "secret").exists())
        for _ in range(60):
            try:
                second = await start_jail(inside, bench.policy())
            except HutchError:
                told += 1
                continue
            try:
                if second._directory == inside:  # else its name was looked up while it was a link
                    done = await second.run(["cat", "secret"])
                    assert bench.token.encode() not in done.stdout, "it is open on the other directory"
            finally:
                await second.close()
        await swapping.kill()
        swapping.close()
    assert (outside / "secret").read_text() == bench.token
    bench.notes.append(f"swapped-workspace: refused {told} times of 60")
