"""The system calls that a jail may not make, as a classic BPF program.

Assembled here instead of by libseccomp: the rules are few, the program is the same on
every machine of one architecture, and a test can run it in a small interpreter. Each
rule is a block of its own that either returns or falls through to the next, so no jump
ever leaves its block.

Refused are calls that reach rarely used parts of the kernel (keys, io_uring,
userfaultfd, bpf, perf, unusual socket families). Refused are calls that reach other
processes: ptrace and similar ones, and those that take the processor or limits from
them, since the warden runs at the same uid. Refused are calls that make new isolation
to hide in (namespaces, mounts).

Set-user-ID files are refused, because they would outlive the jail on the host's disk
with the owner's privileges. So are resources that all users of the machine share or
wait for: aio requests, leases on files. A file that never had a name fills the disk
where no walk finds it. A process in the idle class may never run to release what the
host waits for.
"""

import platform
import struct
from collections.abc import Sequence
from errno import EAFNOSUPPORT, EINVAL, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT
from typing import Literal

from hutch.domain.errors import Unavailable
from hutch.system.lazy_dataclass import dataclass

Machine = Literal["x86_64", "aarch64"]
Code = tuple[int, int, int, int]  # operation, jump if true, jump if false, constant

ARCHITECTURES: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000

LOAD, EQUAL, ABOVE_OR_EQUAL, ABOVE, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data; little-endian, both of them
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

# name: (x86_64, aarch64); None where the architecture has no such call
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "userfaultfd": (323, 282), "bpf": (321, 280), "perf_event_open": (298, 241),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "move_pages": (279, 239), "migrate_pages": (256, 238),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "open_tree": (428, 428), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "setns": (308, 268),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "syslog": (103, 116), "acct": (163, 89), "vhangup": (153, 58), "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "uselib": (134, None), "ustat": (136, None), "sysfs": (139, None), "_sysctl": (156, None),
    "create_module": (174, None), "get_kernel_syms": (177, None), "query_module": (178, None),
    "sched_setattr": (314, 274),  # its arguments are in memory, which a filter cannot read
}  # fmt: skip
# Answered as if the kernel were older: callers then use a call whose arguments the filter can read.
ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435), "openat2": (437, 437), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0),
}  # fmt: skip
# Memory that is attributed to no process: allowed only where a cgroup counts it.
UNCOUNTED: dict[str, tuple[int | None, int | None]] = {"memfd_create": (319, 279), "msgget": (68, 186)}

NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_TIME = 0x80  # a namespace for unshare, part of the exit signal for clone
SET_ID_BITS = 0o6000
UNNAMED_FILE = 0o20000000  # __O_TMPFILE
CREATING = 0o100 | UNNAMED_FILE  # O_CREAT: without either the mode argument is ignored
LEASES = (1024, 1040)  # F_SETLEASE, F_SETDELEG
TERMINAL_INPUT = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
QUERY_PERSONALITY = 0xFFFFFFFF
PLAIN_CLASSES = (0, 3)  # SCHED_OTHER and SCHED_BATCH
RESET_ON_FORK = 0x40000000
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1
MYSELF, FIRST_PROCESS = 0, 1  # as a pid
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM = 1, 2
PROTOCOLS = (0, 1, 6, 17, 58)  # any, ICMP, TCP, UDP, ICMPv6
SMALL_SEGMENT_BYTES = 64 * 1024  # times 4,096 segments at most
SMALL_SET = 250


@dataclass(frozen=True, slots=True)
class Call:
    """A system call, by its number on each architecture."""

    x86_64: int | None
    aarch64: int | None

    def on(self, machine: Machine) -> int | None:
        return self.x86_64 if machine == "x86_64" else self.aarch64


def this_machine() -> Machine:
    """The architecture of this machine."""
    name = platform.machine()
    for machine in ARCHITECTURES:
        if machine == name:
            return machine
    raise Unavailable(f"There is no system call filter for '{name}'. Run Hutch on x86_64 or aarch64.")


def program(machine: Machine, *, has_cgroup: bool) -> bytes:
    """The filter in the kernel's format. `has_cgroup` says that a cgroup counts the jail's memory."""
    codes: list[Code] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":  # x32 calls come with the same architecture and a bit set in the number
        codes += [(ABOVE_OR_EQUAL, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    # First the calls that depend on their arguments: the kernel runs the program for them each time, while it
    # caches which of the others are always allowed.
    for call, block in _looked_at(has_cgroup=has_cgroup):
        codes += _when(call.on(machine), [*block, (RETURN, 0, 0, ALLOW)])
    absent = ABSENT if has_cgroup else ABSENT | UNCOUNTED
    for table, error in ((REFUSED, EPERM), (absent, ENOSYS)):
        for numbers in table.values():
            codes += _when(Call(*numbers).on(machine), [(RETURN, 0, 0, ERRNO | error)])
    codes.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *code) for code in codes)


