"""The gateway's part in an attack: a process with secrets that opens jails.

A separate process, so that it can run as root and as an ordinary user in one test run.
Reads the names of attacks on stdin and answers with the outcome.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hutch.domain.errors import HutchError
from hutch.jail.interface import Exit, Finished, Size
from hutch.jail.jail_startup import Jailed, start_jail
from hutch.jail.launch import seccomp
from hutch.jail.launch.bubblewrap_launch import warden_source
from hutch.jail.launch.visible_system_files import this_system
from hutch.jail.policy import MIB, WARDEN, Limits, Policy, arguments, etc_files

from .attack import Bomb, Off, Probe, Scene
from .catalogue import ATTACKS
from .program import PYTHON, SMALL, program, verdict
from .waiting import TIMEOUT_S

PROBE_S = TIMEOUT_S
OPTION_WORDS = {"--seccomp": 2, "--remount-ro": 2, "--cap-drop": 2, "--ro-bind": 3, "--bind": 3}


@dataclass
class Busy:
    """How the host performed meanwhile."""

    ran: asyncio.Event = field(default_factory=asyncio.Event)
    lag_s: float = 0.0
    neighbour_runs: int = 0
    neighbour_s: float = 0.0


class AttackSetup:
    """The host, with targets worth attacking."""

    def __init__(self, world: Path, token: str) -> None:
        self.world = world
        self.token = token
        self.is_root = os.geteuid() == 0
        self.notes: list[str] = []
        self._stack = ExitStack()
        self._jails: dict[str, Jailed] = {}
        self._victims: dict[int, subprocess.Popen[bytes]] = {}
        self._count = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener6 = socket.create_server(("::1", 0), family=socket.AF_INET6) if socket.has_ipv6 else None
        self.abstract = f"hutch-attacks-{token}"
        self.abstract_listener = socket.socket(socket.AF_UNIX)
        self.abstract_listener.bind("\0" + self.abstract)
        self.abstract_listener.listen()
        self.unix_listener = socket.socket(socket.AF_UNIX)
        self.unix_listener.bind(str(world / "gateway" / "socket"))
        (world / "gateway" / "socket").chmod(0o777)
        self.unix_listener.listen()
        # A careless host: descriptors that would be inherited by anything started without care.
        self.leaked = os.open(world / "gateway" / "key", os.O_RDONLY)
        os.set_inheritable(self.leaked, True)
        os.set_inheritable(self.listener.fileno(), True)

    # --- places ---

    def directory(self, kind: str, *, uid: int | None = None) -> Path:
        self._count += 1
        made = self.world / "play" / f"{kind}-{self._count}"
        made.mkdir(mode=0o755)
        if uid is not None and self.is_root:
            os.chown(made, uid, uid)
        return made

    def policy(self, limits: Limits = SMALL, **changes: Any) -> Policy:
        return Policy(limits=limits, readonly=(str(self.world / "shared"),), **changes)

    @asynccontextmanager
    async def jail(
        self, limits: Limits = SMALL, *, owner: int | None = None, **changes: Any
    ) -> AsyncIterator[Jailed]:
        """A jail on a workspace of its own."""
        jail = await start_jail(self.directory("workspace", uid=owner), self.policy(limits, **changes))
        try:
            yield jail
        finally:
            await jail.close()

    @asynccontextmanager
    async def jail_on(self, place: Path, limits: Limits = SMALL, **changes: Any) -> AsyncIterator[Jailed]:
        jail = await start_jail(place, self.policy(limits, **changes))
        try:
            yield jail
        finally:
            await jail.close()

    def plainly(self, argv: list[str], uid: int) -> bytes:
        """The output of a command run by that user on the host. Blocks."""
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, cwd="/", **self.as_user(uid)).stdout

    async def lasting(self, kind: str) -> Jailed:
        """A jail that many attacks share; a new one after it was broken."""
        jail = self._jails.get(kind)
        if jail is not None:
            try:
                await jail.run(["true"], timeout_s=TIMEOUT_S)
                return jail
            except HutchError:
                await jail.close()
        limits = replace(SMALL, memory_bytes=256 * MIB)
        self._jails[kind] = jail = await start_jail(
            self.directory(kind, uid=self.owner if kind == "workspace" else None), self.policy(limits)
        )
        return jail

    @property
    def owner(self) -> int | None:
        """The owner of the workspaces under root: neither root nor the jail's user."""
        return 61_000 if self.is_root else None

    async def uid(self, jail: Jailed) -> int:
        return int((await jail.run(["id", "-u"])).stdout)

    def host(self, uid: int, *, jailed: bool = True) -> dict[str, Any]:
        """The attacker's knowledge of the host."""
        return {
            "token": self.token,
            "jailed": jailed,
            "tight": False,
            "world": str(self.world),
            "uid": uid,
            "gateway_pid": os.getpid(),
            "victim_pid": self.victim(uid).pid,
            "victim_dir": str(self.world / "victims" / str(uid)),
            "port": self.listener.getsockname()[1],
            "port6": self.listener6.getsockname()[1] if self.listener6 else 0,
            "abstract": self.abstract,
        }

    def victim(self, uid: int) -> "subprocess.Popen[bytes]":
        """A process on the host at the jail's uid, with secrets in all its state."""
        if uid not in self._victims or self._victims[uid].poll() is not None:
            home = self.world / "victims" / str(uid)
            home.mkdir(exist_ok=True)
            (home / "key").write_text(self.token)
            if self.is_root:
                for path in (home, home / "key"):
                    os.chown(path, uid, uid)
            with (home / "key").open() as key:
                self._victims[uid] = subprocess.Popen(
                    [f"sleep-{self.token}", "3600"],
                    executable="/bin/sleep",
                    env={"KEY": self.token},
                    cwd=home,
                    stdin=key,
                    **self.as_user(uid),
                )
        return self._victims[uid]

    def as_user(self, uid: int) -> dict[str, Any]:
        return {"user": uid, "group": uid, "extra_groups": []} if self.is_root else {}

    async def close(self) -> None:
        for jail in self._jails.values():
            await jail.close()
        for victim in self._victims.values():
            victim.kill()
            victim.wait()

    # --- probes ---

    async def probe(self, probe: Probe) -> str:
        jail = await self.lasting("workspace")
        uid = await self.uid(jail)
        argv, env = program(probe.program), {"HOST": json.dumps(self.host(uid))}
        if probe.terminal:
            return await self.on_terminal(jail, argv, env)
        self._count += 1
        place = f"{probe.name}-{self._count}"
        await jail.run(["mkdir", place])
        done = await jail.run(argv, env=env, cwd=place, timeout_s=PROBE_S)
        return describe(done)

    async def on_terminal(self, jail: Jailed, argv: list[str], env: Mapping[str, str]) -> str:
        process = await jail.spawn(argv, env=env, terminal=Size())
        said = b""
        try:
            async with asyncio.timeout(PROBE_S):
                assert process.stdout is not None
                while chunk := await process.stdout.read():
                    said += chunk
                await process.wait()
        finally:
            await process.kill()
            process.close()
        return verdict(said, end=repr(said[-500:]))

    async def control(self, probe: Probe) -> str:
        """The same program with its guard off, on the host or behind the remaining guards."""
        off = probe.off
        uid = 0 if off.root else await self.uid(await self.lasting("workspace"))
        host = json.dumps(self.host(uid, jailed=False))
        place = self.directory("control", uid=uid)
        argv = program(probe.program)
        extra: dict[str, Any] = {} if off.root else self.as_user(uid)
        with ExitStack() as stack:
            fds: list[int] = []
            if off.throwaway:
                argv = ["/usr/bin/unshare", "-Urmnpuif", "--mount-proc", "--kill-child", *argv]
            elif off.jail:
                options, fds = self.walls(stack, off, place, uid)
                argv = ["/usr/bin/bwrap", *options, "--", *argv]
            env = {"HOST": host} if not off.leaky else {"HOST": host, **os.environ}
            if off.leaky:
                fds += [self.leaked, self.listener.fileno()]
            return await asyncio.to_thread(
                outside, argv, env, place, fds, extra, probe.terminal or off.terminal
            )

    def walls(self, stack: ExitStack, off: Off, workspace: Path, uid: int) -> tuple[list[str], list[int]]:
        """The jail's own options, without those that are off."""
        files = {**etc_files(uid, uid), WARDEN: warden_source()}
        texts = {name: text.encode() for name, text in files.items()}
        fds = {name: memory_file(stack, text) for name, text in texts.items()}
        filter_fd = memory_file(stack, seccomp.program(seccomp.this_machine(), has_cgroup=self.is_root))
        options = arguments(
            self.policy(),
            this_system(),
            workspace=str(workspace),
            uid=uid,
            gid=uid,
            files=fds,
            seccomp_fd=filter_fd,
        )
        for unwanted in off.without:
            options = leave_out(options, unwanted.split())
        world = str(self.world)
        return [*options, *(word.replace("{world}", world) for word in off.also)], [*fds.values(), filter_fd]

    # --- bombs ---

    async def bomb(self, bomb: Bomb) -> str:
        async with self.jail(replace(SMALL, **bomb.tight), owner=self.owner) as jail, self.watched(bomb.name):
            try:
                done = await self.explode(jail, bomb, tight=True)
                await jail.clear()  # what the command started may live on, by design, and fill the jail
                after = await jail.run(["echo", "alive"])
            except HutchError as error:
                return f"BROKEN the jail does not continue: {error}"
            if after.stdout != b"alive\n":
                return f"BROKEN the jail does not continue: {describe(after)}"
            said = describe(done)
            hit = done.limit_hit.limit if done.limit_hit else None
            if bomb.limit is not None and hit != bomb.limit and not said.startswith("WON"):
                return f"UNREPORTED {said}, but the reported limit is {hit}, not {bomb.limit}"
            return said

    async def bomb_control(self, bomb: Bomb) -> str:
        """The result of the bomb under a limit that is high enough."""
        if isinstance(bomb.loose, Off):
            as_probe = Probe(
                name=bomb.name, guard=bomb.guard, text="", program=bomb.program, held="", off=bomb.loose
            )
            return await self.control(as_probe)
        async with self.jail(replace(SMALL, **bomb.loose), owner=self.owner) as jail:
            return describe(await self.explode(jail, bomb, tight=False))

    async def explode(self, jail: Jailed, bomb: Bomb, *, tight: bool) -> Finished:
        host = self.host(await self.uid(jail)) | {"tight": tight}
        notifying = asyncio.create_task(self._notify_bomb(jail, bomb.limit))
        try:
            return await jail.run(
                program(bomb.program), env={"HOST": json.dumps(host)}, timeout_s=bomb.timeout_s
            )
        finally:
            notifying.cancel()

    async def _notify_bomb(self, jail: Jailed, limit: str | None) -> None:
        """Notify the bomb when its limit was seen to be hit, so that it may end."""
        mark = jail.mark()
        while True:
            hit = jail.limit_hit(mark, Exit(0, None))
            if hit is not None and hit.limit == limit:
                (jail._directory / "limit-seen").touch()
                return
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def watched(self, name: str) -> AsyncIterator[Busy]:
        """Check that a neighbour's commands still run, and measure the delay of the event loop."""
        neighbour = await self.lasting("neighbour")
        busy = Busy()
        tasks = [asyncio.create_task(self._lag(busy)), asyncio.create_task(self._neighbour(neighbour, busy))]
        try:
            yield busy
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.wait(
                    {asyncio.ensure_future(busy.ran.wait()), tasks[1]}, return_when="FIRST_COMPLETED"
                )
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
            self.notes.append(
                f"{name}: loop at most {busy.lag_s * 1000:.0f} ms late, "
                f"{busy.neighbour_runs} commands of a neighbour, the slowest {busy.neighbour_s * 1000:.0f} ms"
            )

    async def _lag(self, busy: Busy) -> None:
        while True:
            then = time.monotonic()
            await asyncio.sleep(0.01)
            busy.lag_s = max(busy.lag_s, time.monotonic() - then - 0.01)

    async def _neighbour(self, jail: Jailed, busy: Busy) -> None:
        while True:
            then = time.monotonic()
            done = await jail.run(["true"], timeout_s=TIMEOUT_S)
            assert done.exit_code == 0, f"the neighbour is disturbed: {done}"
            busy.neighbour_runs += 1
            busy.ran.set()
            busy.neighbour_s = max(busy.neighbour_s, time.monotonic() - then)
            await asyncio.sleep(0.05)


