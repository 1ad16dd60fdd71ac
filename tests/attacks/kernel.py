"""Ways into rarely used parts of the kernel, most of them closed by the system call filter."""

from dataclasses import replace

from .attack import CAPABLE, NO_SECCOMP, ROOT, Off, Probe, Scenes

scene = Scenes()


def refused(name: str, text: str, program: str, *, off: Off = NO_SECCOMP, held: str = "EPERM") -> Probe:
    return Probe(name=name, guard="seccomp", text=text, program=program, held=held, off=off)


def namespace(name: str, text: str, program: str) -> Probe:
    open_ = Off(
        "no seccomp, --disable-userns", without=("--seccomp", "--disable-userns", "--assert-userns-disabled")
    )
    return Probe(name=name, guard="namespaces", text=text, program=program, held="EPERM|ENOSYS", off=open_)


X32 = """
if ARM:
    raise Absent("x32 on this architecture")
def deed():
    result = libc.syscall(ctypes.c_long(0x40000000 | 39))  # getpid
    if result == -1:
        raise OSError(ctypes.get_errno(), "x32")
in_child(deed)
"""
INT80 = """
if ARM:
    raise Absent("int 0x80 on this architecture")
def deed():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\x53\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\x5b\\xc3")  # eax = getpid; int 0x80
    where = ctypes.addressof(ctypes.c_char.from_buffer(code))
    if ctypes.CFUNCTYPE(ctypes.c_int)(where)() != os.getpid():
        raise OSError(errno.ENOSYS, "int 0x80")
in_child(deed)
"""
TERMINAL = """
fd = os.open("/dev/tty", os.O_RDWR)
libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p)
if libc.ioctl(fd, {request}, {argument}):
    raise OSError(ctypes.get_errno(), "ioctl")
"""

