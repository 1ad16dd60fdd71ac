"""Ways to other processes: the host's, the warden, and those that should have ended."""

import asyncio
import contextlib
import os
import secrets
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

from hutch.domain.errors import HutchError
from hutch.jail.jail_processes import members
from hutch.jail.launch import bubblewrap_launch, seccomp
from hutch.jail.policy import MIB

from .attack import NO_JAIL, NO_SECCOMP, ROOT, Off, Probe, Scenes
from .program import SMALL
from .waiting import TIMEOUT_S, until

scene = Scenes()


PYTHON_ = ["/usr/bin/python3", "-I", "-S", "-c"]

PROBES = [
    Probe(
        name="signal-host",
        guard="namespaces",
        text="signal a process of the same user on the host",
        program='os.kill(HOST["victim_pid"], signal.SIGCONT)',
        held="ESRCH",
        off=NO_JAIL,
    ),
    Probe(
        name="signal-gateway",
        guard="namespaces",
        text="signal the gateway",
        program='os.kill(HOST["gateway_pid"], 0)',
        held="ESRCH",
        off=ROOT,
    ),
    Probe(
        name="pidfd-host",
        guard="namespaces",
        text="open a pidfd of a host process",
        program='call("pidfd_open", HOST["victim_pid"], 0)',
        held="ESRCH",
        off=NO_JAIL,
    ),
    Probe(
        name="processes-of-host",
        guard="namespaces",
        text="see processes other than the jail's own few",
        program='if len(processes()) < 20 and processes()[0] == 1: raise Held("its own only")',
        held="its own only",
        off=Off("no jail, looking for the victim", jail=False),
    ),
    Probe(
        name="limit-host-process",
        guard="namespaces",
        text="change the limits of a host process",
        program='resource.prlimit(HOST["victim_pid"], resource.RLIMIT_CORE, (0, 0))',
        held="EPERM|ESRCH",
        off=NO_JAIL,
    ),
    Probe(
        name="renice-user",
        guard="namespaces",
        text="slow down all of the user's processes, the host's too",
        program="""
lower = os.getpriority(os.PRIO_PROCESS, 0) + 5  # priorities are inherited: tests may run under `nice`
os.setpriority(os.PRIO_USER, os.getuid(), lower)
try:
    seen = os.getpriority(os.PRIO_PROCESS, HOST["victim_pid"])
except ProcessLookupError:
    raise Held("the host's were not met")
if seen != lower: raise Held("the host's were not met")
""",
        held="the host's were not met|EPERM",
        off=NO_JAIL,
    ),
    *(
        Probe(
            name=f"{name}-warden",
            guard="warden",
            text=text,
            # By a child: with the filter off, the first process of the namespace is the program itself.
            program=f"in_child(lambda: {deed})",
            held="EPERM",
            off=NO_SECCOMP,
        )
        for name, text, deed in (
            (
                "idle",
                "put the warden into the idle class",
                "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
            ),
            (
                "sched-param",
                "change the warden's scheduling by its parameters",
                "os.sched_setparam(1, os.sched_param(0))",
            ),
            (
                "idle-attributes",
                "the same by the newer call",
                'call("sched_setattr", 1, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0)',
            ),
            ("renice", "take the processor from the warden", "os.setpriority(os.PRIO_PROCESS, 1, 19)"),
            (
                "renice-all",
                "take the processor from all processes at once",
                "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
            ),
            ("bind", "bind the warden to a processor that is kept busy", "os.sched_setaffinity(1, {0})"),
            ("disk-last", "give the warden the lowest disk priority", 'call("ioprio_set", 1, 1, 3 << 13)'),
            (
                "strangle",
                "lower the warden's resource limits",
                "resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1))",
            ),
        )
    ),
    Probe(
        name="idle-class",
        guard="cpu",
        text="be in the idle class, and hold a lock that the host waits for while others are busy",
        program="os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
        held="EPERM",
        off=NO_SECCOMP,
    ),
    Probe(
        name="trace-warden",
        guard="warden",
        text="trace the warden, which runs at the same uid",
        program='call("ptrace", 0x4206, 1 if HOST["jailed"] else HOST["victim_pid"], 0, 0)',
        held="EPERM",
        off=NO_JAIL,
    ),
    *(
        Probe(
            name=f"warden-{what}",
            guard="warden",
            text=text,
            program=f"""
pid = 1 if HOST["jailed"] else HOST["victim_pid"]
{program}
""",
            held="EPERM|EACCES",
            off=NO_JAIL,
        )
        for what, text, program in (
            ("memory", "open the warden's memory for writing", 'os.open("/proc/%d/mem" % pid, os.O_RDWR)'),
            ("environ", "read the warden's environment", 'read("/proc/%d/environ" % pid)'),
            ("fds", "list the warden's descriptors", 'os.listdir("/proc/%d/fd" % pid)'),
            ("maps", "read the warden's memory map", 'read("/proc/%d/maps" % pid)'),
            ("stack", "read the warden's auxiliary vector", 'read("/proc/%d/auxv" % pid)'),
        )
    ),
    Probe(
        name="reaper-fds",
        guard="warden",
        text="take the sockets of the reapers, which are not the first process",
        program="""
pids = [pid for pid in processes() if pid not in (1, os.getpid())]
if not pids: raise Held("nobody there")
if HOST["victim_pid"] in pids: pids = [HOST["victim_pid"]]
for pid in pids:
    os.listdir("/proc/%d/fd" % pid)
""",
        held="EACCES|EPERM",
        off=NO_JAIL,
    ),
    Probe(
        name="oom-score",
        guard="mounts",
        text="write to oom_score_adj",
        program='open("/proc/self/oom_score_adj", "w").write("1000")',
        held="EROFS|EACCES",
        off=Off("no --remount-ro /proc", without=("--remount-ro /proc",)),
    ),
    Probe(
        name="oom-score-never",
        guard="uid",
        text="be the last process that the kernel kills for memory",
        program='open("/proc/self/oom_score_adj", "w").write("-1000")',
        held="EROFS|EACCES",
        off=Off("kernel root, no jail", jail=False, root=True),
    ),
    Probe(
        name="real-time",
        guard="cpu",
        text="become a real-time process",
        program="os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        held="EPERM",
        off=ROOT,
    ),
    Probe(
        name="nice",
        guard="cpu",
        text="get more than an equal share of the processor",
        program="os.nice(-5)",
        held="EPERM|EACCES",
        off=ROOT,
    ),
    Probe(
        name="io-priority",
        guard="cpu",
        text="get the disk before all others",
        program='call("ioprio_set", 1, 0, 1 << 13)',
        held="EPERM",
        off=ROOT,
    ),
    *(
        Probe(
            name=f"raise-{name}",
            guard=guard,
            text=f"raise the limit on {name}",
            program=f"limit(resource.{kind}, {value})",
            held="EPERM",
            off=Off("no rlimits", jail=False),
        )
        for name, guard, kind, value in (
            ("processes", "processes", "RLIMIT_NPROC", "2000"),
            ("open-files", "descriptors", "RLIMIT_NOFILE", "4097"),
            ("file-size", "disk", "RLIMIT_FSIZE", "3 << 30"),
        )
    ),
    Probe(
        name="core-file",
        guard="disk",
        text="make the kernel write core files",
        program="limit(resource.RLIMIT_CORE, 4096)",
        held="EPERM",
        off=Off("no rlimits", jail=False),
    ),
    Probe(
        name="lock-memory",
        guard="memory",
        text="lock more memory than the default limit",
        program="""
block = mmap.mmap(-1, 64 * MIB)
if libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block))), ctypes.c_size_t(64 * MIB)):
    raise OSError(ctypes.get_errno(), "mlock")
""",
        held="ENOMEM|EPERM|EAGAIN",
        off=ROOT,
    ),
    Probe(
        name="become-root",
        guard="uid",
        text="set the uid to 0",
        program="os.setuid(0)",
        held="EPERM|EINVAL",
        off=ROOT,
    ),
    Probe(
        name="become-other",
        guard="uid",
        text="set the uid to another user's",
        program="os.setresuid(61235, 61235, 61235)",
        held="EPERM|EINVAL",
        off=ROOT,
    ),
    Probe(
        name="groups",
        guard="uid",
        text="join other groups",
        program="os.setgroups([0, 4, 27])",
        held="EPERM",
        off=ROOT,
    ),
    Probe(
        name="inherited-groups",
        guard="uid",
        text="be in a group of the gateway's",
        program="""
os.setgroups([4, 27]) if not HOST["jailed"] else None  # as a gateway's may be
if set(os.getgroups()) <= {os.getgid(), 65534}: raise Held("in none")
""",
        held="in none",
        off=ROOT,
    ),
    Probe(
        name="capabilities",
        guard="uid",
        text="have any capability, or a way to get one",
        program="""
lines = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew")))
masks = [int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")]
if not any(masks) and int(lines["NoNewPrivs"]) == 1: raise Held("none")
""",
        held="none",
        off=NO_JAIL,
    ),
    Probe(
        name="stolen-terminal",
        guard="namespaces",
        text="open the gateway's controlling terminal",
        program='os.open("/dev/tty", os.O_RDWR)',
        held="ENXIO|ENOENT",
        off=Off("no --new-session", without=("--new-session",), terminal=True),
    ),
]


