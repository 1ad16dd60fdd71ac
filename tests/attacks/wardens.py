"""A hostile warden that uses the control protocol.

No attack from inside is known to get this far. In most of these scenes the warden's
source is replaced by a hostile program, in a real jail.
"""

import array
import asyncio
import contextlib
import os
import socket
from collections import Counter
from pathlib import Path

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail import command_process as process_module
from hutch.jail.launch import bubblewrap_launch
from hutch.jail.launch import warden_control as control_module
from hutch.jail.launch.warden_control import Control, ForeignSocket

from .attack import Scenes
from .waiting import TIMEOUT_S, until, until_neighbour_runs

scene = Scenes()

FRAME = """
import array, os, socket, sys, time
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, int(sys.argv[1]))
def say(frame, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    control.sendmsg([frame], rights)
def server():
    return socket.create_server(("127.0.0.1", 0))
def answer(number, fds=(), failed=b"0"):
    say(b"socket\\0" + number + b"\\0" + failed, fds)
def receive():
    return control.recv(65536).split(b"\\0")
say(b"ready")
"""
HONEST = """
while True:
    asked = receive()
    if asked[0] == b"listen":
        sock = socket.create_server(("127.0.0.1", 0))
        say(b"socket\\0" + asked[1] + b"\\0" + b"0", [sock.fileno()])
"""


@contextlib.asynccontextmanager
async def turned(setup, behaviour: str):
    """A jail with another program as its warden."""
    true_source = bubblewrap_launch.warden_source
    bubblewrap_launch.warden_source = lambda: FRAME + behaviour
    try:
        async with setup.jail() as jail:
            yield jail
    finally:
        bubblewrap_launch.warden_source = true_source


def descriptors() -> Counter[str]:
    """The open descriptors of this process, without those that watchers open in /proc."""
    found: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[os.readlink(link)] += 1  # noqa: PTH115 (what is open may be no path)
    return Counter({name: count for name, count in found.items() if not name.startswith("/proc/")})


async def expect_descriptors_closed(before: Counter[str]) -> None:
    """Descriptors pushed to the host are closed again. Others open some meanwhile, but not for long."""
    try:
        await until(lambda: not descriptors() - before)
    except TimeoutError:
        raise AssertionError(f"the host keeps {descriptors() - before}") from None


