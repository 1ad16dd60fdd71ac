"""Programs that grow: memory, processes, files, descriptors, output, work.

Each is small, ends by itself, and runs under even smaller limits. While it runs,
commands in another jail must still run. The delay of the host's event loop is noted but
not checked, since the machine may be busy with other work.
"""

import asyncio
import contextlib
import json
import os
import resource
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, Size
from hutch.jail.limits.limit_enforcement import can_limit_cpus
from hutch.jail.policy import GIB, MIB

from .attack import NO_SECCOMP, Bomb, Scenes
from .processes import DAEMONS, gone, marker, survivors
from .program import PYTHON, SMALL
from .program import program as deadly
from .waiting import TIMEOUT_S, until, until_neighbour_runs

scene = Scenes()

# Gives a watcher that polls the time to see it, and to kill.
HOLD = "\ntime.sleep(LONG if HOST['tight'] else 0)\n"
PASS_ONE = (
    "import array,errno,resource,socket\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE,(1024,1024))\n"
    "a,b=socket.socketpair()\n"
    "try: a.sendmsg([b'x'],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array('i',[0]))]); print('passed')\n"
    "except OSError as error: print(errno.errorcode[error.errno])\n"
)
ROOMY = {"memory_bytes": 1024 * MIB}


def memory(
    name: str,
    text: str,
    program: str,
    *,
    limit: str | None = "memory_bytes",
    **changes: object,
) -> Bomb:
    """160 MiB where 96 MiB are allowed."""
    tight = {"memory_bytes": 96 * MIB} | changes
    return Bomb(name=name, guard="memory", text=text, program=program + HOLD, tight=tight,
                loose=tight | ROOMY, limit=limit)  # fmt: skip


