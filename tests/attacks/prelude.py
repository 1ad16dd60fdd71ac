# ruff: noqa: F401, PTH110, PTH208
# The beginning of every attack program. It is text, run inside by any Python from 3.9 on.
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys
import time

HOST = json.loads(os.environ.get("HOST", "{}"))  # what an attacker may well know about the host
ARM = platform.machine() == "aarch64"
MIB = 1024 * 1024
LONG = 180  # seconds, in which a watcher on the busiest machine has inspected
CALLS = {  # name: (x86_64, aarch64)
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "move_pages": (279, 239), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429),
    "mount_setattr": (442, 442), "setns": (308, 268), "unshare": (272, 97), "clone": (56, 220),
    "clone3": (435, 435), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "syslog": (103, 116), "acct": (163, 89), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "memfd_secret": (447, 447), "io_uring_setup": (425, 425),
    "personality": (135, 92), "io_setup": (206, 0), "ioprio_set": (251, 30), "fchmodat2": (452, 452),
    "fchmodat": (268, 53), "shmget": (29, 194), "shmat": (30, 196), "prctl": (157, 167),
    "openat2": (437, 437), "sched_setattr": (314, 274),
}  # fmt: skip
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p


class Held(Exception):
    pass


class Absent(Exception):
    """The machine lacks the feature, guard or not."""


def call(name, *args):
    number = CALLS[name][ARM]
    if number is None:
        raise Absent(name + " on this architecture")
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def reached(name, *args, past):
    """Call with invalid arguments: an error about them shows that the kernel accepted the call."""
    try:
        return call(name, *args)
    except OSError as error:
        if errno.errorcode[error.errno] not in past.split():
            raise


def secret_in(data):
    text = data if isinstance(data, bytes) else data.encode()
    if HOST["token"].encode() not in text:
        raise Held("nothing secret there")


def read(path, most=1 << 20):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)


def processes():
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def read_all(paths):
    """The readable content; the last error if there is none."""
    found, last = b"", None
    for path in paths:
        try:
            found += read(path)
        except OSError as error:
            last = error
    if not found and last is not None:
        raise last
    return found


def in_child(deed):
    """Run it in a child, which may be killed for it."""
    pid = os.fork()
    if pid == 0:
        try:
            deed()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
        finally:
            os._exit(255)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise Held(signal.Signals(os.WTERMSIG(status)).name)
    if os.WEXITSTATUS(status) == 255:
        raise RuntimeError("the child failed")
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "in the child")


def limit(kind, value):
    try:
        resource.setrlimit(kind, (value, value))
    except ValueError:
        raise OSError(errno.EPERM, "setrlimit") from None


def wait_until_seen():
    """Wait for the message that the host has seen it."""
    end = time.time() + LONG
    while HOST.get("tight") and time.time() < end and not os.path.exists("/workspace/limit-seen"):
        time.sleep(0.02)


def touch(view, size, step=4096):
    for at in range(0, size, step):
        view[at] = 1


def attack(deed):
    try:
        deed()
    except OSError as error:
        verdict = "HELD " + errno.errorcode.get(error.errno, str(error.errno))
    except Held as error:
        verdict = "HELD " + str(error)
    except MemoryError:
        verdict = "HELD ENOMEM"
    except Absent as error:
        verdict = "ABSENT " + str(error)
    else:
        verdict = "WON"
    sys.stdout.write("\n" + verdict + "\n")
    sys.stdout.flush()
    os._exit(0)