def _looked_at(*, has_cgroup: bool) -> list[tuple[Call, list[Code]]]:
    """The calls that depend on their arguments, the frequent ones first."""
    rules = [
        (Call(257, 56), _created(2, 3)),  # openat
        (Call(72, 25), _none_of(1, LEASES)),  # fcntl
        # The kernel uses only the low half of the request, and so must we.
        (Call(16, 29), _none_of(1, TERMINAL_INPUT)),  # ioctl
        (Call(56, 220), _refuse_bits(0, NAMESPACES)),  # clone
        (Call(272, 97), _refuse_bits(0, NAMESPACES | NEW_TIME)),  # unshare
        (Call(135, 92), _only(0, (0, QUERY_PERSONALITY), EPERM)),  # personality
        (Call(41, 198), _socket()),
        (Call(53, 199), _only(0, (UNIX,), EAFNOSUPPORT)),  # socketpair
        (Call(90, None), _refuse_bits(1, SET_ID_BITS)),  # chmod
        (Call(91, 52), _refuse_bits(1, SET_ID_BITS)),  # fchmod
        (Call(268, 53), _refuse_bits(2, SET_ID_BITS)),  # fchmodat
        (Call(452, 452), _refuse_bits(2, SET_ID_BITS)),  # fchmodat2
        (Call(83, None), _refuse_bits(1, SET_ID_BITS)),  # mkdir
        (Call(258, 34), _refuse_bits(2, SET_ID_BITS)),  # mkdirat
        (Call(133, None), _refuse_bits(1, SET_ID_BITS)),  # mknod
        (Call(259, 33), _refuse_bits(2, SET_ID_BITS)),  # mknodat
        (Call(85, None), _refuse_bits(1, SET_ID_BITS)),  # creat
        (Call(2, None), _created(1, 2)),  # open
        (Call(302, 261), _prlimit()),
        (Call(144, 119), [*_must_be(0, MYSELF), *_class(1)]),  # sched_setscheduler
        (Call(142, 118), _must_be(0, MYSELF)),  # sched_setparam
        # Threads bind themselves to a processor by their number; only the warden's is refused.
        (Call(203, 122), _none_of(0, (FIRST_PROCESS,))),  # sched_setaffinity
        (Call(141, 140), [*_must_be(0, PRIO_PROCESS), *_must_be(1, MYSELF)]),  # setpriority
        (Call(251, 30), [*_must_be(0, IOPRIO_WHO_PROCESS), *_must_be(1, MYSELF)]),  # ioprio_set
    ]
    if not has_cgroup:
        rules += [
            (Call(29, 194), _up_to(1, SMALL_SEGMENT_BYTES, EINVAL)),  # shmget
            (Call(64, 190), _up_to(1, SMALL_SET, EINVAL)),  # semget
        ]
    return rules


def _when(number: int | None, block: list[Code]) -> list[Code]:
    if number is None:
        return []
    return [(EQUAL, 0, len(block), number), *block]


def _low(argument: int) -> Code:
    return (LOAD, 0, 0, 16 + 8 * argument)


def _high(argument: int) -> Code:
    return (LOAD, 0, 0, 20 + 8 * argument)


def _refuse_bits(argument: int, bits: int) -> list[Code]:
    return [_low(argument), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, ERRNO | EPERM)]


def _created(flags: int, mode: int) -> list[Code]:
    return [
        _low(flags),
        (ANY_BIT, 0, 3, CREATING),
        *_refuse_bits(mode, SET_ID_BITS),
        _low(flags),
        (ANY_BIT, 0, 1, UNNAMED_FILE),
        (RETURN, 0, 0, ERRNO | EOPNOTSUPP),  # as some file systems answer, so callers have a fallback
    ]


def _none_of(argument: int, values: Sequence[int]) -> list[Code]:
    codes = [_low(argument)]
    for value in values:
        codes += [(EQUAL, 0, 1, value), (RETURN, 0, 0, ERRNO | EPERM)]
    return codes


def _only(argument: int, values: Sequence[int], error: int) -> list[Code]:
    codes = [_low(argument)]
    for value in values:
        codes += [(EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return [*codes, (RETURN, 0, 0, ERRNO | error)]


def _must_be(argument: int, value: int) -> list[Code]:
    return [_low(argument), (EQUAL, 1, 0, value), (RETURN, 0, 0, ERRNO | EPERM)]


def _class(argument: int) -> list[Code]:
    """Allow only scheduling classes that neither wait until the machine is idle nor preempt others."""
    policy, *rest = _only(argument, PLAIN_CLASSES, EPERM)
    return [policy, (AND, 0, 0, ~RESET_ON_FORK & 0xFFFFFFFF), *rest]


def _prlimit() -> list[Code]:
    """Allow a process to set its own limits, or to read those of another, in which case there are no new
    ones."""
    return [
        _low(0),
        (EQUAL, 4, 0, MYSELF),
        _low(2),
        (EQUAL, 0, 3, 0),
        _high(2),
        (EQUAL, 0, 1, 0),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERRNO | EPERM),
    ]


def _up_to(argument: int, value: int, error: int) -> list[Code]:
    return [
        _high(argument),
        (EQUAL, 1, 0, 0),
        (RETURN, 0, 0, ERRNO | error),
        _low(argument),
        (ABOVE, 0, 1, value),
        (RETURN, 0, 0, ERRNO | error),
    ]


def _socket() -> list[Code]:
    """Allow Unix sockets; TCP, UDP and ping over IP; netlink for reading addresses and routes."""
    netlink = _only(2, (0,), EPROTONOSUPPORT)
    internet = [
        _low(1),
        (AND, 0, 0, 0xF),  # the rest are flags
        (EQUAL, 2, 0, STREAM),
        (EQUAL, 1, 0, DATAGRAM),
        (RETURN, 0, 0, ERRNO | EPERM),
        *_only(2, PROTOCOLS, EPROTONOSUPPORT),
    ]
    return [
        _low(0),
        (EQUAL, 0, 1, UNIX),
        (RETURN, 0, 0, ALLOW),
        (EQUAL, 0, len(netlink), NETLINK),
        *netlink,
        (EQUAL, 2, 0, INET),
        (EQUAL, 1, 0, INET6),
        (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
        *internet,
    ]