BOMBS = [
    memory("heap", "allocate", "block = bytearray(160 * MIB)\ntouch(block, 160 * MIB)"),
    memory(
        "heap-undumpable",
        "allocate, as a process that hides from /proc",
        'call("prctl", 4, 0, 0, 0, 0)\nblock = bytearray(160 * MIB)\ntouch(block, 160 * MIB)',
    ),
    memory(
        "heap-hopping",
        "allocate, then fork and exit so fast that the signalled process has already ended",
        """
block = bytearray(160 * MIB)
touch(block, 160 * MIB)
out, back = os.pipe()
if os.fork() == 0:
    end = time.time() + (LONG if HOST["tight"] else 2)
    while time.time() < end:
        if os.fork():
            os._exit(0)
    os.write(back, b"there")
    os._exit(0)
os.close(back)
del block
if os.read(out, 9) != b"there":
    raise Held("killed")
""",
        processes=60,
    ),
    Bomb(
        name="heap-swarm",
        guard="memory",
        text="allocate a little in each of many processes",
        program="""
out, back = os.pipe()
living = []
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        block = bytearray(2 * MIB)
        touch(block, 2 * MIB)
        os.write(back, b"x")
        time.sleep(2 * LONG)
        os._exit(0)
    living.append(pid)
end, full = time.time() + LONG, 0
os.set_blocking(out, False)
while time.time() < end and len(living) >= 80 and (HOST["tight"] or full < 80):
    time.sleep(0.02)
    try:
        full += len(os.read(out, 200))
    except BlockingIOError:
        pass
    living = [pid for pid in living if os.waitpid(pid, os.WNOHANG)[0] == 0]
for pid in living:
    os.kill(pid, 9)
if len(living) < 80:
    raise Held("killed")
if full < 80:
    raise RuntimeError("only %d have their memory" % full)
""",
        tight={"memory_bytes": 96 * MIB, "processes": 260},
        loose={"memory_bytes": 4096 * MIB, "processes": 260},
        limit="memory_bytes",
    ),
    memory(
        "shared-anonymous",
        "allocate shared memory, which is attributed to no process",
        "block = mmap.mmap(-1, 160 * MIB)\ntouch(block, 160 * MIB)",
    ),
    memory(
        "shared-anonymous-hidden",
        "allocate shared memory and drop it from the page tables; it stays",
        """
block = mmap.mmap(-1, 160 * MIB)
for at in range(0, 160 * MIB, MIB):
    touch_to = memoryview(block)[at : at + MIB]
    touch(touch_to, MIB)
    touch_to.release()
    block.madvise(mmap.MADV_DONTNEED, at, MIB)
""",
    ),
    Bomb(
        name="memfd",
        guard="memory",
        text="write to a file that exists only in memory",
        program='fd = os.memfd_create("x")\nfor _ in range(160): os.write(fd, bytes(MIB))' + HOLD,
        tight={"memory_bytes": 96 * MIB},
        loose=NO_SECCOMP,
    ),
    Bomb(
        name="sysv-segments",
        guard="memory",
        text="fill System V shared memory, which outlives its creator",
        program="""
for _ in range(20):
    part = call("shmget", 0, 16 * MIB, 0o1600)
    where = call("shmat", part, 0, 0)
    ctypes.memset(ctypes.c_void_p(where), 1, 16 * MIB)
"""
        + HOLD,
        tight={"memory_bytes": 96 * MIB},
        loose=NO_SECCOMP,
    ),
    memory(
        "page-tables",
        "grow page tables by touching one page in every 2 MiB of a read-only mapping",
        """
size = 96 << 30
where = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, ctypes.c_long(0))
if where == ctypes.c_void_p(-1).value:
    raise OSError(ctypes.get_errno(), "mmap")
libc.madvise(ctypes.c_void_p(where), ctypes.c_size_t(size), 15)
for at in range(0, size, 2 * MIB):
    ctypes.c_char.from_address(where + at).value
""",
    ),
    memory(
        "pipe-buffers",
        "fill pipes that no process reads",
        """
def fill():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
    held = 0
    for _ in range(1900):
        out, back = os.pipe()
        os.set_blocking(back, False)
        try:
            while True:
                held += os.write(back, bytes(4096))
        except BlockingIOError:
            pass
    return held
out, back = os.pipe()
for _ in range(12):
    if os.fork() == 0:
        os.write(back, b"%d\\n" % fill())
        time.sleep(2 * LONG)
        os._exit(0)
said = b""
os.set_blocking(out, False)
while said.count(b"\\n") < 12:
    time.sleep(0.02)
    if os.waitpid(-1, os.WNOHANG)[0]:
        raise Held("killed")
    try:
        said += os.read(out, 4096)
    except BlockingIOError:
        pass
held = sum(map(int, said.split()))
if held < 160 * MIB:
    raise Held("only %d MiB" % (held // MIB))
""",
        open_files=4096,
        descriptors=65_536,
        processes=60,
    ),
    memory(
        "unix-socket-buffers",
        "fill unix sockets that no process reads",
        """
pairs, held = [], 0
while held < 160 * MIB:
    a, b = socket.socketpair()
    pairs.append((a, b))
    for end in (a, b):
        end.setblocking(False)
        try:
            while True:
                held += end.send(bytes(32768))
        except BlockingIOError:
            pass
""",
        open_files=4096,
    ),
    memory(
        "tcp-buffers",
        "fill TCP connections that no process reads",
        """
server = socket.create_server(("127.0.0.1", 0), backlog=2000)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * MIB)
kept, held = [], 0
while held < 160 * MIB:
    one = socket.create_connection(server.getsockname())
    kept += [one, server.accept()[0]]
    one.setblocking(False)
    try:
        while True:
            held += one.send(bytes(65536))
    except BlockingIOError:
        pass
""",
        open_files=4096,
    ),
    *(
        Bomb(
            name=f"fill-{name}",
            guard="memory",
            text=f"fill {place}, which is memory",
            program=f"""
with open("{place}/big", "wb", 0) as file:
    for _ in range(24):
        file.write(bytes(MIB))
""",
            tight={limit: 8 * MIB},
            loose={"memory_bytes": 512 * MIB, limit: 32 * MIB},
        )
        for name, place, limit in (
            ("tmp", "/tmp", "tmp_bytes"),
            ("shm", "/dev/shm", "shm_bytes"),
            ("home", "/home/hutch", "home_bytes"),
        )
    ),
    Bomb(
        name="tmp-inodes",
        guard="memory",
        text="fill /tmp with empty files, each of which is a kilobyte of kernel memory",
        program='for n in range(6000): os.close(os.open("/tmp/%d" % n, os.O_CREAT))' + HOLD,
        tight={"tmpfs_files": 1000},
        loose={"tmpfs_files": 10_000},
        limit="tmpfs_files",
    ),
    Bomb(
        name="fork-bomb",
        guard="processes",
        text="fork without end",
        program="""
for _ in range(100):
    try:
        if os.fork() == 0:
            time.sleep(2 * LONG)
            os._exit(0)
    except OSError:
        wait_until_seen()
        raise
""",
        tight={"processes": 40, "memory_bytes": 512 * MIB},
        loose={"processes": 400, "memory_bytes": 2048 * MIB},
        limit="processes",
    ),
    Bomb(
        name="fork-bomb-doubling",
        guard="processes",
        text="fork, each child forking as well, and again when refused, for two seconds",
        program="""
end, top = time.time() + (2 if HOST["tight"] else LONG), os.getpid()
while time.time() < end and not os.path.exists("many"):
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
    if len(processes()) > 100:
        os.close(os.open("many", os.O_CREAT))
if os.getpid() != top:
    os._exit(0)
if not os.path.exists("many"):
    raise Held("EAGAIN")
""",
        tight={"processes": 40, "memory_bytes": 512 * MIB},
        loose={"processes": 400, "memory_bytes": 2048 * MIB},
    ),
    Bomb(
        name="threads",
        guard="processes",
        text="start threads without end",
        program="""
import threading
for _ in range(100):
    try:
        threading.Thread(target=time.sleep, args=(2 * LONG,), daemon=True).start()
    except RuntimeError:
        wait_until_seen()
        raise Held("EAGAIN")
""",
        tight={"processes": 40, "memory_bytes": 512 * MIB},
        loose={"processes": 400, "memory_bytes": 512 * MIB},
        limit="processes",
    ),
    Bomb(
        name="zombies",
        guard="processes",
        text="leave dead children as zombies",
        program="""
for _ in range(100):
    try:
        if os.fork() == 0: os._exit(0)
    except OSError:
        wait_until_seen()
        raise
""",
        tight={"processes": 40, "memory_bytes": 512 * MIB},
        loose={"processes": 400, "memory_bytes": 512 * MIB},
        limit="processes",
    ),
    *(
        Bomb(
            name=f"disk-{name}",
            guard="disk",
            text=text,
            program=before
            + """
for _ in range(10):
    file.write(bytes(6 * MIB))
    time.sleep(0.07)
"""
            + HOLD,
            tight={"workspace_growth_bytes": 8 * MIB},
            loose={"workspace_growth_bytes": 64 * GIB},
            limit="workspace_growth_bytes",
        )
        for name, text, before in (
            ("file", "fill the workspace with a file", 'file = open("big", "wb", 0)'),
            ("hidden", "fill it in a directory that no user may enter",
             'os.mkdir("cave")\nfile = open("cave/big", "wb", 0)\nos.chmod("cave", 0)'),
            ("unlinked", "fill the disk with a deleted file that is still open",
             'file = open("big", "wb", 0)\nos.unlink("big")'),
        )
    ),
    Bomb(
        name="disk-nameless",
        guard="disk",
        text="fill the disk with a file that never had a name",
        program='fd = os.open(".", os.O_TMPFILE | os.O_RDWR)\nos.write(fd, bytes(16 * MIB))',
        tight={"workspace_growth_bytes": 8 * MIB},
        loose=NO_SECCOMP,
    ),
    Bomb(
        name="disk-many",
        guard="disk",
        text="fill the workspace with many files at once",
        program="""
for n in range(64):
    with open("part-%d" % n, "wb", 0) as file:
        file.write(bytes(MIB))
    time.sleep(0.02)
"""
        + HOLD,
        tight={"workspace_growth_bytes": 8 * MIB},
        loose={"workspace_growth_bytes": 64 * GIB},
        limit="workspace_growth_bytes",
    ),
    Bomb(
        name="disk-inodes",
        guard="disk",
        text="fill the workspace with empty files",
        program='for n in range(6000): os.close(os.open("f%d" % n, os.O_CREAT))' + HOLD,
        tight={"workspace_growth_files": 1000},
        loose={"workspace_growth_files": 20_000},
        limit="workspace_growth_files",
    ),
    Bomb(
        name="deep-directories",
        guard="disk",
        text="nest directories 3,000 deep, to break programs that walk them",
        program="""
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""
        + HOLD,
        tight={"workspace_growth_bytes": 4 * MIB},
        loose=NO_SECCOMP,
        limit="workspace_depth",
    ),
    Bomb(
        name="sparse-file",
        guard="disk",
        text="make a file whose size claims to be huge",
        program='os.truncate(os.open("huge", os.O_CREAT | os.O_RDWR), 64 * MIB)',
        tight={"file_bytes": 16 * MIB},
        loose={"file_bytes": 256 * MIB},
    ),
    Bomb(
        name="descriptors",
        guard="descriptors",
        text="open files without end",
        program='kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(1000)]',
        tight={"open_files": 256},
        loose={"open_files": 2048},
    ),
]  # fmt: skip


async def attack_in(setup, jail, program: str, **options):
    """Run an attack's program in a jail, and return all that is known about it."""
    env = {"HOST": json.dumps(setup.host(await setup.uid(jail)))}
    return await jail.run(deadly(program), env=env, **options)


@scene("descriptors", "keep thousands of terminals, of which all jails together have some 3,000",
       control="another jail can open a terminal before, and must be able to after", serial=True)  # fmt: skip
async def terminal_pool(setup) -> None:
    program = """
kept = []
try:
    for _ in range(3200): kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError: pass
sys.stdout.write("%d\\n" % len(kept)); sys.stdout.flush()
time.sleep(2 * LONG)
"""
    async with setup.jail(replace(SMALL, open_files=4096)) as greedy, setup.jail() as other:
        before = await other.spawn(["true"], terminal=Size())
        await before.wait()
        before.close()
        mark = greedy.mark()
        running = await greedy.spawn(deadly(program))
        assert running.stdout is not None
        got = int((await running.stdout.read()).strip() or 0)  # nothing: it was cleared before
        await until(lambda: greedy.limit_hit(mark, Exit(0, None)))
        try:
            process = await patiently(lambda: other.spawn(["echo", "hello"], terminal=Size()))
        except (OSError, Unavailable) as error:
            raise AssertionError(f"one jail keeps {got} terminals; another gets none: {error}") from None
        finally:
            await running.kill()
            running.close()
        assert process.stdout is not None
        assert b"hello" in await process.stdout.read()
        process.close()
        setup.notes.append(f"terminal-pool: one jail could take {got}")


async def patiently(spawn: Callable[[], Awaitable[Command]]) -> Command:
    """Wait for a hit that is cleared a moment later."""
    end = asyncio.get_running_loop().time() + TIMEOUT_S
    while True:
        try:
            return await spawn()
        except Unavailable:
            if asyncio.get_running_loop().time() > end:
                raise
            await asyncio.sleep(0.1)


@scene("descriptors", "keep descriptors in flight in sockets: the kernel counts them by user, and then "
       "refuses those of the gateway",
       control="a plain process of the user in the same state is refused", serial=True)  # fmt: skip
async def descriptors_in_flight(setup) -> None:
    program = """
import array
null, kept, sent = os.open("/dev/null", os.O_RDONLY), [], 0
try:
    while sent < 6000:
        a, b = socket.socketpair()
        kept.append((a, b))
        for _ in range(10):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 200))])
            sent += 200
except OSError as error:
    sys.stdout.write(str(error))
sys.stdout.write(" %d\\n" % sent); sys.stdout.flush()
time.sleep(2 * LONG)
"""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    async with setup.jail(replace(SMALL, open_files=4096)) as greedy, setup.jail() as other:
        uid = await setup.uid(greedy)
        running = await greedy.spawn(deadly(program))
        assert running.stdout is not None
        sent = (await running.stdout.read()).decode().strip()
        refused = await asyncio.to_thread(setup.plainly, [*PYTHON, PASS_ONE], uid)
        assert refused == b"ETOOMANYREFS\n", refused
        try:
            done = await other.run(["echo", "alive"])
            assert done.stdout == b"alive\n"
        except HutchError as error:
            raise AssertionError(
                f"with {sent} descriptors in flight in one jail, and {soft} as the gateway's own limit, "
                f"another jail ends: {error}"
            ) from None
        finally:
            with contextlib.suppress(HutchError):
                await running.kill()
            running.close()
        setup.notes.append(f"descriptors-in-flight: {sent}")


@scene("output", "print without end", control="with enough space, all is retained")
async def output_flood(setup) -> None:
    limits = replace(SMALL, output_bytes=1 * MIB, output_file_bytes=4 * MIB)
    before = resident()
    async with setup.jail(limits) as jail, setup.watched("output-flood"):
        done = await jail.run(["head", "-c", str(300 * MIB), "/dev/zero"], timeout_s=3 * TIMEOUT_S)
        assert (done.exit_code, done.truncated) == (0, True)
        assert len(done.stdout) <= 1 * MIB + 100
        assert done.output_path is not None and done.output_path.stat().st_size <= 4 * MIB
    assert resident() - before < 32 * MIB
    async with setup.jail(replace(limits, output_bytes=8 * MIB)) as jail:
        assert len((await jail.run(["head", "-c", str(4 * MIB), "/dev/zero"])).stdout) == 4 * MIB


@scene(
    "output",
    "print for ever, on both streams, until the timeout",
    control="the retained part is correct",
)
async def output_for_ever(setup) -> None:
    async with setup.jail() as jail, setup.watched("output-for-ever"):
        for timeout_s in (1, 5, 25, 125):  # a busy machine needs longer to print too much
            done = await jail.run(["sh", "-c", "yes 1 & yes 2 >&2"], timeout_s=timeout_s)
            if done.truncated:
                break
        assert done.timed_out and done.truncated
        assert done.stdout.startswith(b"1\n1\n") and done.stderr.startswith(b"2\n2\n")


@scene("output", "print a line that never ends, one byte at a time",
       control="the retained bytes are those printed")  # fmt: skip
async def endless_line(setup) -> None:
    before = resident()
    code = "import os\nfor _ in range(400000): os.write(1, b'ab')"
    async with setup.jail() as jail, setup.watched("endless-line"):
        done = await jail.run(["/usr/bin/python3", "-c", code], timeout_s=3 * TIMEOUT_S)
        assert done.exit_code == 0 and done.stdout == b"ab" * 400_000
    assert resident() - before < 64 * MIB


@scene("output", "print terminal escapes, NULs and broken UTF-8 to confuse readers",
       control="they are returned exactly as they were sent")  # fmt: skip
async def escapes(setup) -> None:
    nasty = bytes(range(256)) + b"\x1b]0;title\x07\x1b[2J\x1b[6n\x9b31m\xff\xfe\xc0\x80\r\n\x00"
    async with setup.jail() as jail:
        done = await jail.run(["cat"], stdin=nasty)
        assert (done.stdout, done.stderr, done.exit_code) == (nasty, b"", 0)


@scene("output", "switch the pipes to the host to blocking, resize them, read from them",
       control="the loop continues and the result is returned")  # fmt: skip
async def pipe_games(setup) -> None:
    code = (
        "import os,fcntl,time\n"
        "for fd in (0,1,2):\n"
        "  os.set_blocking(fd,True); fcntl.fcntl(fd,fcntl.F_SETOWN,1)\n"
        "  fcntl.fcntl(fd,fcntl.F_SETFL,os.O_ASYNC)\n"
        "for fd,mode in ((1,os.O_RDONLY),(2,os.O_RDONLY),(0,os.O_WRONLY)):\n"
        "  try:\n"
        "    other=os.open('/proc/self/fd/%d'%fd,mode|os.O_NONBLOCK); os.set_blocking(other,True)\n"
        "    fcntl.fcntl(other,1031,1<<20)\n"
        "  except OSError: pass\n"
        "os.write(1,b'x'*200000); time.sleep(0.3); os.write(1,b'end')\n"
    )
    async with setup.jail() as jail, setup.watched("pipe-games"):
        done = await jail.run(["/usr/bin/python3", "-c", code], stdin=b"y" * 1_000_000, timeout_s=TIMEOUT_S)
        assert done.stdout.endswith(b"end") and done.exit_code == 0


@scene("cpu", "keep every processor busy", control="none: only that it runs until it is killed is checked")
async def cpu_hog(setup) -> None:
    async with setup.jail() as jail, setup.watched("cpu-hog") as busy:
        spin = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"
        spinning = await jail.spawn(["sh", "-c", spin])
        await until(lambda: spinning.has_started)
        await until_neighbour_runs(busy, runs=3)
        assert not spinning.is_gone
        await spinning.kill()
        spinning.close()


@scene("cpu", "use more than the processors it was assigned", control="without that limit it uses them")
async def cpu_share(setup) -> None:
    code = (
        "import os,time\nend=time.time()+1.2\n"
        "pids=[os.fork() for _ in range(2)]\n"
        "if 0 in pids:\n  while time.time()<end: pass\n  os._exit(0)\n"
        "[os.wait() for _ in range(2)]\nprint(sum(os.times()[2:4]))"
    )
    used = {}
    for cpus in (0.3, None):
        if not can_limit_cpus():
            return  # a jail with `cpus` does not open without a cgroup
        async with setup.jail(replace(SMALL, cpus=cpus)) as jail:
            done = await jail.run(["/usr/bin/python3", "-c", code], timeout_s=TIMEOUT_S)
            used[cpus] = float(done.stdout)
    if used[None] < 0.8:
        setup.notes.append(f"cpu-share: the machine is too busy for the control, {used[None]:.2f} s of 1.2 s")
    assert used[0.3] < 0.75, f"cpus=0.3 let {used[0.3]:.2f} s of work through in 1.2 s"


@scene("cpu", "burn processor time past cpu_time_s", control="without that limit it continues")
async def cpu_time(setup) -> None:
    async with setup.jail(replace(SMALL, cpu_time_s=1)) as jail:
        done = await jail.run(["sh", "-c", "while :; do :; done"], timeout_s=3 * TIMEOUT_S)
        assert not done.timed_out and done.limit_hit and done.limit_hit.limit == "cpu_time_s", done
    async with setup.jail() as jail:
        assert (await jail.run(["sh", "-c", "while :; do :; done"], timeout_s=1.5)).timed_out


@scene("cpu", "burn processor time past cpu_time_s in many short processes that nobody waits for",
       control="without that limit it continues")  # fmt: skip
async def cpu_time_of_short_processes(setup) -> None:
    code = (
        "import os,signal,time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n  if os.fork()==0:\n    end=time.process_time()+0.005\n"
        "    while time.process_time()<end: pass\n    os._exit(0)\n  time.sleep(0.005)"
    )
    async with setup.jail(replace(SMALL, cpu_time_s=1)) as jail:
        done = await jail.run(["/usr/bin/python3", "-c", code], timeout_s=3 * TIMEOUT_S)
        assert not done.timed_out and done.limit_hit and done.limit_hit.limit == "cpu_time_s", done
    async with setup.jail() as jail:
        assert (await jail.run(["/usr/bin/python3", "-c", code], timeout_s=3)).timed_out


@scene("processes", "use all processes that a jail may have, so that another jail cannot start any",
       control="the attacking jail itself cannot start any more")  # fmt: skip
async def pids_of_others(setup) -> None:
    greedy_limits = replace(SMALL, processes=30)
    code = (
        "import os,time\n"
        "try:\n  while True:\n    if os.fork()==0: time.sleep(500); os._exit(0)\n"
        "except OSError: print('full', flush=True)\ntime.sleep(500)"
    )
    async with setup.jail(greedy_limits) as greedy, setup.jail() as other, setup.watched("pids-of-others"):
        running = await greedy.spawn(["/usr/bin/python3", "-c", code])
        assert running.stdout is not None and await running.stdout.read() == b"full\n"
        assert (await other.run(["sh", "-c", "true & true & true & wait; echo ok"])).stdout == b"ok\n"
        with contextlib.suppress(HutchError):
            inside = await greedy.run(["sh", "-c", "(true) && echo ok"], timeout_s=3)
            assert inside.stdout != b"ok\n"
        await running.kill()
        running.close()
        assert (await greedy.run(["sh", "-c", "(true) && echo ok"])).stdout == b"ok\n"


@scene("memory", "500 processes that each take more, under the default limits (heavy)",
       control="the watcher or the kernel must report memory_bytes", soak=True)  # fmt: skip
async def memory_storm(setup) -> None:
    program = """
for _ in range(400):
    if os.fork() == 0:
        kept = []
        for _ in range(40):
            kept.append(b"x" * MIB)
            time.sleep(0.02)
        os._exit(0)
try:
    while True: os.wait()
except ChildProcessError: pass
"""
    async with (
        setup.jail(replace(SMALL, processes=512, memory_bytes=512 * MIB)) as jail,
        setup.watched("storm"),
    ):
        most = 0
        task = asyncio.create_task(attack_in(setup, jail, program, timeout_s=20))
        while not task.done():
            most = max(most, await asyncio.to_thread(held_by, jail._launched.process.pid))
            await asyncio.sleep(0.05)
        done = await task
        assert done.limit_hit and done.limit_hit.limit == "memory_bytes", done
        assert most < 1024 * MIB, f"{most // MIB} MiB were taken of 512"


@scene(
    "cpu",
    "twenty jails with fork bombs at once",
    control="one jail without a bomb answers meanwhile",
    soak=True,
)
async def many_bombs(setup) -> None:
    async with contextlib.AsyncExitStack() as stack, setup.watched("many-bombs") as busy:
        jails = [await stack.enter_async_context(setup.jail()) for _ in range(20)]
        code = (
            "import os,time\nend=time.time()+4\nwhile time.time()<end:\n  try: os.fork()\n  except OSError: 0"
        )
        await asyncio.gather(*(jail.run(["/usr/bin/python3", "-c", code], timeout_s=3) for jail in jails))
    assert busy.neighbour_runs >= 1


@scene(
    "tree",
    "a hundred rounds of daemons against kill",
    control="each round has processes running before the kill",
    soak=True,
)
async def daemon_rounds(setup) -> None:
    async with setup.jail() as jail:
        for number in range(100):
            mark, script = marker(), list(DAEMONS.values())[number % len(DAEMONS)]
            process = await jail.spawn(["sh", "-c", script.format(mark=mark)])
            await until(lambda mark=mark: survivors(mark))
            await asyncio.sleep(0.05 + 0.01 * (number % 7))
            await process.kill()
            process.close()
            assert await gone(mark) == []


def resident() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held_by(root: int) -> int:
    """Memory of the processes below one, with shared pages counted once (statm would count them for each)."""
    total, queue = 0, [root]
    while queue:
        pid = queue.pop()
        with contextlib.suppress(OSError):
            queue += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon"))
    return total