def describe(done: Finished) -> str:
    limit = f" by {done.limit_hit}" if done.limit_hit else ""
    if done.exit_code and not done.limit_hit:
        return f"BROKEN {done.stderr[-1500:].decode(errors='replace')}"
    end = f"exit {done.exit_code} signal {done.signal}{limit} {done.stderr[-600:].decode(errors='replace')}"
    return verdict(done.stdout, end=end)


def outside(
    argv: list[str], env: Mapping[str, str], cwd: Path, fds: list[int], extra: dict[str, Any], terminal: bool
) -> str:
    """Run a control. Blocks."""
    if not terminal:
        done = subprocess.run(
            argv, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S,
            pass_fds=fds, **extra,
        )  # fmt: skip
        return verdict(
            done.stdout, end=f"exit {done.returncode} {done.stderr[-600:].decode(errors='replace')}"
        )
    master, slave = os.openpty()
    # A new session that takes the terminal as its own, as the jail's warden does it.
    argv = [
        *PYTHON,
        "import os,sys,fcntl\nfcntl.ioctl(0,0x540E,0)\nos.execv(sys.argv[1],sys.argv[1:])",
        *argv,
    ]
    argv = [word for word in argv if word != "--new-session"]
    with subprocess.Popen(
        argv, env=dict(env), cwd=cwd, stdin=slave, stdout=slave, stderr=slave, pass_fds=fds,
        start_new_session=True, **extra,
    ) as process:  # fmt: skip
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 65536):
                said += chunk
        process.wait(PROBE_S)
    os.close(master)
    return verdict(said, end=repr(said[-600:]))


