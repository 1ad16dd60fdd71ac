"""The definition of an attack, as data: the tests run it and docs/attacks.md lists it.

An attack's program acts in plain Python. Reaching its end is success; an OSError means
that a guard stopped it. Each runs in a real jail, where it must fail, and by `make
controls` with its guard off, where it must succeed; otherwise it proves nothing.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

GUARDS = {
    "mounts": "what is visible: own root, read-only system, sized tmpfs, no /sys, masked read-only /proc",
    "namespaces": "own user, pid, network, ipc, uts and cgroup namespaces; none can be made inside",
    "uid": "never kernel root: a separate uid under root, an idmapped workspace, no capabilities, nosuid",
    "seccomp": "a system call filter: rarely used parts of the kernel, other ABIs, set-user-ID bits",
    "clean start": "empty environment, options by descriptor, no descriptors but the jail's own",
    "warden": "the first process cannot be killed, stopped, traced or read from inside",
    "protocol": "the host trusts no message, size or descriptor from the warden",
    "tree": "each command has a reaper: timeout, cancel and close leave nothing running",
    "memory": "cgroup, else rlimits and a watcher",
    "processes": "pids cgroup and RLIMIT_NPROC",
    "disk": "sized tmpfs, RLIMIT_FSIZE, a watcher on the workspace's growth",
    "descriptors": "RLIMIT_NOFILE, and no kernel-wide pool that one jail can empty",
    "output": "head and tail in memory, a capped file, one read at a time",
    "cpu": "no real-time class, no higher priority; the host's event loop keeps running",
}


@dataclass(frozen=True, slots=True)
class Off:
    """How a guard is switched off for the control."""

    text: str
    jail: bool = True  # False: plainly on the host
    throwaway: bool = False  # in its own namespaces, where it has every capability
    root: bool = False  # as kernel root
    without: tuple[
        str, ...
    ] = ()  # bubblewrap options, with their first word where needed to distinguish them
    also: tuple[str, ...] = ()
    terminal: bool = False  # started from a terminal
    leaky: bool = False  # the gateway's environment and descriptors are inherited


NO_JAIL = Off("no jail", jail=False)
NO_SECCOMP = Off("no seccomp", without=("--seccomp",))
CAPABLE = Off("all capabilities, in its own namespaces", jail=False, throwaway=True)
ROOT = Off("kernel root, no jail", jail=False, root=True)
LEAKY = Off("started with the gateway's environment and descriptors", leaky=True)
WRITABLE_ROOT = Off("no --remount-ro /", without=("--remount-ro /",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One action, tried by a short program."""

    name: str
    guard: str
    text: str
    program: str
    held: str  # how a failure is reported: errno names or words, separated by |
    off: Off
    terminal: bool = False  # run on a terminal of its own
    needs_root: bool = False  # only where the gateway is root


@dataclass(frozen=True, slots=True, kw_only=True)
class Bomb:
    """A program that grows. The control is the same bomb under a limit that is high enough."""

    name: str
    guard: str
    text: str
    program: str
    tight: Mapping[str, Any]
    loose: Mapping[str, Any] | Off
    limit: str | None = None  # the name of the limit that the result must report
    timeout_s: float = 300.0  # never needed, however busy the machine
    soak: bool = False
    serial: bool = True  # uses up what others on this machine, or of this user, need


@dataclass(frozen=True, slots=True)
class Scene:
    """An attack that also needs the host to act: a function of the setup."""

    name: str
    guard: str
    text: str
    control: str
    play: Callable[[Any], Awaitable[None]] = field(compare=False)
    soak: bool = False
    serial: bool = False


Attack = Probe | Bomb | Scene


class Scenes(list[Scene]):
    """A decorator that collects scenes."""

    def __call__(
        self, guard: str, text: str, *, control: str, soak: bool = False, serial: bool = False
    ) -> Callable[[Callable[[Any], Awaitable[None]]], Callable[[Any], Awaitable[None]]]:
        def add(play: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
            self.append(Scene(play.__name__.replace("_", "-"), guard, text, control, play, soak, serial))
            return play

        return add


def control_text(attack: Attack) -> str:
    if isinstance(attack, Scene):
        return attack.control
    if isinstance(attack, Probe):
        return attack.off.text
    if isinstance(attack.loose, Off):
        return attack.loose.text
    names = [key for key in attack.loose if attack.tight.get(key) != attack.loose[key]]
    return f"the same with {' and '.join(names)} raised"
