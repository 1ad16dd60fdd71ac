"""Ways to reach files outside the jail: read them, write them, or leave traps in the workspace."""

import asyncio
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import replace

from .attack import CAPABLE, LEAKY, NO_JAIL, NO_SECCOMP, ROOT, WRITABLE_ROOT, Off, Probe, Scenes
from .program import SMALL
from .waiting import TIMEOUT_S

scene = Scenes()

NOWHERE = "ENOENT"
FIXED = "EROFS|EACCES|EPERM"

PROBES = [
    Probe(
        name="dot-dot",
        guard="mounts",
        text="read a public file of the host through `..`",
        program='secret_in(read("../" * 40 + HOST["world"] + "/public"))',
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="symlink-out",
        guard="mounts",
        text="read a host file through a symlink in the workspace",
        program='os.symlink(HOST["world"] + "/public", "way")\nsecret_in(read("way"))',
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="hard-link-out",
        guard="mounts",
        text="hard-link a host file into the workspace",
        program='os.link(HOST["world"] + "/public", "twin")\nsecret_in(read("twin"))',
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="hard-link-shown",
        guard="mounts",
        text="hard-link a file that is visible read-only, to write to it",
        program="""
shared = HOST["world"] + "/shared"
os.link(shared + "/written", shared + "/twin")
os.unlink(shared + "/twin")
""",
        held="EROFS",
        off=NO_JAIL,
    ),
    Probe(
        name="proc-self-root",
        guard="mounts",
        text="read a host file through /proc/self/root",
        program='secret_in(read("/proc/self/root" + HOST["world"] + "/public"))',
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="proc-root",
        guard="namespaces",
        text="read a host file through /proc/*/root of any process",
        program='secret_in(read_all("/proc/%d/root%s/key" % (p, HOST["victim_dir"]) for p in processes()))',
        held="EACCES|ENOENT",
        off=NO_JAIL,
    ),
    Probe(
        name="proc-cwd",
        guard="namespaces",
        text="read a host file through /proc/*/cwd of any process",
        program='secret_in(read_all("/proc/%d/cwd/key" % pid for pid in processes()))',
        held="EACCES|ENOENT",
        off=NO_JAIL,
    ),
    Probe(
        name="proc-fd",
        guard="namespaces",
        text="read a host file through /proc/*/fd/* of any process",
        program='secret_in(read_all("/proc/%d/fd/%d" % (p, n) for p in processes() for n in range(40)))',
        held="EACCES|ENOENT|nothing secret there|ENXIO",
        off=NO_JAIL,
    ),
    Probe(
        name="neighbour-workspace",
        guard="mounts",
        text="read another session's workspace by its path",
        program="""
secret_in(read_all([HOST["world"] + "/neighbour/work", "../neighbour/work", "../../neighbour/work",
                    "/workspace/../neighbour/work"]))
""",
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="stranger-file",
        guard="uid",
        text="read a private file of another user, if it were visible",
        program='secret_in(read(HOST["world"] + "/stranger/diary"))',
        held="ENOENT|EACCES",
        off=ROOT,
    ),
    Probe(
        name="shadow",
        guard="mounts",
        text="read /etc/shadow, ssh host keys or sudo's rules",
        program='read_all(["/etc/shadow", "/etc/gshadow", "/etc/ssh/ssh_host_ed25519_key", "/etc/sudoers"])',
        held=NOWHERE,
        off=ROOT,
    ),
    Probe(
        name="homes",
        guard="mounts",
        text="see homes of the host's users",
        program="""
seen = [place for place in ("/root", "/home", "/var/lib", "/srv") if os.path.isdir(place)]
if seen == ["/home"] and os.listdir("/home") == ["hutch"]:
    raise Held("only its own")
""",
        held="only its own",
        off=NO_JAIL,
    ),
    Probe(
        name="host-tmp",
        guard="mounts",
        text="see the host's /tmp",
        program="""
if not set(os.listdir("/tmp")) - {HOST["world"].split("/")[2]}:  # that one leads to what is shown
    raise Held("another /tmp")
""",
        held="another /tmp",
        off=NO_JAIL,
    ),
    Probe(
        name="host-run",
        guard="mounts",
        text="see the host's /run and its sockets",
        program="""
if os.listdir("/run") == ["hutch"]:
    raise Held("only its own")
""",
        held="only its own",
        off=NO_JAIL,
    ),
    Probe(
        name="unix-socket-path",
        guard="mounts",
        text="connect to the gateway's unix socket by its path",
        program='socket.socket(socket.AF_UNIX).connect(HOST["world"] + "/gateway/socket")',
        held=NOWHERE,
        off=NO_JAIL,
    ),
    Probe(
        name="environment-own",
        guard="clean start",
        text="find the gateway's key in the environment",
        program='secret_in("".join(v for k, v in os.environ.items() if k != "HOST"))',
        held="nothing secret there",
        off=LEAKY,
    ),
    Probe(
        name="environment-others",
        guard="clean start",
        text="find the gateway's key in /proc/*/environ, the warden's included",
        program="""
found = read_all("/proc/%d/environ" % pid for pid in processes())
secret_in(b"".join(word for word in found.split(b"\\0") if not word.startswith(b"HOST=")))
""",
        held="nothing secret there|EACCES",
        off=LEAKY,
    ),
    Probe(
        name="arguments-others",
        guard="namespaces",
        text="find the gateway's secrets in /proc/*/cmdline",
        program="""
mine = os.getpid()
secret_in(read_all("/proc/%d/cmdline" % pid for pid in processes() if pid != mine))
""",
        held="nothing secret there",
        off=NO_JAIL,
    ),
    Probe(
        name="warden-arguments",
        guard="clean start",
        text="read the host's paths from the first process's arguments",
        program="""
if HOST["world"].encode() not in read("/proc/1/cmdline"):
    raise Held("not visible")
""",
        held="not visible",
        off=Off("no --as-pid-1, options on the command line", without=("--as-pid-1",)),
    ),
    Probe(
        name="inherited-file",
        guard="clean start",
        text="read a secret file that the gateway had open",
        program="""
found = b""
for fd in range(3, 256):
    try:
        found += os.pread(fd, 4096, 0)
    except OSError:
        pass
secret_in(found)
""",
        held="nothing secret there",
        off=LEAKY,
    ),
    Probe(
        name="inherited-anything",
        guard="clean start",
        text="find any descriptor beyond 0, 1 and 2",
        program="""
found = [fd for fd in range(3, 1024) if os.path.exists("/proc/self/fd/%d" % fd)]
if not found:
    raise Held("none")
""",
        held="none",
        off=LEAKY,
    ),
    Probe(
        name="inherited-listener",
        guard="clean start",
        text="accept connections on the gateway's own listening socket",
        program="""
for fd in range(3, 256):
    try:
        if socket.socket(fileno=os.dup(fd)).getsockname()[1] == HOST["port"]:
            break
    except OSError:
        pass
else:
    raise Held("none")
""",
        held="none",
        off=LEAKY,
    ),
    Probe(
        name="write-root",
        guard="mounts",
        text="create a file in /",
        program='open("/new", "w").close()',
        held=FIXED,
        off=WRITABLE_ROOT,
    ),
    Probe(
        name="write-etc",
        guard="mounts",
        text="add a user with uid 0 to /etc/passwd",
        program='os.chmod("/etc/passwd", 0o644)\nopen("/etc/passwd", "a").write("me::0:0::/:/bin/sh")',
        held=FIXED,
        off=WRITABLE_ROOT,
    ),
    Probe(
        name="write-usr",
        guard="mounts",
        text="write below /usr",
        program="""
name = "/usr/hutch-attack-%d" % os.getpid()
os.close(os.open(name, os.O_CREAT | os.O_EXCL))
os.unlink(name)
""",
        held=FIXED,
        off=ROOT,
    ),
    Probe(
        name="write-dev",
        guard="mounts",
        text="create a file in /dev, a tmpfs of half the memory by default",
        program='open("/dev/new", "w").close()',
        held=FIXED,
        off=Off("no --remount-ro /dev", without=("--remount-ro /dev",)),
    ),
    Probe(
        name="write-warden",
        guard="mounts",
        text="replace the warden's program",
        program='os.chmod("/run/hutch/warden.py", 0o644)\nopen("/run/hutch/warden.py", "w").write("pass")',
        held=FIXED,
        off=WRITABLE_ROOT,
    ),
    Probe(
        name="write-shown",
        guard="mounts",
        text="write to a world-writable file that is visible read-only",
        program='open(HOST["world"] + "/shared/written", "r+").close()',
        held="EROFS",
        off=NO_JAIL,
    ),
    Probe(
        name="sys",
        guard="mounts",
        text="write to /sys",
        program="""
path = "/sys/kernel/mm/transparent_hugepage/use_zero_page"
now = open(path).read()
open(path, "w").write(now)  # as it was
""",
        held="ENOENT|EROFS|EACCES",
        off=ROOT,
    ),
    Probe(
        name="core-pattern",
        guard="uid",
        text="write kernel.core_pattern, which names a program that the host runs as root",
        program="""
path = "/proc/sys/kernel/core_pattern"
now = open(path).read()
open(path, "w").write(now)  # as it was
""",
        held=FIXED,
        off=Off(
            "bwrap started by kernel root, no --remount-ro /proc", root=True, without=("--remount-ro /proc",)
        ),
    ),
    Probe(
        name="core-pattern-unmapped",
        guard="mounts",
        text="the same, if bwrap was ever started as kernel root: /proc is also read-only",
        program='os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))',
        held=FIXED,
        off=Off(
            "bwrap started by kernel root, no --remount-ro /proc", root=True, without=("--remount-ro /proc",)
        ),
    ),
    Probe(
        name="sysctl-of-network",
        guard="mounts",
        text="write a sysctl of the jail's own network",
        program='open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w").write("0")',
        held=FIXED,
        off=CAPABLE,
    ),
    Probe(
        name="sysrq",
        guard="uid",
        text="open /proc/sysrq-trigger for writing",
        program="""
if not HOST["jailed"] and not os.path.exists("/proc/sysrq-trigger"): raise Absent("no sysrq here")
os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))  # nothing is written
""",
        held="ENOENT|EROFS|EACCES",
        off=ROOT,
    ),
    Probe(
        name="kcore",
        guard="mounts",
        text="read the kernel's memory from /proc/kcore",
        program="""
if not HOST["jailed"] and not os.path.exists("/proc/kcore"): raise Absent("no kcore here")
if not read("/proc/kcore", 64): raise Held("empty")
""",
        held="empty|ENOENT|EACCES|EPERM",
        off=ROOT,
    ),
    Probe(
        name="kallsyms",
        guard="mounts",
        text="read the kernel's symbols",
        program='if not read("/proc/kallsyms", 64): raise Held("empty")',
        held="empty|EACCES",
        off=NO_JAIL,
    ),
    Probe(
        name="kernel-command-line",
        guard="mounts",
        text="read the host's boot options",
        program='if not read("/proc/cmdline", 64): raise Held("empty")',
        held="empty|EACCES",
        off=NO_JAIL,
    ),
    Probe(
        name="proc-keys",
        guard="mounts",
        text="list kernel keys",
        program='if not read("/proc/keys", 64): raise Held("empty")',
        held="empty|ENOENT|EACCES",
        off=ROOT,
    ),
    Probe(
        name="kmsg",
        guard="mounts",
        text="read the kernel's log from /dev/kmsg or /proc/kmsg",
        program='if not read_all(["/dev/kmsg", "/proc/kmsg"]): raise Held("empty")',
        held="ENOENT|EPERM|EACCES|empty",
        off=Off("kernel root, no jail", jail=False, root=True),
    ),
    Probe(
        name="devices",
        guard="mounts",
        text="find a device that is not harmless",
        program="""
harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
found = []
for name in os.listdir("/dev"):
    mode = os.lstat("/dev/" + name).st_mode
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) and name not in harmless:
        found.append(name)
if not found:
    raise Held("harmless ones only")
""",
        held="harmless ones only",
        off=Off("the host's /dev", also=("--dev-bind", "/dev", "/dev")),
    ),
    Probe(
        name="mknod-disk",
        guard="uid",
        text="make a device node of the disk in the workspace",
        program='os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(254, 0))\nos.unlink("disk")',
        held="EPERM",
        off=ROOT,
    ),
    Probe(
        name="mknod-memory",
        guard="uid",
        text="make a device node of the memory in /tmp",
        program='os.mknod("/tmp/mem-of-" + HOST["token"], stat.S_IFCHR | 0o600, os.makedev(1, 1))\n'
        'os.unlink("/tmp/mem-of-" + HOST["token"])',
        held="EPERM",
        off=ROOT,
    ),
    Probe(
        name="setuid-program",
        guard="uid",
        text="gain another user's privileges from a set-user-ID program that is visible",
        program="""
import subprocess
said = subprocess.run([HOST["world"] + "/shared/id", "-u"], stdout=subprocess.PIPE).stdout
if int(said) == os.getuid():
    raise Held("no gain")
""",
        held="no gain",
        off=NO_JAIL,
        needs_root=True,
    ),
    Probe(
        name="chown-away",
        guard="uid",
        text="give a workspace file to another user",
        program='open("gift", "w").close()\nos.chown("gift", 61235, 61235)',
        held="EPERM|EINVAL",
        off=ROOT,
    ),
    Probe(
        name="file-capability",
        guard="uid",
        text="give a workspace file a capability",
        program="""
open("power", "w").close()
os.setxattr("power", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0))
""",
        held="EPERM",
        off=ROOT,
    ),
    Probe(
        name="immutable",
        guard="uid",
        text="make a workspace file that the host cannot delete",
        program="""
fd = os.open("forever", os.O_CREAT | os.O_RDWR)
flags = bytearray(struct.pack("l", 0))
fcntl.ioctl(fd, 0x80086601, flags)  # FS_IOC_GETFLAGS
was = struct.unpack("l", flags)[0]
fcntl.ioctl(fd, 0x40086602, struct.pack("l", was | 0x10))
fcntl.ioctl(fd, 0x40086602, struct.pack("l", was))  # and back
""",
        held="EPERM|ENOTTY|EOPNOTSUPP",
        off=ROOT,
    ),
    Probe(
        name="lease",
        guard="seccomp",
        text="take a lease on a workspace file: a process that opens it on the host waits up to 45 s",
        program="""
fd = os.open("bait", os.O_CREAT | os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
""",
        held="EPERM|EINVAL|EACCES",
        off=NO_SECCOMP,
    ),
    *(
        Probe(
            name=f"setuid-file-{way}",
            guard="seccomp",
            text=f"leave a set-user-ID file in the workspace, by {way}",
            program=f"""
os.umask(0)
{program}
if not os.stat("trap").st_mode & 0o6000:
    raise Held("the bit is gone")
""",
            held="EPERM|ENOSYS|the bit is gone",
            off=NO_SECCOMP,
        )
        for way, program in {
            "chmod": 'open("trap", "w").close()\nos.chmod("trap", 0o4755)',
            "chmod-setgid": 'open("trap", "w").close()\nos.chmod("trap", 0o2755)',
            "fchmod": 'fd = os.open("trap", os.O_CREAT | os.O_RDWR)\nos.fchmod(fd, 0o4755)',
            "fchmodat": 'open("trap", "w").close()\ncall("fchmodat", -100, b"trap", 0o4755)',
            "fchmodat2": 'open("trap", "w").close()\ncall("fchmodat2", -100, b"trap", 0o4755, 0)',
            "fchmod-high-bits": 'fd = os.open("trap", os.O_CREAT | os.O_RDWR)\n'
            "libc.fchmod.argtypes = (ctypes.c_int, ctypes.c_long)\n"
            "if libc.fchmod(fd, 0o4755 | 1 << 40): raise OSError(ctypes.get_errno(), 'fchmod')",
            "open": 'os.close(os.open("trap", os.O_CREAT | os.O_WRONLY, 0o4755))',
            "openat": 'here = os.open(".", os.O_RDONLY)\n'
            'os.close(os.open("trap", os.O_CREAT | os.O_WRONLY, 0o4755, dir_fd=here))',
            "openat2": 'how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)\n'
            'call("openat2", -100, b"trap", how, len(how))',
            "tmpfile": 'fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755)\n'
            'os.link("/proc/self/fd/%d" % fd, "trap", src_dir_fd=fd, follow_symlinks=True)',
            "mknod": 'os.mknod("trap", stat.S_IFREG | 0o4755)',
            "mkdir": 'os.mkdir("trap")\nos.chmod("trap", 0o2777)',
        }.items()
    ),
    Probe(
        name="mount-tmpfs",
        guard="seccomp",
        text="mount a tmpfs without a size",
        program='call("mount", b"none", b"/tmp", b"tmpfs", 0, 0)',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="mount-bind",
        guard="seccomp",
        text="bind-mount over a file",
        program='call("mount", b"/proc", b"/tmp", 0, 0x1000 | 0x4000, 0)',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="mount-remount",
        guard="seccomp",
        text="make a read-only mount writable again",
        program="""
if HOST["uid"] != os.getuid():  # the control's own tmpfs, first made read-only
    call("mount", b"none", b"/tmp", b"tmpfs", 1, 0)
call("mount", b"none", b"/" if HOST["uid"] == os.getuid() else b"/tmp", 0, 0x20, 0)
""",
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="umount",
        guard="seccomp",
        text="unmount a mount that covers files",
        program="""
if HOST["uid"] != os.getuid():
    call("mount", b"none", b"/tmp", b"tmpfs", 0, 0)
call("umount2", b"/tmp", 2)
""",
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="fsopen",
        guard="seccomp",
        text="make a file system with the new mount calls",
        program='call("fsopen", b"tmpfs", 0)',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="open-tree",
        guard="seccomp",
        text="clone a mount with open_tree",
        program='call("open_tree", -100, b"/tmp", 0x8001)',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="mount-setattr",
        guard="seccomp",
        text="clear the read-only flag with mount_setattr",
        program='call("mount_setattr", -100, b"/proc", 0, struct.pack("QQQQ", 8, 0, 0, 0), 32)',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="pivot-root",
        guard="seccomp",
        text="change the root mount",
        program='reached("pivot_root", b"/nowhere", b"/nowhere", past="ENOENT")',
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="chroot-escape",
        guard="seccomp",
        text="chroot below a directory that is kept open, then climb out",
        program="""
top = os.open("/", os.O_RDONLY)
os.mkdir("cell")
call("chroot", b"cell")
os.fchdir(top)
if not os.path.exists("usr"):
    raise Held("still inside")
""",
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="open-by-handle",
        guard="seccomp",
        text="open files by handle, past all directories",
        program="""
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
number = ctypes.c_int()
call("name_to_handle_at", -100, b".", handle, ctypes.byref(number), 0)
call("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_RDONLY)
""",
        held="EPERM",
        off=ROOT,
    ),
]


