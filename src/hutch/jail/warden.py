"""The first process of a jail: it starts what the host asks for, and loses sight of nothing.

One file without imports of Hutch's own, copied into the jail and run there by
the system's Python with `-I -S`. The host opens the pipes and passes their
ends, so output never goes through here. Modules are the bare C ones where a
Python wrapper would double the time to start.

Every command gets a *reaper*: a fork of the warden that is a child subreaper
and the command's parent. Whatever the command starts, however often it forks,
detaches or clears its environment, stays below its reaper, because the kernel
hands every orphan to the nearest subreaper above it. (A mark in the environment
can be wiped, a session left, and a cgroup is not to be had everywhere.) The
reaper reports the command's end on a pipe of its own and goes when the last
descendant has gone, so end of file on that pipe means that nothing is left.
One reaper is always forked ahead and waits for the next command, which
therefore costs no fork of Python.

A reaper runs at the command's uid and can be killed by it. Then its orphans
fall to the warden, which nobody inside can kill; it ends every process that is
its child without being a reaper. A tree that forks faster than it can be
listed is ended with `kill(-1)`, which no fork outruns, and which takes the
jail's other commands with it.

Reapers and warden are not dumpable: no process here can trace them, read their
memory or take their descriptors.
"""

# ruff: noqa: SIM105, PTH123, PTH208 (contextlib and pathlib would be most of its start-up time)

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import os
import resource
import select
import sys
import time

FRAME_BYTES = 65536
MOST_DESCRIPTORS = 8
MSG_CMSG_CLOEXEC = 0x40000000
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
SIGINT, SIGKILL, SIGPIPE, SIGCHLD, SIGCONT, SIGXFSZ = 2, 9, 13, 17, 18, 25
EINPROGRESS = 115
SPARE_PROCESSES = 64  # for the warden itself, so that a fork bomb cannot keep it from forking
HUNT_S = 0.25
RETRY_MS = 50

_prctl = _ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl")  # type: ignore[arg-type]


def prctl(option: int, value: int) -> None:
    _ctypes.call_function(_prctl, (option, value, 0, 0, 0))


