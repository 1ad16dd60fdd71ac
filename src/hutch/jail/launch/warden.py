"""The first process of a jail: starts the host's commands and keeps track of every process.

One file without imports of Hutch's own, copied into the jail and run by the system's Python with
`-I -S`. It imports the bare C modules where a Python wrapper would double the start-up time. The
host opens the pipes and passes their ends, so output never goes through the warden.

Every command gets a *reaper*: a fork of the warden that is a child subreaper and the command's
parent. All descendants of the command, however often they fork, detach or clear their environment,
stay below its reaper, because the kernel hands every orphan to the nearest subreaper above it. The
reaper reports on a pipe of its own and closes it when the last descendant has ended, so end of file
there means that nothing is left. Then it takes the next command.

A reaper runs at the command's uid and can be killed by it. Then its orphans become children of the warden,
which no process inside can kill; the warden kills every child that is not a reaper. A tree that forks faster
than it can be listed is killed with kill(-1), which no fork outruns, and which also kills the jail's other
commands. Reapers and warden are not dumpable: no process inside can trace them or read their memory.
"""

# ruff: noqa: PTH123, PTH208 (pathlib would take most of the start-up time)

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import itertools
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False  # typing is slow to import too
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FRAME_BYTES, MAX_DESCRIPTORS, MSG_CMSG_CLOEXEC, SO_RCVTIMEO = 65536, 8, 0x40000000, 20
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
OPEN, DUP2 = os.POSIX_SPAWN_OPEN, os.POSIX_SPAWN_DUP2
SIGINT, SIGKILL, SIGCHLD, SIGCONT, SIGSTOP = 2, 9, 17, 18, 19
SPARE_PROCESSES = 64  # for the warden itself, so that a fork bomb cannot prevent it from forking
KILL_S, KILL_ROUNDS, STOP_TIMEOUT_S, IDLE_TIMEOUT_S, RETRY_MS, MAX_DOOMED = 0.25, 5, 0.005, 30, 50, 1000
NICENESS = 5  # of commands, above the warden's, which must get processor time among hundreds of them

_prctl = _ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl")  # type: ignore[arg-type]


def prctl(option: int, value: int) -> None:
    _ctypes.call_function(_prctl, (option, value, 0, 0, 0))


def attempt(call: "Callable[..., Any]", *arguments: object) -> "Any":
    """The result of the call, or None if it raises OSError."""
    try:
        return call(*arguments)
    except OSError:
        return None


