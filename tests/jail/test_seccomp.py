"""The filter, run call by call in an interpreter, and in the kernel."""

import ctypes
import errno
import struct

import pytest

from hutch.jail.jail_startup import Jailed
from hutch.jail.launch import seccomp
from hutch.jail.launch.seccomp import ALLOW, ARCHITECTURES, ERRNO, KILL, Machine, program

MACHINES: tuple[Machine, ...] = ("x86_64", "aarch64")
EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS


def judge(code: bytes, number: int, *arguments: int, architecture: int) -> int:
    """Run a classic BPF program on one system call."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(word & (1 << 64) - 1 for word in words))
    accumulator, at = 0, 0
    program = list(struct.iter_unpack("<HBBI", code))
    while True:
        operation, yes, no, k = program[at]
        at += 1
        if operation == seccomp.LOAD:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif operation == seccomp.AND:
            accumulator &= k
        elif operation == seccomp.RETURN:
            return int(k)
        else:
            true = {
                seccomp.EQUAL: accumulator == k,
                seccomp.ABOVE: accumulator > k,
                seccomp.ABOVE_OR_EQUAL: accumulator >= k,
                seccomp.ANY_BIT: bool(accumulator & k),
            }[operation]
            at += yes if true else no


def on(machine: Machine, number: int, *arguments: int, has_cgroup: bool = True) -> int:
    return judge(
        program(machine, has_cgroup=has_cgroup), number, *arguments, architecture=ARCHITECTURES[machine]
    )


def x86(number: int, *arguments: int, has_cgroup: bool = True) -> int:
    return on("x86_64", number, *arguments, has_cgroup=has_cgroup)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_tables_is_answered_with_its_error(machine: Machine) -> None:
    column = MACHINES.index(machine)
    for table, answer in ((seccomp.REFUSED, EPERM), (seccomp.ABSENT, ENOSYS)):
        for name, numbers in table.items():
            if (number := numbers[column]) is not None:
                assert on(machine, number) == answer, name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_is_short_and_every_jump_stays_inside(machine: Machine) -> None:
    code = list(struct.iter_unpack("<HBBI", program(machine, has_cgroup=False)))
    assert len(code) < 400
    for at, (operation, yes, no, _) in enumerate(code):
        if operation not in (seccomp.LOAD, seccomp.AND, seccomp.RETURN):
            assert at + 1 + max(yes, no) < len(code)
    assert code[-1] == (seccomp.RETURN, 0, 0, ALLOW)


def test_other_architectures_and_x32_are_killed() -> None:
    code = program("x86_64", has_cgroup=True)
    assert judge(code, 1, architecture=0x40000003) == KILL  # i386
    assert x86(0x40000001) == KILL


@pytest.mark.parametrize(
    ("name", "number", "arguments", "answer"),
    [
        ("clone: a process", 56, (0x01200011,), ALLOW),
        ("clone: a user namespace", 56, (0x10000011,), EPERM),
        ("clone: a network namespace", 56, (0x40000011,), EPERM),
        ("unshare: files", 272, (0x400,), ALLOW),
        ("unshare: mounts", 272, (0x20000,), EPERM),
        ("unshare: time", 272, (0x80,), EPERM),
        ("personality: ask", 135, (0xFFFFFFFF,), ALLOW),
        ("personality: no randomisation", 135, (0x40000,), EPERM),
        ("ioctl: window size", 16, (0, 0x5413), ALLOW),
        ("ioctl: TIOCSTI", 16, (0, 0x5412), EPERM),
        ("ioctl: TIOCSTI with high bits", 16, (0, 0xFFFFFFFF00005412), EPERM),
        ("ioctl: TIOCLINUX", 16, (0, 0x541C), EPERM),
        ("socket: unix", 41, (1, 1), ALLOW),
        ("socket: tcp", 41, (2, 1 | 0o2000000, 0), ALLOW),
        ("socket: udp over ipv6", 41, (10, 2, 17), ALLOW),
        ("socket: raw", 41, (2, 3, 1), EPERM),
        ("socket: sctp", 41, (2, 1, 132), ERRNO | errno.EPROTONOSUPPORT),
        ("socket: route", 41, (16, 3, 0), ALLOW),
        ("socket: audit", 41, (16, 3, 9), ERRNO | errno.EPROTONOSUPPORT),
        ("socket: vsock", 41, (40, 1), ERRNO | errno.EAFNOSUPPORT),
        ("socket: packet", 41, (17, 3), ERRNO | errno.EAFNOSUPPORT),
        ("socket: alg", 41, (38, 5), ERRNO | errno.EAFNOSUPPORT),
        ("chmod: plain", 90, (0, 0o755), ALLOW),
        ("chmod: set-user-ID", 90, (0, 0o4755), EPERM),
        ("fchmodat: set-group-ID", 268, (0, 0, 0o2755), EPERM),
        ("openat: read, junk in mode", 257, (0, 0, 0, 0o4755), ALLOW),
        ("openat: create", 257, (0, 0, 0o101, 0o644), ALLOW),
        ("openat: create set-user-ID", 257, (0, 0, 0o101, 0o4755), EPERM),
        ("openat: unnamed, set-user-ID", 257, (0, 0, 0o20200001, 0o4755), EPERM),
        ("openat: unnamed", 257, (0, 0, 0o20200002, 0o600), ERRNO | errno.EOPNOTSUPP),
        ("openat: a directory", 257, (0, 0, 0o200000), ALLOW),
        ("open: unnamed", 2, (0, 0o20200002, 0o600), ERRNO | errno.EOPNOTSUPP),
        ("fcntl: flags", 72, (0, 4, 0o4000), ALLOW),
        ("fcntl: a lock", 72, (0, 6), ALLOW),
        ("fcntl: a lease", 72, (0, 1024, 1), EPERM),
        ("fcntl: a lease with high bits", 72, (0, 1 << 32 | 1024, 1), EPERM),
        ("fcntl: a delegation", 72, (0, 1040), EPERM),
        ("sched_setscheduler: batch for myself", 144, (0, 3), ALLOW),
        ("sched_setscheduler: batch, not for children", 144, (0, 0x40000003), ALLOW),
        ("sched_setscheduler: idle for myself", 144, (0, 5), EPERM),
        ("sched_setscheduler: real time", 144, (0, 1), EPERM),
        ("sched_setscheduler: the warden", 144, (1, 0), EPERM),
        ("sched_setscheduler: the warden, with high bits", 144, (1 << 32 | 1, 0), EPERM),
        ("sched_setparam: myself", 142, (0,), ALLOW),
        ("sched_setparam: another", 142, (7,), EPERM),
        ("sched_setaffinity: a thread", 203, (7,), ALLOW),
        ("sched_setaffinity: the warden", 203, (1,), EPERM),
        ("setpriority: myself", 141, (0, 0, 5), ALLOW),
        ("setpriority: another", 141, (0, 7, 5), EPERM),
        ("setpriority: all of the user", 141, (2, 0, 5), EPERM),
        ("ioprio_set: myself", 251, (1, 0), ALLOW),
        ("ioprio_set: another", 251, (1, 7), EPERM),
        ("ioprio_set: all of the user", 251, (3, 0), EPERM),
        ("prlimit64: my own", 302, (0, 7, 0x7FFF00000000), ALLOW),
        ("prlimit64: reading another's", 302, (7, 7, 0, 0x7FFF00000000), ALLOW),
        ("prlimit64: another's", 302, (7, 7, 0x7FFF00000010), EPERM),
        ("prlimit64: another's, from a round address", 302, (7, 7, 0x7FFF00000000), EPERM),
    ],
)
def test_calls_are_judged_by_their_arguments(
    name: str, number: int, arguments: tuple[int, ...], answer: int
) -> None:
    assert x86(number, *arguments) == answer


@pytest.mark.parametrize(
    ("number", "arguments", "answer"),
    [
        (119, (0, 0), ALLOW),  # sched_setscheduler
        (119, (1, 0), EPERM),
        (118, (1,), EPERM),  # sched_setparam
        (122, (1,), EPERM),  # sched_setaffinity
        (140, (0, 0), ALLOW),  # setpriority
        (140, (0, 1), EPERM),
        (30, (1, 1), EPERM),  # ioprio_set
        (261, (1, 7, 1), EPERM),  # prlimit64
    ],
)
def test_scheduling_and_limits_of_others_cannot_be_changed_on_aarch64(
    number: int, arguments: tuple[int, ...], answer: int
) -> None:
    assert on("aarch64", number, *arguments) == answer


def test_uncounted_memory_is_refused_only_without_a_cgroup() -> None:
    assert (x86(319), x86(319, has_cgroup=False)) == (ALLOW, ENOSYS)  # memfd_create
    assert (x86(29, 0, 1 << 30), x86(29, 0, 1 << 30, has_cgroup=False)) == (ALLOW, ERRNO | errno.EINVAL)
    assert x86(29, 0, 4096, has_cgroup=False) == ALLOW  # shmget
    assert x86(29, 0, 1 << 40, has_cgroup=False) == ERRNO | errno.EINVAL


@pytest.mark.anyio
async def test_the_kernel_agrees(jail: Jailed) -> None:
    """Each call on this machine, outside and in a jail: the jail refuses calls that are otherwise
    possible."""
    machine = seccomp.this_machine()
    column = MACHINES.index(machine)
    refused = {name: numbers[column] for name, numbers in {**seccomp.REFUSED, **seccomp.ABSENT}.items()}
    numbers = {name: number for name, number in refused.items() if number is not None}
    script = (
        "import ctypes, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for number in map(int, sys.argv[1:]):\n"
        "    libc.syscall(number, -1, -1, -1, -1, -1, -1)\n"
        "    print(ctypes.get_errno())\n"
    )
    ran = await jail.run(["python3", "-c", script, *map(str, numbers.values())])
    result = dict(zip(numbers, map(int, ran.stdout.split()), strict=True))
    assert result == {name: errno.ENOSYS if name in seccomp.ABSENT else errno.EPERM for name in numbers}


@pytest.mark.anyio
async def test_the_filter_is_on_and_new_rights_are_off(jail: Jailed) -> None:
    ran = await jail.run(["grep", "-E", "^(Seccomp|NoNewPrivs|Cap...):", "/proc/self/status"])
    assert dict(line.split(b":\t") for line in ran.stdout.splitlines()) == {
        **{b"Cap" + kind: b"0000000000000000" for kind in (b"Inh", b"Prm", b"Eff", b"Bnd", b"Amb")},
        b"NoNewPrivs": b"1",
        b"Seccomp": b"2",
    }


def test_the_negative_control_these_calls_work_out_here() -> None:
    """keyctl and personality work outside a jail, so the filter refuses them inside."""
    if seccomp.this_machine() != "x86_64":
        pytest.skip("numbers of x86_64")
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(135, 0xFFFFFFFF) >= 0
    libc.syscall(250, 0, -3, 0)  # KEYCTL_GET_KEYRING_ID
    assert ctypes.get_errno() != errno.EPERM