PROBES = [
    refused("keyctl", "read the session's keyring", 'call("keyctl", 0, -3, 1)'),
    refused(
        "add-key", "store data in a kernel key", 'call("add_key", b"user", b"hutch-attack", b"x", 1, -1)'
    ),
    refused(
        "request-key",
        "make the kernel start a key helper",
        'reached("request_key", b"user", b"hutch-attack-none", 0, 0, past="ENOKEY")',
    ),
    refused(
        "io-uring",
        "make system calls past the filter by io_uring",
        'call("io_uring_setup", 4, ctypes.create_string_buffer(120))',
        held="ENOSYS",
    ),
    refused("userfaultfd", "stop the kernel in the middle of a copy", 'call("userfaultfd", 1)'),
    refused("bpf", "load a program into the kernel", 'reached("bpf", 9999, 0, 0, past="EINVAL")', off=ROOT),
    refused(
        "perf",
        "measure with perf events",
        """
about = struct.pack("IIQQQQQ", 1, 112, 1, 0, 0, 0, 1 << 5 | 1 << 6) + bytes(64)
call("perf_event_open", ctypes.create_string_buffer(about), 0, -1, -1, 0)
""",
    ),
    refused(
        "ptrace",
        "trace a process",
        """
pid = os.fork()
if pid == 0:
    time.sleep(5)
    os._exit(0)
try:
    call("ptrace", 0x4206, pid, 0, 0)  # PTRACE_SEIZE
finally:
    os.kill(pid, 9)
""",
    ),
    refused("traceme", "be traced", 'call("ptrace", 0, 0, 0, 0)'),
    refused(
        "process-vm-readv",
        "read another process's memory",
        'call("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)',
    ),
    refused(
        "process-vm-writev",
        "write another process's memory",
        'call("process_vm_writev", os.getpid(), 0, 0, 0, 0, 0)',
    ),
    refused(
        "kcmp", "compare kernel pointers of two processes", 'call("kcmp", os.getpid(), os.getpid(), 0, 0, 0)'
    ),
    refused(
        "pidfd-getfd",
        "take a descriptor out of another process",
        'call("pidfd_getfd", call("pidfd_open", os.getpid(), 0), 1, 0)',
    ),
    refused("move-pages", "read the location of memory pages", 'call("move_pages", 0, 0, 0, 0, 0, 0)'),
    refused(
        "memfd-secret",
        "allocate memory that the kernel itself cannot read",
        'call("memfd_secret", 0)',
        held="ENOSYS",
    ),
    refused("personality", "switch off address randomisation", 'call("personality", 0x0040000)'),
    refused("personality-read-implies-exec", "make all memory executable", 'call("personality", 0x0400000)'),
    refused(
        "modify-ldt", "set up unusual segments", 'call("modify_ldt", 0, ctypes.create_string_buffer(64), 64)'
    ),
    refused("x32", "make a call by the x32 ABI", X32, held="SIGSYS"),
    refused("int80", "make a call by the i386 ABI", INT80, held="SIGSYS"),
    refused(
        "aio-pool",
        "exhaust the machine's only pool of aio requests",
        """
most = int(open("/proc/sys/fs/aio-max-nr").read())
context = ctypes.c_ulong()
call("io_setup", most // 4, ctypes.byref(context))
""",
        held="ENOSYS|EPERM",
    ),
    refused("tiocsti", "type into the terminal", TERMINAL.format(request=hex(0x5412), argument='b"x"')),
    refused(
        "tiocsti-high-bits",
        "type into the terminal, with a bit set that the kernel drops",
        TERMINAL.format(request=hex(0x5412 | 1 << 32), argument='b"x"'),
    ),
    refused(
        "tioclinux",
        "paste into a console",
        TERMINAL.format(request=hex(0x541C), argument='b"\\x03"').replace(
            'raise OSError(ctypes.get_errno(), "ioctl")',
            'if ctypes.get_errno() != errno.ENOTTY: raise OSError(ctypes.get_errno(), "ioctl")',
        ),
    ),
    refused(
        "tiocsetd",
        "give the terminal another line discipline",
        TERMINAL.format(request=hex(0x5423), argument="struct.pack('i', 0)"),
    ),
    # --- calls that need privileges that a jail lacks: the filter is the second guard ---
    refused(
        "kexec-load",
        "load another kernel",
        'reached("kexec_load", 0, 0, 0, 0xffff, past="EINVAL ENOSYS")',
        off=ROOT,
    ),
    refused(
        "kexec-file-load",
        "load another kernel from a file",
        'reached("kexec_file_load", -1, -1, 0, 0, 0xffff, past="EINVAL ENOSYS EBADF")',
        off=ROOT,
    ),
    refused(
        "init-module",
        "load a module",
        'reached("init_module", 0, 0, b"", past="ENOEXEC EFAULT ENOSYS")',
        off=ROOT,
    ),
    refused(
        "finit-module",
        "load a module from a file",
        'reached("finit_module", -1, b"", 0, past="EBADF ENOSYS")',
        off=ROOT,
    ),
    refused(
        "delete-module",
        "remove a module",
        'reached("delete_module", b"hutch-no-such", 0, past="ENOENT ENOSYS")',
        off=ROOT,
    ),
    refused("reboot", "reboot", 'reached("reboot", 1, 2, 3, 0, past="EINVAL")', off=CAPABLE),
    refused("swapon", "swap to a file", 'reached("swapon", b"/nowhere", 0, past="ENOENT ENOSYS")', off=ROOT),
    refused("swapoff", "stop swapping", 'reached("swapoff", b"/nowhere", past="ENOENT ENOSYS")', off=ROOT),
    refused(
        "quotactl",
        "change quotas",
        'reached("quotactl", 0x800002 << 8, b"/nowhere", 0, 0, past="ENOENT ENOSYS")',
        off=Off("no seccomp", without=("--seccomp",)),
    ),
    refused(
        "settimeofday",
        "set the clock",
        'reached("settimeofday", struct.pack("ll", -1, -1), 0, past="EINVAL")',
        off=ROOT,
    ),
    refused(
        "clock-settime",
        "set a clock",
        'reached("clock_settime", 0, struct.pack("ll", -1, -1), past="EINVAL")',
        off=ROOT,
    ),
    refused(
        "clock-adjtime",
        "adjust the clock",
        'reached("clock_adjtime", 0, struct.pack("Il", 0x4000, 0) + bytes(240), past="EINVAL")',
        off=ROOT,
    ),
    refused("sethostname", "rename the machine", 'call("sethostname", b"mine", 4)', off=CAPABLE),
    refused("setdomainname", "rename the machine's domain", 'call("setdomainname", b"mine", 4)', off=CAPABLE),
    refused(
        "acct", "turn on process accounting", 'reached("acct", b"/nowhere", past="ENOENT ENOSYS")', off=ROOT
    ),
    refused("iopl", "reach the hardware's ports", 'call("iopl", 3)', off=ROOT),
    refused("ioperm", "reach one hardware port", 'call("ioperm", 0x80, 1, 1)', off=ROOT),
    refused("fanotify", "watch every file system", 'call("fanotify_init", 0x200, 0)'),
    refused("syslog", "read the kernel's log", 'call("syslog", 10, 0, 0)', off=ROOT),
    refused(
        "setns",
        "enter a namespace",
        'call("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0)',
        off=CAPABLE,
    ),
    # --- namespaces of its own, in which it would have every capability ---
    namespace("unshare-user", "make a user namespace", 'call("unshare", 0x10000000)'),
    namespace("unshare-user-and-net", "make a user and a network namespace", 'call("unshare", 0x50000000)'),
    namespace("unshare-user-and-mount", "make a user and a mount namespace", 'call("unshare", 0x10020000)'),
    namespace(
        "clone-user",
        "make a user namespace by clone",
        """
pid = call("clone", 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
""",
    ),
    namespace(
        "clone3-user",
        "make a user namespace by clone3, whose flags no filter can read",
        """
about = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0))
pid = call("clone3", about, 64)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
""",
    ),
    refused("unshare-mount", "make a mount namespace", 'call("unshare", 0x20000)', off=CAPABLE),
    refused("unshare-pid", "make a pid namespace to hide in", 'call("unshare", 0x20000000)', off=CAPABLE),
    refused("unshare-ipc", "make an ipc namespace", 'call("unshare", 0x8000000)', off=CAPABLE),
    refused("unshare-cgroup", "make a cgroup namespace", 'call("unshare", 0x2000000)', off=CAPABLE),
    refused("unshare-time", "make a time namespace", 'call("unshare", 0x80)', off=CAPABLE),
]
PROBES = [replace(probe, terminal=probe.name.startswith("tio")) for probe in PROBES]


@scene(
    "namespaces",
    "make a user namespace without the filter: the kernel's limit is used up",
    control="no --disable-userns",
)
async def userns_disabled(setup) -> None:
    probe = next(probe for probe in PROBES if probe.name == "unshare-user")
    assert await setup.control(replace(probe, off=NO_SECCOMP)) == "HELD ENOSPC"
    assert await setup.control(probe) == "WON"