class Warden:
    """Serves the host until it disconnects. Requests about the jail come on `control`, commands on `work`,
    where a waiting reaper takes them itself."""

    def __init__(self, control: _socket.socket, work: _socket.socket, limits: bytes, jailed: bool) -> None:
        self.control, self.work, self.jailed, self.me = control, work, jailed, os.getpid()
        self.limits = limits  # of commands, unless they come with their own
        self.reapers: dict[int, bytes] = {}  # reaper's pid: its command's nonce, b"" while it waits
        self.leaders: dict[int, int] = {}  # reaper's pid: pid of its command, a process group leader
        self.doomed: dict[bytes, None] = {}  # nonces of commands to kill once they are seen or started
        self.score, self.scores = -1, [b"", b""]  # descriptor of our OOM score; our score, commands' score
        self.reported = False  # whether reapers reported since the last check
        self.inbox, self.report = os.pipe()
        self.wake, self.alarm = os.pipe()
        os.set_blocking(self.alarm, False)

    def serve(self) -> None:
        _signal.signal(SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self.alarm, warn_on_full_buffer=False)
        poll = select.poll()
        for fd in (self.control.fileno(), self.wake, self.inbox):
            poll.register(fd, select.POLLIN)
        has_idle = self.fork_reaper()
        self.control.sendmsg([b"ready"])
        while True:
            ready = {fd for fd, _ in poll.poll(0 if self.reported else None if has_idle else RETRY_MS)}
            if self.inbox in ready:
                self.read_reports()
            if self.wake in ready:
                self.collect_children()
            if self.control.fileno() in ready and not self.answer():
                return
            has_idle = b"" in self.reapers.values() or self.fork_reaper()
            doomed, self.reported = self.doomed.keys() & self.reapers.values() if self.reported else (), False
            for nonce in doomed:  # not in `read_reports`: `kill` would recurse, and wake what it stopped
                self.kill(nonce)

    def fork_reaper(self) -> bool:
        """Fork a reaper. If the process limit forbids it, the caller retries later."""
        attempt(os.write, self.score, self.scores[1])  # inherited: the kernel then kills commands first
        pid = attempt(os.fork)
        if pid == 0:
            try:
                self.control.close()
                reap(self.work, self.report, self.limits)
            finally:
                os._exit(1)
        attempt(os.write, self.score, self.scores[0])
        if pid:
            self.reapers[pid] = b""
        return pid is not None

    def read_reports(self) -> None:
        """Read which reaper has taken which command, and which is free again."""
        lines = os.read(self.inbox, 65536).splitlines() if select.select([self.inbox], [], [], 0)[0] else []
        self.reported = self.reported or bool(lines)
        for reaper, nonce, leader in (line.split(b" ") for line in lines):
            if (pid := int(reaper)) in self.reapers:
                if not nonce:
                    self.doomed.pop(self.reapers[pid], None)
                self.reapers[pid], self.leaders[pid] = nonce, int(leader)

    def collect_children(self) -> None:
        """Collect the exit of every dead child; if a reaper was killed, kill the processes below it."""
        os.read(self.wake, 4096)
        orphaned = False
        while (dead := attempt(os.wait4, -1, os.WNOHANG)) and dead[0]:
            orphaned |= self.reapers.pop(dead[0], None) is not None and os.WIFSIGNALED(dead[1])
        if orphaned:
            self.kill_below(self.me, spare=set(self.reapers))

    def answer(self) -> bool:
        frame, fds = receive(self.control)
        if not frame:
            return False
        operation, *fields = frame.split(b"\0")
        if operation in (b"kill", b"end"):
            self.kill(fields[0], end=operation == b"end")
        elif operation == b"signal":
            attempt(os.kill, -int(fields[0]), int(fields[1]))
        elif operation == b"clear":
            self.kill_below(self.me, spare=set(self.reapers), through=True)
            self.resume_reapers()  # not before: a process that stops them existed until now
            self.control.sendmsg([b"done\0%s\x000" % fields[0]])
        elif operation == b"resume":  # no reaper takes a command: something has stopped them
            self.resume_reapers()
        elif operation in (b"connect", b"listen"):
            self.tcp(operation, *fields)
        elif operation == b"score":
            self.score, self.scores = fds[0], fields
        return True

    def resume_reapers(self) -> None:
        for pid in self.reapers:
            attempt(os.kill, pid, SIGCONT)

    def kill(self, nonce: bytes, end: bool = False) -> None:
        """Kill one command with all it started. Its reaper is stopped meanwhile: it might finish this
        command and take the next, and the wrong one would be killed. `end` is for a reaper that is
        blocked."""
        self.read_reports()
        for pid, name in list(self.reapers.items()):
            if name == nonce:
                attempt(os.kill, pid, SIGSTOP)
                deadline = time.monotonic() + STOP_TIMEOUT_S
                while read_stat(str(pid))[:1] == [b"R"] and time.monotonic() < deadline:
                    pass  # a sleeping reaper will stop before it does anything else
                self.read_reports()
                if self.reapers.get(pid) == nonce:
                    if read_stat(str(self.leaders[pid]))[1:2] == [b"%d" % pid]:
                        # Immediately: listing hundreds of processes takes long.
                        attempt(os.kill, -self.leaders[pid], SIGKILL)
                    self.kill_below(pid, spare=set())
                    # The host takes the reaper's end for that of all below it, so they must be dead by then.
                    attempt(os.kill, pid, SIGKILL if end and not below(pid, set(), False)[0] else SIGCONT)
                attempt(os.kill, pid, SIGCONT)
        self.doomed[nonce] = None  # it may not have been seen or started yet: its reaper will report it
        if len(self.doomed) > MAX_DOOMED:
            del self.doomed[next(iter(self.doomed))]

    def kill_below(self, root: int, spare: set[int], through: bool = False) -> None:
        """Kill all processes below `root`. A process that was sent SIGKILL cannot fork any more. So
        nothing is left when a listing shows no new process, not even a zombie of one that forked and ended
        meanwhile. Processes in `spare` are not killed, nor those below them unless `through`."""
        deadline, before = time.monotonic() + KILL_S, [0]
        killed: set[tuple[int, bytes]] = set()
        for rounds in itertools.count():
            living, all_pids = below(root, spare, through)
            targets = [each for each in living if each not in killed]
            if not targets and all_pids == before:
                return
            before = all_pids
            if self.jailed and rounds > KILL_ROUNDS and time.monotonic() > deadline:
                os.kill(-1, SIGKILL)  # reapers too: the host then considers all ended, so they must be
                list(iter(lambda: attempt(os.wait4, -1, 0), None))
                return self.reapers.clear()
            for pid, _ in targets:
                attempt(os.kill, pid, SIGKILL)
            killed.update(targets)

    def tcp(self, operation: bytes, number: bytes, host: bytes, port: bytes) -> None:
        """Send the host a listening socket, or one that is connecting; the host waits for the rest."""
        sock = _socket.socket(_socket.AF_INET6 if b":" in host else _socket.AF_INET, _socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        try:
            failed = 0
            if operation == b"listen":
                sock.bind((host.decode(), int(port)))
                sock.listen(128)
            else:
                sock.connect((host.decode(), int(port)))
        except BlockingIOError:
            pass
        except OSError as error:
            failed = abs(error.errno or 1)
        fd = sock.fileno().to_bytes(4, sys.byteorder)
        rights = [] if failed else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd)]
        self.control.sendmsg([b"socket\0%s\0%d" % (number, failed)], rights)
        sock.close()