@scene(
    "uid",
    "files made in the workspace belong to its owner on the host, whatever the jail's uid",
    control="a file made at the jail's uid without the idmapped mount belongs to the jail",
)
async def idmapped_owner(setup) -> None:
    place = setup.directory("owned", uid=setup.owner)
    async with setup.jail_on(place) as jail:
        made = await jail.run(
            ["sh", "-c", "echo x >file; mkdir d; ln -s file link; mkfifo fifo; stat -c %u file"]
        )
        inside, uid = int(made.stdout), await setup.uid(jail)
    assert inside == uid
    owners = {path.name: path.lstat().st_uid for path in place.iterdir()}
    assert set(owners) == {"file", "d", "link", "fifo"}
    assert set(owners.values()) == {place.stat().st_uid}
    if setup.is_root:
        assert place.stat().st_uid != uid
        plain = setup.directory("plain", uid=uid)
        await asyncio.to_thread(setup.plainly, ["touch", str(plain / "file")], uid)
        assert (plain / "file").stat().st_uid == uid


@scene(
    "uid",
    "in a workspace owned by root, change files of other users, or leave a set-user-ID root file",
    control="root itself can do both in the same directory",
)
async def workspace_of_root(setup) -> None:
    place = setup.directory("of-root", uid=0 if setup.is_root else None)
    other = place / "other"
    other.write_text("as it was")
    if setup.is_root:
        os.chown(other, 61_235, 61_235)
    other.chmod(0o600 if setup.is_root else 0o400)
    script = "cat other; echo changed >other; cp /bin/true trap; chmod 4755 trap; chmod u+s trap; ls -ln trap"
    async with setup.jail_on(place) as jail:
        done = await jail.run(["sh", "-c", script])
    assert other.read_text() == "as it was", done
    assert not (place / "trap").stat().st_mode & (stat.S_ISUID | stat.S_ISGID), done
    (place / "trap").chmod(0o4755)
    other.chmod(0o600)
    other.write_text("changed")
    assert (place / "trap").stat().st_mode & stat.S_ISUID


