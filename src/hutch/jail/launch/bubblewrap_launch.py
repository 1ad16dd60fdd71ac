"""Starts a jail with the right user and the right descriptors, and nothing else.

One thread, which lives as long as the process, starts bubblewrap, because the kernel
ties "die with your parent" to the thread that forked. That thread also gets its own
mount namespace when a directory must appear in the jail under another owner, or exists
only there.
"""

import asyncio
import os
import queue
import resource
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from importlib import resources
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.jail.jail_directory_and_namespaces import JailLocation, Namespaces
from hutch.jail.launch import seccomp
from hutch.jail.launch.idmapped_mount import idmapped, in_mount_namespace, in_private_directory, reachable
from hutch.jail.launch.jail_uid import KERNEL_ROOT, Identity
from hutch.jail.launch.visible_system_files import this_system
from hutch.jail.policy import KIB, MIB, WARDEN, WARDEN_PROGRAM, Policy, arguments, etc_files
from hutch.jail.shell_prompt_marks import shell_files
from hutch.system.lazy_dataclass import dataclass

SETPRIV = "/usr/bin/setpriv"
NSENTER = "/usr/bin/nsenter"
# Limits that commands would otherwise inherit from us: real-time and raised priority, and resources that the
# kernel counts per user rather than per process.
INHERITED = {
    resource.RLIMIT_CORE: 1,  # with 0 the kernel still starts the host's handler of core dumps
    resource.RLIMIT_RTPRIO: 0,
    resource.RLIMIT_NICE: 0,
    resource.RLIMIT_MEMLOCK: 8 * MIB,
    resource.RLIMIT_MSGQUEUE: 800 * KIB,
    resource.RLIMIT_SIGPENDING: 4096,
}
MAX_OPEN_FILES = 1 << 20


@dataclass(frozen=True, slots=True)
class Launched:
    """A warden that is starting: its sockets, its outer process, and a descriptor of its stderr."""

    control: socket.socket
    work: socket.socket
    process: "subprocess.Popen[bytes]"
    stderr_fd: int

    def read_error(self) -> str:
        """The last line that bubblewrap has printed; empty if there is none."""
        try:
            lines = os.read(self.stderr_fd, 65536).decode(errors="replace").strip().splitlines()
        except BlockingIOError:
            return ""
        return lines[-1] if lines else ""

    def discard(self) -> None:
        """End a warden that is not needed any more."""
        self.process.kill()
        self.process.wait()
        self.control.close()
        self.work.close()
        os.close(self.stderr_fd)


async def launch(
    location: JailLocation, policy: Policy, identity: Identity, *, has_cgroup: bool, rlimits: str
) -> Launched:
    """Start bubblewrap with a warden in it. `rlimits` apply to commands that come without their own."""
    return await _in_launcher(
        lambda: _launch(location, policy, identity, has_cgroup=has_cgroup, rlimits=rlimits)
    )


async def launch_unsafe(workspace: Path, *, rlimits: str) -> Launched:
    """Start a warden without a jail around it."""
    return await _in_launcher(lambda: _launch_unsafe(workspace, rlimits))


def _launch(
    location: JailLocation, policy: Policy, identity: Identity, *, has_cgroup: bool, rlimits: str
) -> Launched:
    path = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise Unavailable(
            "bwrap is not installed, and nothing runs without a jail. "
            "Install it: sudo apt-get install -y bubblewrap"
        )
    system = this_system()
    with ExitStack() as stack:
        visible, prefix = [location.directory, *location.beside], nsenter_prefix(location.namespaces)
        sources: dict[str, str] = {}
        if os.geteuid() == KERNEL_ROOT:
            if location.namespaces is None:
                visible = stack.enter_context(idmapped(visible, uid=identity.uid, gid=identity.gid))
            else:
                stack.enter_context(in_mount_namespace(location.namespaces.mount))
            private = [path for path in policy.readonly if in_private_directory(Path(path))]
            if private:
                found = stack.enter_context(reachable([Path(path) for path in private]))
                sources = dict(zip(private, map(str, found), strict=True))
        files = {
            **etc_files(identity.uid, identity.gid, policy.git_author),
            **shell_files(),
            WARDEN: warden_source(),
        }
        fds = {name: _memory_file(stack, text.encode()) for name, text in files.items()}
        filter_fd = _memory_file(stack, seccomp.program(seccomp.this_machine(), has_cgroup=has_cgroup))
        options = arguments(
            replace(policy, hidden=tuple(each for each in policy.hidden if Path(each).is_dir())),
            system,
            workspace=str(visible[0]),
            uid=identity.uid,
            gid=identity.gid,
            files=fds,
            seccomp_fd=filter_fd,
            beside=list(zip(map(str, visible[1:]), map(str, location.beside), strict=True)),
            sources=sources,
        )
        options_fd = _memory_file(stack, b"".join(os.fsencode(word) + b"\0" for word in options))
        return _start(
            [*prefix, path, "--args", str(options_fd), "--", WARDEN_PROGRAM, "-I", "-S", WARDEN],
            [str(policy.limits.processes), f"{rlimits} {fixed_rlimits(policy.limits.open_files)}", "jailed"],
            identity=identity if os.geteuid() == KERNEL_ROOT else None,
            pass_fds=[*fds.values(), filter_fd, options_fd],
            cwd=Path("/"),
        )