def receive(sock: _socket.socket) -> tuple[bytes, list[int]]:
    """One frame and the descriptors that came with it, none of which a command will inherit."""
    frame, passed, *_ = sock.recvmsg(FRAME_BYTES, _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS), MSG_CMSG_CLOEXEC)
    fds = [
        int.from_bytes(data[at : at + 4], sys.byteorder)
        for level, kind, data in passed
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS
        for at in range(0, len(data) - 3, 4)
    ]
    if frame == b"long":  # too long for a frame: the request is in a file
        with open(fds.pop(0), "rb") as file:
            frame = file.read()
    return frame, fds


def read_stat(pid: str) -> list[bytes]:
    """The fields of a process in /proc, from its state on; [] when it has ended."""
    try:
        with open("/proc/" + pid + "/stat", "rb", 0) as file:
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return []


def below(root: int, spare: set[int], through: bool) -> tuple[list[tuple[int, bytes]], list[int]]:
    """The living processes below `root` as (pid, start time), parents first, and all of them; from one
    listing of /proc."""
    children: dict[int, list[int]] = {}
    started: dict[int, bytes] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := read_stat(name)):
            pid = int(name)
            children.setdefault(int(seen[1]), []).append(pid)
            if seen[0] not in b"ZX":
                started[pid] = seen[19]
    found = []
    queue = [root]
    for parent in queue:
        for pid in children.get(parent, ()):
            if pid in spare and not through:
                continue
            queue.append(pid)
            if pid in started and pid not in spare:
                found.append((pid, started[pid]))
    return found, queue