@scene(
    "uid",
    "gain privileges from a set-user-ID program that was in the workspace before",
    control="the same program, run without a jail by the same user, grants them (as root)",
)
async def setuid_in_workspace(setup) -> None:
    place = setup.directory("with-setuid", uid=setup.owner)
    program = place / "id"
    shutil.copyfile("/usr/bin/id", program)
    if setup.is_root:
        os.chown(program, 61_235, 61_235)
    program.chmod(0o4755)
    async with setup.jail_on(place) as jail:
        uid = await setup.uid(jail)
        assert int((await jail.run(["./id", "-u"])).stdout) == uid
    if setup.is_root:
        assert int(await asyncio.to_thread(setup.plainly, [str(program), "-u"], uid)) == 61_235


@scene(
    "mounts",
    "change the workspace of a jail that may not write",
    control="a jail that may write changes it",
)
async def readonly_workspace(setup) -> None:
    place = setup.directory("readonly", uid=setup.owner)
    script = "echo x >new; mkdir d; chmod 700 .; touch ."
    for writable in (False, True):
        async with setup.jail_on(place, writable=writable) as jail:
            await jail.run(["sh", "-c", script])
        assert [path.name for path in sorted(place.iterdir())] == (["d", "new"] if writable else [])


@scene(
    "disk",
    "stop the host's measurement with FIFOs, sockets, link loops and hidden directories in the workspace",
    control="opening such a FIFO normally blocks",
)
async def traps_in_workspace(setup) -> None:
    script = (
        "mkfifo fifo; ln -s . loop; ln -s /dev/zero zero; ln -s /proc/self/root root; mkdir -m 0 hidden; "
        "python3 -c \"import socket; socket.socket(1).bind('sock')\"; mknod white c 0 0; "
        "dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; sleep 500"
    )
    place = setup.directory("traps", uid=setup.owner)
    async with setup.jail_on(place, replace(SMALL, workspace_growth_bytes=1 << 20)) as jail:
        done = await jail.run(["sh", "-c", script], timeout_s=TIMEOUT_S)
        assert done.limit_hit and done.limit_hit.limit == "workspace_growth_bytes", done
        after = await jail.run(["echo", "alive"])
        # While the jail hides a directory, writes of others to the disk count as its own.
        named = after.limit_hit and after.limit_hit.limit == "workspace_growth_bytes"
        assert after.stdout == b"alive\n" or named, after
    opening = asyncio.create_task(asyncio.to_thread((place / "fifo").read_bytes))
    while True:
        await asyncio.sleep(0.2)
        assert not opening.done()
        with suppress(OSError):  # no process has it open for reading yet
            os.close(os.open(place / "fifo", os.O_WRONLY | os.O_NONBLOCK))  # lets it go
            break
    await opening