async def ended(jail, deed, *, why: str) -> None:
    """The host reports it soon, and the jail has ended."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await deed
    except Unavailable as error:
        assert why in str(error), error
    else:
        raise AssertionError("the host took it")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await jail.run(["true"], timeout_s=TIMEOUT_S / 2)
    except HutchError:
        return
    raise AssertionError("the jail continues")


async def honest(setup) -> None:
    """The control: from the same process, a valid answer is accepted."""
    async with turned(setup, HONEST) as jail:
        async with asyncio.timeout(TIMEOUT_S):
            sock = await jail.listen()
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        sock.close()


LIES = {
    "garbage": ("answer with garbage", "say(os.urandom(100))"),
    "other-number": (
        "answer a request that was never made",
        'say(b"socket\\0" + b"999999" + b"\\0" + b"0", [1])',
    ),
    "negative-number": ("answer with a negative number", 'say(b"socket\\0-1\\0" + b"0", [1])'),
    "huge-number": ("answer with a number of 400 digits", 'say(b"socket\\0" + b"9" * 400 + b"\\0" + b"0")'),
    "huge-frame": ("answer with a frame of 150 kB", 'say(b"socket\\0" + asked[1] + b"\\0" + b"0" * 150000)'),
    "no-descriptor": ("promise a socket and pass none", 'say(b"socket\\0" + asked[1] + b"\\0" + b"0")'),
    "two-descriptors": (
        "pass two sockets for one",
        "s = server(); answer(asked[1], [s.fileno()] * 2)",
    ),
    "many-descriptors": (
        "pass 200 descriptors",
        "s = server(); answer(asked[1], [s.fileno()] * 200)",
    ),
    "descriptor-with-failure": (
        "pass a descriptor along with a failure",
        's = server(); answer(asked[1], [s.fileno()], b"13")',
    ),
    "a-file": (
        "pass a file for a socket",
        'say(b"socket\\0" + asked[1] + b"\\0" + b"0", [os.open("/etc/passwd", 0)])',
    ),
    "a-unix-socket": (
        "pass a unix socket for TCP",
        's, t = socket.socketpair(); say(b"socket\\0" + asked[1] + b"\\0" + b"0", [s.fileno()])',
    ),
    "a-datagram-socket": (
        "pass a UDP socket for TCP",
        's = socket.socket(2, 2); say(b"socket\\0" + asked[1] + b"\\0" + b"0", [s.fileno()])',
    ),
    "the-control-socket": (
        "pass the control socket itself",
        'say(b"socket\\0" + asked[1] + b"\\0" + b"0", [control.fileno()])',
    ),
    "not-listening": (
        "pass a socket that does not listen",
        's = socket.socket(); say(b"socket\\0" + asked[1] + b"\\0" + b"0", [s.fileno()])',
    ),
    "empty-frame": ("send an empty frame", 'say(b"")'),
    "ready-again": ("send ready a second time", 'say(b"ready")'),
    "by-a-child": (
        "let another process answer",
        's = socket.create_server(("127.0.0.1", 0))\n    if os.fork() == 0:\n'
        '        say(b"socket\\0" + asked[1] + b"\\0" + b"0", [s.fileno()]); os._exit(0)\n    time.sleep(5)',
    ),
    "hang-up": ("close the socket in the middle", "control.close(); time.sleep(5)"),
    "die": ("die in the middle", "os._exit(3)"),
}


def _lie_scenes() -> None:
    for name, (text, behaviour) in LIES.items():

        async def lie(setup, behaviour=behaviour, name=name) -> None:
            await setup.lasting("neighbour")
            before = descriptors()
            async with turned(setup, f"while True:\n    asked = receive()\n    {behaviour}\n") as jail:
                if (
                    name == "not-listening"
                ):  # refused without ending the jail, whose warden is not our concern
                    with contextlib.suppress(Unavailable):
                        async with asyncio.timeout(TIMEOUT_S):
                            await jail.listen()
                        raise AssertionError("the host took it")
                else:
                    silent = name in ("empty-frame", "hang-up", "die")
                    await ended(jail, jail.listen(), why="has ended" if silent else "broke the protocol")
            await expect_descriptors_closed(before)
            await honest(setup)

        lie.__name__ = f"warden_{name.replace('-', '_')}"
        scene(
            "protocol",
            f"a hostile warden: {text}",
            control="a true answer from the same process is accepted",
        )(lie)


_lie_scenes()


@scene("protocol", "a hostile warden: answer twice", control="the first answer is accepted")
async def warden_answers_twice(setup) -> None:
    twice = (
        "while True:\n    asked = receive()\n    s = socket.create_server(('127.0.0.1', 0))\n"
        "    for _ in range(2): say(b'socket\\0' + asked[1] + b'\\0' + b'0', [s.fileno()])\n"
    )
    before = descriptors()
    async with turned(setup, twice) as jail:
        async with asyncio.timeout(TIMEOUT_S):
            (await jail.listen()).close()
        await asyncio.sleep(0.1)
    await expect_descriptors_closed(before)


@scene("protocol", "a hostile warden: flood the host with frames",
       control="the neighbour's commands run meanwhile")  # fmt: skip
async def warden_floods(setup) -> None:
    flood = (
        "receive()\nend = time.time() + 99\n"
        "while time.time() < end: say(b'socket\\0' + b'1' + b'\\0' + b'1')\n"
    )
    async with turned(setup, flood) as jail, setup.watched("warden-floods") as busy:
        with contextlib.suppress(HutchError, OSError, TimeoutError):
            async with asyncio.timeout(2):
                await jail.listen()
        await until_neighbour_runs(busy, runs=3)


@scene("protocol", "a hostile warden: never send ready", control="the real warden is ready in time")
async def warden_never_ready(setup) -> None:
    true_source, true_wait = bubblewrap_launch.warden_source, control_module.READY_TIMEOUT_S
    bubblewrap_launch.warden_source, control_module.READY_TIMEOUT_S = (
        lambda: "import time\ntime.sleep(300)",
        1.0,
    )
    before = descriptors()
    try:
        try:
            async with asyncio.timeout(TIMEOUT_S), setup.jail():
                raise AssertionError("a silent warden was taken for ready")
        except Unavailable:
            pass
    finally:
        bubblewrap_launch.warden_source, control_module.READY_TIMEOUT_S = true_source, true_wait
    await expect_descriptors_closed(before)
    async with setup.jail() as jail:
        assert (await jail.run(["true"])).exit_code == 0


@scene("protocol", "a hostile warden: never answer; the caller must not wait for ever",
       control="the real warden answers immediately")  # fmt: skip
async def warden_never_answers(setup) -> None:
    await honest(setup)
    true_wait, control_module.ANSWER_TIMEOUT_S = control_module.ANSWER_TIMEOUT_S, 1.0
    try:
        async with turned(setup, "while True: receive()\n") as jail:
            async with asyncio.timeout(TIMEOUT_S):
                await jail.listen()
    except TimeoutError:
        raise AssertionError("listen() waits for ever") from None
    except (HutchError, OSError):
        pass
    finally:
        control_module.ANSWER_TIMEOUT_S = true_wait


@scene("protocol", "a hostile warden: take no commands; the caller gets its timeout",
       control="the real warden runs them")  # fmt: skip
async def warden_takes_no_commands(setup) -> None:
    async with setup.jail() as jail:
        assert (await jail.run(["true"])).exit_code == 0
    true_wait, process_module.KILL_TIMEOUT_S = process_module.KILL_TIMEOUT_S, 1.0
    try:
        async with turned(setup, "while True: receive()\n") as jail:
            with contextlib.suppress(HutchError):
                async with asyncio.timeout(TIMEOUT_S):
                    await jail.run(["true"], timeout_s=0.5)
    finally:
        process_module.KILL_TIMEOUT_S = true_wait


@scene("protocol", "a hostile warden: lie about a command's end",
       control="true messages on the same pipe are accepted")  # fmt: skip
async def warden_lies_about_ends(setup) -> None:
    words = {
        "ended 99999999 0 0": None,
        "ended 0 999999999999999999999 0": None,
        "started 0\nstarted 1\nended": None,
        "failed exec 99999999": None,
        "x" * 4000: None,
        "\0\n\n\n": None,
        "started 5\nended 3 10 20\nended 0 0 0": 3,
    }
    for text, code in words.items():
        behaviour = (
            "work = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, int(sys.argv[2]))\n"
            "while True:\n"
            "    frame, passed, _, _ = work.recvmsg(65536, 1024)\n"
            "    fds = array.array('i', b''.join(d for _, _, d in passed))\n"
            f"    os.write(fds[0], {text.encode()!r} + b'\\n')\n"
            "    for fd in fds: os.close(fd)\n"
        )
        async with turned(setup, behaviour) as jail:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    done = await jail.run(["true"])
                assert done.exit_code == code, (text[:40], done)
                assert code is not None or done.signal is not None
            except HutchError:
                assert code is None, text[:40]


@scene("protocol", "a hostile warden: keep a passed socket, and make it blocking while the host uses it",
       control="a plain socket's recv hangs in the same state")  # fmt: skip
async def warden_makes_socket_blocking(setup) -> None:
    behaviour = (
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "asked = receive()\n"
        "while asked[0] != b'connect': asked = receive()\n"
        "c = socket.create_connection(s.getsockname()); d = s.accept()[0]\n"
        "say(b'socket\\0' + asked[1] + b'\\0' + b'0', [c.fileno()])\n"
        "end = time.time() + 300\n"
        "while time.time() < end: c.setblocking(True)\n"
    )
    async with setup.watched("warden-makes-socket-blocking") as busy, turned(setup, behaviour) as jail:
        async with asyncio.timeout(TIMEOUT_S):
            sock = await jail.connect(80)
        await asyncio.sleep(0.1)
        for _ in range(20):
            with contextlib.suppress(BlockingIOError):
                sock.recv(1)
            await asyncio.sleep(0.01)
        assert isinstance(sock, ForeignSocket)
        assert busy.lag_s < TIMEOUT_S  # a recv that waits would wait for as long as the jail lives
        plain = socket.socket(fileno=os.dup(sock.fileno()))
        plain.setblocking(True)
        hanging = asyncio.create_task(asyncio.to_thread(plain.recv, 1))
        await asyncio.sleep(0.2)
        assert not hanging.done()
        sock.close()
    with contextlib.suppress(OSError):  # the jail has ended, and the connection with it
        plain.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        await hanging
    plain.close()


@scene("protocol", "forge the warden's first message from another uid or with a descriptor attached",
       control="the plain message from the right uid is accepted")  # fmt: skip
async def forged_ready(setup) -> None:
    for frame, uid, fds, taken in (
        (b"ready", os.geteuid() + 1, [], False),
        (b"ready", os.geteuid(), [0], False),
        (b"ready!", os.geteuid(), [], False),
        (b"socket\0001\0000", os.geteuid(), [], False),
        (b"ready", os.geteuid(), [], True),
    ):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        work, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.setblocking(False)
        broken: list[str] = []
        control = Control(ours, work, uid=uid, on_broken=broken.append)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        theirs.sendmsg([frame], rights)
        try:
            await control.ready()
            assert taken and not broken, frame
        except Unavailable:
            assert not taken and broken, frame
        control.close()
        theirs.close()
        other.close()