class Warden:
    """Serves the host until the host goes away.

    `control` carries requests about the jail, `work` the commands: the waiting
    reaper takes them from there itself.
    """

    def __init__(self, control: _socket.socket, work: _socket.socket, jailed: bool) -> None:
        self.control = control
        self.work = work
        self.jailed = jailed
        self.me = os.getpid()
        self.reapers: dict[int, bytes] = {}  # reaper's pid: its command's nonce, b"" while it waits
        self.waiting = 0  # the reaper that waits
        self.doomed: set[bytes] = set()  # to be killed as soon as they are seen
        self.news, self.tell = os.pipe()
        self.wake, self.alarm = os.pipe()
        for fd in (self.wake, self.alarm, self.news):
            os.set_blocking(fd, False)

    def serve(self) -> None:
        _signal.signal(SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self.alarm, warn_on_full_buffer=False)
        poll = select.poll()
        for fd in (self.control.fileno(), self.wake, self.news):
            poll.register(fd, select.POLLIN)
        self.post()
        self.control.sendmsg([b"ready"])
        while True:
            ready = {fd for fd, _ in poll.poll(None if self.waiting else RETRY_MS)}
            if self.news in ready:
                self.hear()
            if self.wake in ready:
                self.bury()
            if not self.waiting:
                self.post()
            if self.control.fileno() in ready and not self.answer():
                return

    def post(self) -> None:
        """Fork the reaper of the next command. If there is no room for one, try again later."""
        try:
            pid = os.fork()
        except OSError:
            self.waiting = 0
            return
        if pid:
            self.waiting = pid
            self.reapers[pid] = b""
            return
        try:
            self.control.close()
            reap(self.work, self.tell)
        finally:
            os._exit(1)

    def hear(self) -> None:
        """Learn which reaper has taken which command."""
        for line in os.read(self.news, 4096).splitlines():
            word, nonce = line.split()
            pid = int(word)
            if pid == self.waiting:
                self.waiting = 0
            if pid in self.reapers:
                self.reapers[pid] = nonce
                if nonce in self.doomed:
                    self.doomed.discard(nonce)
                    self.hunt(pid, spare=set())

    def bury(self) -> None:
        """Take the exit of every dead child; if a reaper was killed, end what it kept together."""
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            pass
        orphaned = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.waiting:
                self.waiting = 0
            if self.reapers.pop(pid, None) is not None and os.WIFSIGNALED(status):
                orphaned = True
        if orphaned:
            self.hunt(self.me, spare=set(self.reapers))

    def answer(self) -> bool:
        frame, fds = receive(self.control)
        for fd in fds:  # none are wanted here
            os.close(fd)
        if not frame:
            return False
        operation, *fields = frame.split(b"\0")
        if operation == b"kill":
            self.kill(fields[0])
        elif operation == b"signal":
            try:
                os.killpg(int(fields[0]), int(fields[1]))
            except OSError:
                pass
        elif operation == b"clear":
            for pid in self.reapers:
                os.kill(pid, SIGCONT)
            self.hunt(self.me, spare=set(self.reapers), through=True)
        elif operation == b"repost":  # the waiting reaper does not do its work: somebody has stopped it
            if self.waiting:
                os.kill(self.waiting, SIGKILL)
        elif operation == b"connect":
            self.connect(*fields)
        elif operation == b"listen":
            self.listen(*fields)
        return True

    def kill(self, nonce: bytes) -> None:
        for pid, name in self.reapers.items():
            if name == nonce:
                os.kill(pid, SIGCONT)  # in case the command has stopped it
                self.hunt(pid, spare=set())
                return
        self.doomed.add(nonce)

    def hunt(self, root: int, spare: set[int], through: bool = False) -> None:
        """Kill all below `root`. A process that was sent SIGKILL cannot fork any more, so once a look shows
        nobody new, nobody will come. Those in `spare` live on, and those below them unless `through`."""
        deadline = time.monotonic() + HUNT_S
        killed: set[tuple[int, bytes]] = set()
        while True:
            prey = below(root, spare, through) - killed
            if not prey:
                return
            for pid, _ in prey:
                try:
                    os.kill(pid, SIGKILL)
                except ProcessLookupError:
                    pass
            killed |= prey
            if self.jailed and time.monotonic() > deadline:
                os.kill(-1, SIGKILL)
                return

    def connect(self, number: bytes, host: bytes, port: bytes) -> None:
        family = _socket.AF_INET6 if b":" in host else _socket.AF_INET
        sock = _socket.socket(family, _socket.SOCK_STREAM)
        sock.setblocking(False)
        failed = sock.connect_ex((host.decode(), int(port)))
        self.hand(number, sock, 0 if failed == EINPROGRESS else failed)  # the host waits for it

    def listen(self, number: bytes, host: bytes, port: bytes) -> None:
        sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        failed = 0
        try:
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            sock.bind((host.decode(), int(port)))
            sock.listen(128)
        except OSError as error:
            failed = error.errno or 1
        self.hand(number, sock, failed)

    def hand(self, number: bytes, sock: _socket.socket, failed: int) -> None:
        reply = b"\0".join((b"socket", number, b"%d" % failed))
        fd = sock.fileno().to_bytes(4, sys.byteorder)
        rights = [] if failed else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd)]
        self.control.sendmsg([reply], rights)
        sock.close()


def receive(sock: _socket.socket) -> tuple[bytes, list[int]]:
    """One frame and the descriptors that came with it, none of which a command will inherit."""
    room = _socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)
    frame, passed, _, _ = sock.recvmsg(FRAME_BYTES, room, MSG_CMSG_CLOEXEC)
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


def below(root: int, spare: set[int], through: bool) -> set[tuple[int, bytes]]:
    """The living processes below `root` as (pid, start time), from one look at /proc."""
    children: dict[int, list[int]] = {}
    started: dict[int, bytes] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb", 0) as file:
                    state, parent, *rest = file.read(4096).rpartition(b")")[2].split()
            except OSError:
                continue
            pid = int(name)
            children.setdefault(int(parent), []).append(pid)
            if state not in b"ZX":
                started[pid] = rest[17]
    found = set()
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in spare:
                if pid in started:
                    found.add((pid, started[pid]))
            elif not through:
                continue
            queue.append(pid)
    return found