def reap(work: _socket.socket, report: int, limits: bytes) -> None:
    """Wait for a command, start it, be its parent until its last descendant has ended; repeat."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    _signal.set_wakeup_fd(-1)
    _signal.signal(SIGCHLD, _signal.SIG_DFL)
    # A careless `pkill -f` or `kill -TERM -1` inside must not end the reaper.
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _signal.valid_signals())
    os.nice(NICENESS)
    limit(limits)
    warm_up()
    me, used = os.getpid(), False
    while True:
        try:
            frame, fds = receive(work)
        except BlockingIOError:  # no command for IDLE_S
            if used:
                return
            continue
        if not frame:
            return
        used = True
        nonce, own_limits, rest = frame.split(b"\0", 2)
        status = fds.pop(0)
        os.write(report, b"%d %s 0\n" % (me, nonce))
        # After this message no other reaper gets the command; if it cannot be sent, that was withdrawn.
        pid = begin(rest, own_limits, status, fds) if attempt(os.write, status, b"taken %d\n" % me) else 0
        os.write(report, b"%d %s %d\n" % (me, nonce, pid))  # again: a kill in between has found no process
        for fd in fds:
            os.close(fd)
        while dead := attempt(os.wait4, -1, 0):
            if dead[0] == pid:
                exited, usage = os.waitstatus_to_exitcode(dead[1]), dead[2]
                cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)
                attempt(os.write, status, b"ended %d %d %d\n" % (exited, cpu_us, usage.ru_maxrss))
        os.close(status)  # first: a kill no longer reaches a reaper that counts as free
        os.write(report, b"%d  0\n" % me)
        if own_limits:  # which also apply to us, and cannot be undone
            return


def warm_up() -> None:
    """Start a command that does not exist: after a fork each first write to a page costs a fault, and all
    of them together as much as starting a command."""
    null = os.open("/dev/null", os.O_WRONLY)
    fds = [os.dup(null) for _ in range(3)]
    words = [b"ioe", b"", b"/", b"2", b"/nowhere/program", b"argument"]
    begin(b"\0".join(words + [b"NAME%d=a value" % number for number in range(20)]), b"", null, fds)
    for fd in (null, *fds):
        os.close(fd)


def begin(command: bytes, limits: bytes, status: int, fds: list[int]) -> int:
    """Start a command, or report why not."""
    step = b"start"
    try:
        kinds, terminal, cwd, words, *rest = command.split(b"\0")
        step = b"cwd"
        os.chdir(cwd)
        step = b"limits"
        limit(limits)
        step = b"exec"
        argv, env = rest[: int(words)], dict(pair.split(b"=", 1) for pair in rest[int(words) :])
        pipes = dict(zip(kinds.decode(), fds))  # noqa: B905 (Python 3.9)
        gate = pipes.pop("g", -1)  # the host limits our memory first
        pid = start(argv, env, stdio(pipes, terminal)) if gate < 0 or os.read(gate, 1) else 0
        attempt(os.write, status, b"started %d\n" % pid)
        return pid
    except OSError as error:
        attempt(os.write, status, b"failed %s %d\n" % (step, error.errno or 0))
        return 0


def limit(limits: bytes) -> None:
    """Set limits, which everything started from here inherits."""
    for each in limits.split():
        number, soft, hard = (int(part) for part in each.split(b":"))
        maximum = resource.getrlimit(number)[1]
        if maximum != resource.RLIM_INFINITY:  # the host's own hard limit cannot be exceeded
            soft, hard = min(soft, maximum), min(hard, maximum)
        resource.setrlimit(number, (soft, hard))


def stdio(pipes: dict[str, int], terminal: bytes) -> "list[tuple[object, ...]]":
    """The file actions for descriptors 0, 1 and 2 of the command, and 3 beside a terminal."""
    if terminal:  # opened by a new session's leader, it becomes the controlling terminal
        pairs = [(0, 1), (0, 2), *((fd, 3) for fd in pipes.values())]
        return [(OPEN, 0, terminal, os.O_RDWR, 0), *((DUP2, *pair) for pair in pairs)]
    return [
        (DUP2, pipes[kind], target) if kind in pipes else (OPEN, target, b"/dev/null", os.O_RDWR, 0)
        for target, kind in enumerate("ioe")
    ]


def start(argv: list[bytes], env: dict[bytes, bytes], actions: "list[tuple[object, ...]]") -> int:
    """Start the first program of that name on PATH, with posix_spawn, since it does not copy our memory."""
    path = argv[0]
    if b"/" not in path:
        directories = env.get(b"PATH", b"/usr/bin:/bin").split(b":")
        found = [name for directory in directories if os.access(name := directory + b"/" + path, os.F_OK)]
        path = next((name for name in found if os.access(name, os.X_OK)), (found or [b"/nowhere"])[0])
    # No signal stays ignored: Python and the warden ignore some, and Hutch inherits more, as from nohup.
    return os.posix_spawn(
        path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_signal.valid_signals()
    )


def main() -> None:
    prctl(PR_SET_DUMPABLE, 0)
    control_fd, work_fd, processes = map(int, sys.argv[1:4])
    limits, jailed = os.fsencode(sys.argv[4]), sys.argv[5] == "jailed"
    _signal.signal(SIGINT, _signal.SIG_IGN)  # otherwise a SIGINT from inside would end Python
    if jailed:
        maximum = processes + SPARE_PROCESSES
        resource.setrlimit(resource.RLIMIT_NPROC, (maximum, maximum))
    else:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, control_fd)
    work = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, work_fd)
    idle = IDLE_TIMEOUT_S.to_bytes(8, sys.byteorder) + bytes(8)  # struct timeval
    work.setsockopt(_socket.SOL_SOCKET, SO_RCVTIMEO, idle)
    null = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(null, target)
        os.set_inheritable((control_fd, work_fd, null)[target], False)
    warden = Warden(control, work, limits, jailed)
    try:
        warden.serve()
    finally:
        if not jailed:
            warden.kill_below(warden.me, spare=set())


main()
