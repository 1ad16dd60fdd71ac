"""Ways round a guard that stands: look where the host looks, and be elsewhere; or be what it cannot count."""

from hutch.domain.errors import HutchError
from hutch.jail.jail import start_jail

from .attack import Bomb, Scenes
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

BOMBS: list[Bomb] = []


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