def reap(work: _socket.socket, tell: int) -> None:
    """Wait for a command, start it, and be its parent until the last of its descendants is gone."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    _signal.set_wakeup_fd(-1)
    _signal.signal(SIGCHLD, _signal.SIG_DFL)
    # A careless `pkill -f` or `kill -TERM -1` inside shall not take the reaper away.
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _signal.valid_signals())
    frame, (status, *fds) = receive(work)
    nonce, kinds, terminal, cwd, limits, words, *rest = frame.split(b"\0")
    step = b"start"
    try:
        os.write(tell, b"%d %s\n" % (os.getpid(), nonce))
        os.close(tell)
        work.close()
        step = b"cwd"
        os.chdir(cwd)
        step = b"limits"
        for limit in limits.split():
            number, soft, hard = (int(part) for part in limit.split(b":"))
            most = resource.getrlimit(number)[1]
            if most != resource.RLIM_INFINITY:  # what the host itself may not have cannot be given
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(number, (soft, hard))
        step = b"exec"
        argv, env = rest[: int(words)], dict(pair.split(b"=", 1) for pair in rest[int(words) :])
        pid = start(argv, env, stdio(dict(zip(kinds.decode(), fds)), terminal))  # noqa: B905 (Python 3.9)
        os.write(status, b"started %d\n" % pid)
    except OSError as error:
        os.write(status, b"failed %s %d\n" % (step, error.errno or 0))
        return
    for fd in fds:
        os.close(fd)
    while True:
        try:
            done, code, usage = os.wait4(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if done == pid:
            exited = os.waitstatus_to_exitcode(code)
            cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)
            os.write(status, b"ended %d %d %d\n" % (exited, cpu_us, usage.ru_maxrss))


def stdio(given: dict[str, int], terminal: bytes) -> list[tuple[int, ...]]:
    """What the command shall find on 0, 1 and 2."""
    actions: list[tuple[int, ...]] = []
    if terminal:  # opened by the leader of a new session, it becomes the controlling terminal
        actions.append((os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0))  # type: ignore[arg-type]
        return [*actions, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    for target, kind in enumerate("ioe"):
        if kind in given:
            actions.append((os.POSIX_SPAWN_DUP2, given[kind], target))
        else:
            null = (os.POSIX_SPAWN_OPEN, target, b"/dev/null", os.O_RDWR, 0)
            actions.append(null)  # type: ignore[arg-type]
    return actions


def start(argv: list[bytes], env: dict[bytes, bytes], actions: list[tuple[int, ...]]) -> int:
    """Start the first program of that name on PATH; posix_spawn, since it does not copy our memory."""
    paths = [argv[0]]
    if b"/" not in argv[0]:
        paths = [place + b"/" + argv[0] for place in env.get(b"PATH", b"/usr/bin:/bin").split(b":")]
        paths = [path for path in paths if os.access(path, os.F_OK)] or paths[-1:]
    refused = None
    for path in paths:
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=(SIGINT, SIGPIPE, SIGXFSZ),  # what Python and the warden ignore
            )
        except OSError as error:
            refused = error
    raise refused or FileNotFoundError(2, "not found")


def main() -> None:
    prctl(PR_SET_DUMPABLE, 0)
    control_fd, work_fd, processes, mode = (*map(int, sys.argv[1:4]), sys.argv[4])
    _signal.signal(SIGINT, _signal.SIG_IGN)  # Python would turn a SIGINT from inside into its own end
    if mode == "jailed":
        most = processes + SPARE_PROCESSES
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    else:
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    for fd in (control_fd, work_fd):
        os.set_inheritable(fd, False)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, control_fd)
    work = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, work_fd)
    null = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(null, target)
    warden = Warden(control, work, mode == "jailed")
    try:
        warden.serve()
    finally:
        if mode != "jailed":
            warden.hunt(warden.me, spare=set())


main()