def leave_out(options: list[str], unwanted: list[str]) -> list[str]:
    """Remove options: `["--remount-ro", "/proc"]` is that one, `["--remount-ro"]` every one."""
    kept, at = [], 0
    while at < len(options):
        size = OPTION_WORDS.get(options[at], 1)
        if options[at : at + len(unwanted)] == unwanted:
            at += max(size, len(unwanted))
        else:
            kept.append(options[at])
            at += 1
    assert kept != options, f"the jail has no option {unwanted}"
    return kept


def memory_file(stack: ExitStack, data: bytes) -> int:
    fd = os.memfd_create("attack", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def perform(setup: AttackSetup, name: str, *, jailed: bool, control: bool) -> dict[str, Any]:
    attack = ATTACKS[name]
    setup.notes.clear()
    if isinstance(attack, Scene):
        await attack.play(setup)
        return {"notes": list(setup.notes)}
    answer: dict[str, Any] = {}
    if jailed:
        answer["jailed"] = await (setup.bomb(attack) if isinstance(attack, Bomb) else setup.probe(attack))
    if control:
        run_control = setup.bomb_control if isinstance(attack, Bomb) else setup.control
        answer["control"] = await run_control(attack)
    return answer | {"notes": list(setup.notes)}


async def main() -> None:
    _, world, token = sys.argv
    # As a login shell has it, not as this machine happens to.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    setup = AttackSetup(Path(world), token)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    try:
        while line := await lines.readline():
            asked = json.loads(line)
            try:
                async with asyncio.timeout(5 * TIMEOUT_S):
                    answer = await perform(
                        setup, asked["name"], jailed=asked["jailed"], control=asked["control"]
                    )
            except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
                answer = {"error": traceback.format_exc()}
            answers.write(json.dumps(asked | {"answer": answer}) + "\n")
            answers.flush()
    finally:
        await setup.close()


if __name__ == "__main__":
    asyncio.run(main())