def nsenter_prefix(namespaces: Namespaces | None) -> list[str]:
    """The prefix of a command line that starts a program in those namespaces, without a descriptor of
    them."""
    if namespaces is None or namespaces.user is None:
        return []
    if not Path(NSENTER).exists():
        raise Unavailable(f"{NSENTER} is missing. Install it: sudo apt-get install -y util-linux")
    # Opened through our /proc, not inherited: bubblewrap and the jail would inherit the descriptors too.
    ours = f"/proc/{os.getpid()}/fd"
    return [
        *(NSENTER, f"--user={ours}/{namespaces.user}", f"--mount={ours}/{namespaces.mount}"),
        *("--preserve-credentials", "--"),
    ]


def fixed_rlimits(open_files: int) -> str:
    """Limits that no command can exceed. The kernel counts descriptors in flight by user, and refuses a
    process that may open fewer than there are: a jail must be refused before we are."""
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    values = INHERITED | {resource.RLIMIT_NOFILE: min(open_files, ours * 3 // 4)}
    return " ".join(f"{kind}:{maximum}:{maximum}" for kind, maximum in values.items())


def raise_open_files() -> None:
    """Raise our own limit: each command takes descriptors of ours, and the default of 1,024 is for
    programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    maximum = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < maximum:
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, hard))


def _launch_unsafe(workspace: Path, rlimits: str) -> Launched:
    with ExitStack() as stack:
        source = _memory_file(stack, warden_source().encode())
        argv = [this_system().python, "-I", "-S", f"/proc/self/fd/{source}"]
        return _start(argv, ["0", rlimits, "unsafe"], identity=None, pass_fds=[source], cwd=workspace)


def warden_source() -> str:
    """The source of the warden, since the jail's user may not be able to read its file."""
    return resources.files("hutch.jail.launch").joinpath("warden.py").read_text()


def _start(
    argv: Sequence[str],
    words: Sequence[str],
    *,
    identity: Identity | None,
    pass_fds: Sequence[int],
    cwd: Path,
) -> Launched:
    """Run the program with its ends of two new sockets, and as `identity` if there is one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    work, their_work = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    work.setblocking(False)
    # From the first frame on, the kernel adds which process sent it.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    ours.setblocking(False)
    stderr_fd, stderr_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process = subprocess.Popen(
            [*_setpriv_prefix(identity), *argv, str(theirs.fileno()), str(their_work.fileno()), *words],
            env={},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr_end,
            pass_fds=(*pass_fds, theirs.fileno(), their_work.fileno()),
            umask=0o022,
            # Not in our process group: a Ctrl-C meant for us would end the jail.
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        work.close()
        os.close(stderr_fd)
        who = f" as uid {identity.uid}" if identity else ""
        raise Unavailable(
            f"Cannot start {argv[0]}{who}: {error}. `hutch doctor` shows what is missing."
        ) from error
    finally:
        theirs.close()
        their_work.close()
        os.close(stderr_end)
    return Launched(ours, work, process, stderr_fd)


def _setpriv_prefix(identity: Identity | None) -> tuple[str, ...]:
    """The prefix of a command line that drops privileges to another user.

    Python could drop them itself, but would then copy all its page tables for the new process, of which a
    server has many.
    """
    if identity is None:
        return ()
    return (SETPRIV, f"--reuid={identity.uid}", f"--regid={identity.gid}", "--clear-groups", "--")


def _memory_file(stack: ExitStack, data: bytes) -> int:
    fd = os.memfd_create("hutch", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


Work = Callable[[], Launched]


class Launcher:
    """The thread that starts jails, one after the other."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Work, Future[Launched]]] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="hutch-launcher", daemon=True)
        self.thread.start()

    def submit(self, work: Work) -> "Future[Launched]":
        future: Future[Launched] = Future()
        self._queue.put((work, future))
        return future

    def _work(self) -> None:
        while True:
            work, future = self._queue.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 (raised where the future is awaited)
                    future.set_exception(error)


_starting = threading.Lock()
_launcher: Launcher | None = None


async def _in_launcher(work: Work) -> Launched:
    global _launcher
    with _starting:
        if _launcher is None or not _launcher.thread.is_alive():  # a forked process has lost the thread
            raise_open_files()
            _launcher = Launcher()
    future = _launcher.submit(work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(_discard)
        raise


def _discard(future: "Future[Launched]") -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().discard()
