"""Scripts that signal or kill a command, but neither its shell nor what earlier
commands left running.

They run inside the jail, by the warden's Python. All processes that a shell ever
started are below its parent, the reaper, however they were detached. Those younger than
the command belong to it, and so does the shell process itself after `exec`.
"""

FIND_PROCESSES = r"""
import os, sys, time

shell, since_s, spare = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
replaced = sys.argv[4] == "1"  # the command replaced the shell
reaper = 0
me = os.getpid()
since = since_s * os.sysconf("SC_CLK_TCK")


def find_processes():
    global reaper
    children, started = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb", 0) as file:
                    state, parent, *rest = file.read(4096).rpartition(b")")[2].split()
            except OSError:
                continue
            pid = int(name)
            children.setdefault(int(parent), []).append(pid)
            if pid == shell:
                reaper = int(parent)
            if state not in b"ZX":
                started[pid] = int(rest[17])
    if not reaper:
        sys.exit(1)
    found, queue = set(), [reaper]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid in (me, spare):
                continue
            queue.append(pid)
            if pid in started and (replaced if pid == shell else started[pid] >= since):
                found.add(pid)
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
"""

# The shell gets SIGINT each time, so that it returns to its prompt instead of running the next part of the
# command.
KILL_SCRIPT = (
    FIND_PROCESSES
    + r"""

quiet, deadline = 0, time.monotonic() + 4
while quiet < 2:
    targets = find_processes()
    send(shell, 2)
    send(shell, 18)
    for pid in targets:
        send(pid, 2)
        send(pid, 9)
    quiet = 0 if targets else quiet + 1
    if time.monotonic() > deadline:
        sys.exit(1)
    time.sleep(0.005)
"""
)

# Sends a signal to all processes of the command, and to the shell. If the shell has a trap for it, the trap
# decides. Otherwise the shell ignores it, being interactive, and would run the next part of the command; so
# when the processes that got the signal have ended, the shell and all it has started since are interrupted.
SIGNAL_SCRIPT = (
    FIND_PROCESSES
    + r"""

number = int(sys.argv[5])


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb", 0) as file:
            return file.read(4096).rpartition(b")")[2].split()[0] not in b"ZX"
    except OSError:
        return False


def has_trap():
    # An interactive bash blocks SIGTERM while it forks, and has no handler for it meanwhile.
    until = time.monotonic() + 1
    while True:
        with open("/proc/%d/status" % shell) as file:
            status = dict(line.split(":", 1) for line in file)
        blocked, caught = (int(status[name], 16) >> (number - 1) & 1 for name in ("SigBlk", "SigCgt"))
        if caught or not blocked or time.monotonic() > until:
            return caught
        time.sleep(0.001)


caught = has_trap()
signalled = find_processes()
for pid in signalled:
    send(pid, number)
    send(pid, 18)
if not replaced:
    send(shell, number)
    send(shell, 18)
if replaced:
    sys.exit(0)
if caught:
    for attempt in range(100):
        targets = find_processes()
        if not is_alive(shell):  # processes it started meanwhile get the signal too
            for pid in targets - signalled:
                send(pid, number)
            if not targets:
                break
        time.sleep(0.01)
    if not is_alive(shell) or has_trap():
        sys.exit(0)
    # It has no trap: the handler was bash's own, at a moment when it forked.
quiet, deadline = 0, time.monotonic() + 3
while quiet < 2:
    targets = find_processes()
    if not targets & signalled:
        send(shell, 2)
        for pid in targets:
            send(pid, 2)
            send(pid, number)
    quiet = 0 if targets else quiet + 1
    if time.monotonic() > deadline:
        sys.exit(1)
    time.sleep(0.005)
"""
)