def marker() -> str:
    return f"31{secrets.randbelow(10**9):09d}"


def survivors(mark: str) -> list[int]:
    """Processes of this machine, without zombies, that have the mark in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def end(mark: str) -> list[int]:
    """Kill processes with the mark, and return them."""
    found = survivors(mark)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return found


async def gone(mark: str) -> list[int]:
    """The processes that remain after a time that is long enough for all killed ones to end."""
    with contextlib.suppress(TimeoutError):
        await until(lambda: not survivors(mark))
    return survivors(mark)


# Each leaves `sleep MARK` processes behind, in another way.
DAEMONS = {
    "plain": "sleep {mark} & sleep {mark}",
    "ignoring": "trap '' TERM HUP; sh -c \"trap '' TERM HUP; sleep {mark}; sleep {mark}\" & sleep {mark}",
    "double-forked": "(setsid sh -c 'setsid sleep {mark} & setsid sleep {mark} &' &) ; sleep {mark}",
    "wiped": "env -i setsid sh -c 'cd /; exec sleep {mark} </dev/null >/dev/null 2>&1' & sleep {mark}",
    "stopped": "sleep {mark} & kill -STOP $!; kill -STOP $$",
    "nohup": "nohup setsid sleep {mark} >/dev/null 2>&1 & sleep {mark}",
}


async def left_on_host(setup, script: str, mark: str) -> None:
    """The control: on the host, killing the command alone leaves its children."""
    process = await asyncio.create_subprocess_exec("sh", "-c", script, start_new_session=True, stdout=DEVNULL)
    await until(lambda: set(survivors(mark)) - {process.pid})
    process.kill()
    await process.wait()
    left: list[int] = []
    with contextlib.suppress(TimeoutError):  # a process that starts another has no arguments for a moment
        await until(lambda: left.extend(survivors(mark)) or left)
    await until(lambda: not end(mark))
    assert left, "even plainly nothing was left, so this shows nothing"


def _daemon_scenes() -> None:
    for name, script in DAEMONS.items():

        async def timeout(setup, script=script) -> None:
            mark = marker()
            async with setup.jail() as jail:
                done = await jail.run(["sh", "-c", script.format(mark=mark)], timeout_s=0.4)
                assert done.timed_out, done
                assert await gone(mark) == []
                assert (await jail.run(["echo", "alive"])).stdout == b"alive\n"
            other = marker()
            await left_on_host(setup, script.format(mark=other), other)

        async def close(setup, script=script) -> None:
            mark = marker()
            async with setup.jail() as jail:
                process = await jail.spawn(["sh", "-c", script.format(mark=mark)])
                await until(lambda: survivors(mark))
                process.close()
            assert await gone(mark) == []

        timeout.__name__, close.__name__ = f"{name}_outlives_timeout", f"{name}_outlives_close"
        scene(
            "tree",
            f"outlive a timeout: {name} children",
            control="killed without a jail on the host, they stay",
        )(timeout)
        scene("tree", f"outlive the jail: {name} children", control="they run until the jail is closed")(
            close
        )


_daemon_scenes()


@scene("tree", "outlive a cancelled call", control="they run until then")
async def outlives_cancel(setup) -> None:
    mark = marker()
    async with setup.jail() as jail:
        running = asyncio.create_task(jail.run(["sh", "-c", DAEMONS["double-forked"].format(mark=mark)]))
        await until(lambda: survivors(mark))
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert await gone(mark) == []


@scene("tree", "keep the caller waiting by a child that keeps stdout open",
       control="reading the pipe to its end on the host waits for the child")  # fmt: skip
async def holds_stdout(setup) -> None:
    async with setup.jail() as jail:
        done = await jail.run(["sh", "-c", "sleep 500 & echo started"], timeout_s=TIMEOUT_S)
        assert (done.stdout, done.exit_code, done.timed_out) == (b"started\n", 0, False)
    then = time.monotonic()
    await asyncio.to_thread(subprocess.run, ["sh", "-c", "sleep 1 & echo started"], stdout=subprocess.PIPE)
    assert time.monotonic() - then >= 1


@scene("tree", "fork faster than it can be listed, so that the kill finds no process",
       control="its heartbeat continues until it is killed")  # fmt: skip
async def runaway(setup) -> None:
    code = (
        "import os,time\nend=time.time()+200\nbeat=os.open('beat',os.O_CREAT|os.O_WRONLY|os.O_APPEND)\n"
        "while time.time()<end:\n  os.write(beat,b'.')\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
    )
    place = setup.directory("runaway", uid=setup.owner)

    def beats() -> int:
        return (place / "beat").stat().st_size if (place / "beat").exists() else 0

    async with setup.jail_on(place) as jail:
        process = await jail.spawn([*PYTHON_, code])
        await until(lambda: beats() > 50)
        await process.kill()
        process.close()
        last = beats()
        await asyncio.sleep(0.3)
        assert beats() == last
        assert (await jail.run(["echo", "alive"], timeout_s=TIMEOUT_S)).stdout == b"alive\n"


STARVE = """
import os, signal, sys, time
one = {min(os.sched_getaffinity(0))}  # all on one, or others find the time to help
os.sched_setaffinity(0, one)
for name in filter(str.isdigit, os.listdir("/proc")):
    if name == "1" or open("/proc/%s/stat" % name).read().rpartition(")")[2].split()[1] == "1":
        os.sched_setscheduler(int(name), os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(int(name), one)
for _ in range(150):
    if os.fork() == 0:
        signal.alarm(60)  # also when no process is left to end it
        while True: pass
print("done", flush=True)
time.sleep(600)
"""


@scene("tree", "outlive the jail: keep the first process, whose death kills all others, from the processor",
       control="without the filter it is in the idle class, and close kills them one by one",
       serial=True)  # fmt: skip
async def starved_outlives_close(setup) -> None:
    mark = marker()
    limits = replace(SMALL, processes=400, memory_bytes=8192 * MIB)  # a fork counts whole when time is short
    with unfiltered():
        async with setup.jail(limits) as jail:
            process = await jail.spawn([*PYTHON_, STARVE, mark])
            assert await process.stdout.read() == b"done\n"
            assert os.sched_getscheduler(jail.warden_pid) == os.SCHED_IDLE
            process.close()
    claim = jail._identity.claim  # no other jail may have the user id while one of them lives
    assert not survivors(mark) or (claim is not None and claim.fileno() >= 0)
    assert await gone(mark) == []


STOP_REAPERS = """
import os, signal, time
me = os.getpid()
while True:
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = open("/proc/%s/stat" % name).read().rpartition(")")[2].split()[1]
            if parent == "1" and int(name) != me:
                os.kill(int(name), signal.SIGSTOP)
        except OSError:
            pass
    time.sleep(0.002)
"""


@scene("tree", "outlive every timeout: stop the reapers until their socket is full",
       control="the socket is full, and the reapers are stopped")  # fmt: skip
async def stopped_reapers(setup) -> None:
    async with setup.jail() as jail, setup.watched("stopped-reapers"):
        process = await jail.spawn([*PYTHON_, STOP_REAPERS])
        reapers = [member.pid for member in members(jail.warden_pid) if member.trusted]
        await until(lambda: all(state(pid) in ("T", "") for pid in reapers))
        outgoing = jail._control._commands
        async with asyncio.timeout(TIMEOUT_S):
            is_full = are_stopped = False
            while not (is_full and are_stopped):  # a reaper may be faster than the attacker
                runs = [asyncio.create_task(jail.run(["true", "x" * 55_000], timeout_s=2)) for _ in range(12)]
                await until(lambda runs=runs: outgoing.lock.locked() or all(run.done() for run in runs))
                is_full = outgoing.lock.locked()
                are_stopped = any(done.timed_out for done in await asyncio.gather(*runs))
            await jail.clear()
            assert (await process.wait()).signal == signal.SIGKILL
            assert (await jail.run(["echo", "alive"])).stdout == b"alive\n"
        process.close()


# How these lines of the warden begin. In one jail after the other, a reaper stops for good after one of them.
REAPER_STEPS = (
    "status = fds.pop(0)",
    'os.write(report, b"%d %s 0\\n" % (me, nonce))',
    'pid = begin(rest, own_limits, status, fds) if attempt(os.write, status, b"taken %d\\n" % me) else 0',
    'os.write(report, b"%d %s %d\\n" % (me, nonce, pid))',
    "os.close(status)",
    'os.write(report, b"%d  0\\n" % me)',
)


@scene("tree", "outlive the kill: keep a command's reaper stopped, at any step of its work",
       control="the reaper is stopped at that step")  # fmt: skip
async def stopped_at_any_step(setup) -> None:
    true_source = bubblewrap_launch.warden_source
    try:
        for step in REAPER_STEPS:
            (line,) = (line for line in true_source().splitlines() if line.strip().startswith(step))
            indent = line[: len(line) - len(line.lstrip())]
            stopping = true_source().replace(
                f"{line}\n", f"{line}\n{indent}while True: os.kill(me, SIGSTOP)\n"
            )
            bubblewrap_launch.warden_source = lambda source=stopping: source
            async with setup.jail() as jail:
                process = await jail.spawn(["true"])
                await until(
                    lambda jail=jail: any(
                        state(each.pid) == "T" for each in members(jail.warden_pid) if each.trusted
                    )
                )
                async with asyncio.timeout(TIMEOUT_S):
                    await process.kill()
                assert process.is_gone, step
                process.close()
    finally:
        bubblewrap_launch.warden_source = true_source


def state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@contextlib.contextmanager
def unfiltered() -> Iterator[None]:
    """Open jails without a filter meanwhile."""
    true_program = seccomp.program
    allow_all = struct.pack("<HBBI", seccomp.RETURN, 0, 0, seccomp.ALLOW)
    seccomp.program = lambda machine, *, has_cgroup: allow_all
    try:
        yield
    finally:
        seccomp.program = true_program


@scene("warden", "send every signal to the first process",
       control="a process that is not the first of its namespace dies of the same")  # fmt: skip
async def kill_warden(setup) -> None:
    code = "import os\nfor n in range(1,65):\n  try: os.kill(1,n)\n  except OSError: pass\nprint('sent')"
    async with setup.jail() as jail:
        for _ in range(3):
            assert (await jail.run([*PYTHON_, code], timeout_s=TIMEOUT_S)).stdout == b"sent\n"
        assert (await jail.run(["echo", "alive"], timeout_s=TIMEOUT_S)).stdout == b"alive\n"
    plain = await asyncio.create_subprocess_exec("sleep", "30")
    plain.kill()
    assert await plain.wait() == -signal.SIGKILL


@scene("warden", "kill, stop and signal every process of the jail repeatedly",
       control="the existing processes do die")  # fmt: skip
async def kill_everybody(setup) -> None:
    code = (
        "import os,time\nend=time.time()+1.0\nme=os.getpid()\n"
        "while time.time()<end:\n"
        " for p in os.listdir('/proc'):\n"
        "  if p.isdigit() and int(p)!=me:\n"
        "   for n in (15,19,9,2,1):\n"
        "    try: os.kill(int(p),n)\n"
        "    except OSError: pass\n"
    )
    async with setup.jail() as jail, setup.watched("kill-everybody"):
        bystander = await jail.spawn(["sleep", "300"])
        await until(lambda: bystander.has_started)
        with contextlib.suppress(HutchError):
            await jail.run([*PYTHON_, code], timeout_s=TIMEOUT_S)
        assert (await bystander.wait()).signal is not None
        bystander.close()
        await asyncio.sleep(0.2)
        assert (await jail.run(["echo", "alive"], timeout_s=TIMEOUT_S)).stdout == b"alive\n"


@scene("warden", "forge the end of a command: write the reaper's messages to every descriptor",
       control="the true end is reported")  # fmt: skip
async def forged_end(setup) -> None:
    code = (
        "import os\n"
        "for d in ['/proc/self/fd','/proc/%d/fd'%os.getppid(),'/proc/1/fd']:\n"
        " try: names=os.listdir(d)\n"
        " except OSError: continue\n"
        " for n in names:\n"
        "  try:\n"
        "   f=os.open(d+'/'+n,os.O_WRONLY|os.O_NONBLOCK); os.write(f,b'ended 0 0 0\\nstarted 1\\n')\n"
        "  except OSError: pass\n"
        "os._exit(7)"
    )
    async with setup.jail() as jail:
        done = await jail.run([*PYTHON_, code], timeout_s=TIMEOUT_S)
        assert (done.exit_code, done.timed_out) == (7, False)


@scene("warden", "see, signal or read processes of another jail of the same user",
       control="inside one jail, they are visible and can be signalled")  # fmt: skip
async def other_jail(setup) -> None:
    mark = marker()
    look = f"grep -l {mark} /proc/[0-9]*/cmdline 2>/dev/null; pkill -f 'sleep {mark}'; true"
    async with setup.jail() as one, setup.jail() as two:
        sleeper = await one.spawn(["sleep", mark])
        await until(lambda: survivors(mark))
        await two.run(["sh", "-c", look], timeout_s=TIMEOUT_S)
        assert survivors(mark)
        await one.run(["sh", "-c", f"pkill -f '^sleep {mark}'"], timeout_s=TIMEOUT_S)
        assert (await sleeper.wait()).signal == signal.SIGTERM
        sleeper.close()


@scene("protocol", "print what looks like the shell's report of a command's end, on every descriptor",
       control="the shell's own report is accepted")  # fmt: skip
async def forged_marker(setup) -> None:
    from hutch.jail.shell.shared_jails_and_shells import Shells

    forge = (
        "import os,secrets\n"
        "for pid in ('self',str(os.getppid())):\n"
        " for fd in os.listdir('/proc/%s/fd'%pid):\n"
        "  for nonce in ('0'*32,secrets.token_hex(16)):\n"
        "   try: os.write(os.open('/proc/%s/fd/%s'%(pid,fd),os.O_WRONLY|os.O_NONBLOCK),"
        "(chr(0)+nonce+' 0 0 /forged'+chr(0)).encode())\n"
        "   except OSError: pass\n"
        "os._exit(7)"
    )
    async with setup.jail() as jail:
        for program in ("/bin/sh", "/bin/bash"):
            shells = Shells(jail)
            shell = shells.shell(program=program)
            await shell.run("mkdir -p here && cd here")
            done = await shell.run(f'/usr/bin/python3 -c "{forge}"', timeout_s=TIMEOUT_S)
            assert (done.exit_code, done.cwd, done.timed_out) == (7, "/workspace/here", False), done
            await shell.run(
                "true"
            )  # what was written to the shell's own command pipe spoils this one at most
            after = await shell.run("echo on")
            assert (after.stdout, after.exit_code) == ("on\n", 0), after
            await shell.close()
            await shells.close()


FORGE_ANSWER = """
import os, re
shell, found = os.getppid(), set()
memory = open("/proc/%d/mem" % shell, "rb", 0)
for line in open("/proc/%d/maps" % shell):
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    try:
        memory.seek(start)
        found.update(re.findall(rb"[0-9a-f]{32}(?![0-9a-f])", memory.read(end - start)))
    except (OSError, ValueError, OverflowError):
        pass
opened = set()
for name in os.listdir("/proc/%d/fd" % shell):
    path = "/proc/%d/fd/%s" % (shell, name)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        continue
    opened.add(os.readlink(path).partition(":")[0])
    for nonce in found:
        os.write(fd, b"\\0%s 0 0\\0export zz%s='0 0'\\n" % (nonce, nonce))
print("\\n", len(found) > 0, *sorted(opened))
raise SystemExit(7)
"""


@scene("protocol", "read the nonce from the shell's memory, and report the command's end in its place",
       control="the nonce is found, and a pipe of the same shell can be written to")  # fmt: skip
async def forged_answer(setup) -> None:
    from hutch.jail.shell.shared_jails_and_shells import Shells

    async with setup.jail() as jail:
        (jail._directory / "forge.py").write_text(FORGE_ANSWER)
        (jail._directory / "forge.py").chmod(0o644)
        for program in ("/bin/sh", "/bin/bash"):
            shell = Shells(jail).shell(program=program)
            await shell.run("cd /tmp")
            done = await shell.run("/usr/bin/python3 /workspace/forge.py; code=$?; sleep 0.2; (exit $code)")
            assert (done.exit_code, done.cwd, done.restarted) == (7, "/tmp", False), done
            assert "True pipe" in done.stdout.replace(" /dev/null", ""), (
                "nothing was found: this shows nothing"
            )
            assert (await shell.run("echo on")).stdout == "on\n"


@scene("output", "flood the socket on which only the shell replies, a little at a time",
       control="up to the maximum size of a reply, it is accepted")  # fmt: skip
async def flooded_answers(setup) -> None:
    from hutch.jail.shell.shared_jails_and_shells import Shells

    flood = (
        "for at in /proc/$$/fd/*; do fd=${at##*/}; case $(readlink $at) in socket:*) break;; esac; done; "
        "printf -v much '%65536s'; for ((n = 0; n < COUNT; n++)); do printf %s \"$much\" >&$fd; done; echo on"
    )
    async with setup.jail() as jail, setup.watched("flooded-answers"):
        shell = Shells(jail).shell(program="/bin/bash")
        done = await shell.run(flood, env={"COUNT": "16"}, timeout_s=TIMEOUT_S)
        assert (done.exit_code, done.stdout, done.restarted) == (0, "on\n", False), done
        done = await shell.run(flood, env={"COUNT": "1000000000"}, timeout_s=TIMEOUT_S)
        assert (done.restarted, done.timed_out) == (True, False), done
        assert (await shell.run("echo alive")).stdout == "alive\n"


@scene("output", "fill the host's disk by printing much in many commands",
       control="the newest of them is complete")  # fmt: skip
async def output_files(setup) -> None:
    from hutch.jail.shell.shared_jails_and_shells import Shells

    limits = replace(SMALL, output_bytes=64 * 1024, output_file_bytes=4 * MIB)
    async with setup.jail(limits) as jail:
        shell = Shells(jail).shell()
        for _ in range(8):
            cut = await shell.run(f"head -c {8 * MIB} /dev/zero", timeout_s=TIMEOUT_S)
            done = await jail.run(["head", "-c", str(4 * MIB), "/dev/zero"], timeout_s=TIMEOUT_S)
        assert cut.output_path and done.output_path
        kept = [path.stat().st_size for path in done.output_path.parent.iterdir()]
        assert sum(kept) <= 16 * MIB
        assert (cut.output_cut, done.output_cut) == (True, False)
        assert done.output_path.stat().st_size == 4 * MIB
