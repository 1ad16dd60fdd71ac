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


def read_status(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.split(":", 1) for line in file)


def is_settled():
    # Until the shell has taken its interrupt, nothing can be said: while it waits for a program, it ignores
    # an interrupt of which the program did not die, and then starts the next one.
    try:
        status = read_status(shell)
    except OSError:
        return True
    return status["State"].split()[0] not in "RD" and not int(status["ShdPnd"], 16) & 2


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
    quiet = 0 if targets or not is_settled() else quiet + 1
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


def blocked_and_caught(pid, signal):
    status = read_status(pid)
    return [int(status[name], 16) >> (signal - 1) & 1 for name in ("SigBlk", "SigCgt")]


def has_trap():
    # While it forks, an interactive bash blocks SIGTERM, and has no handler for it, or one of its own. A
    # trap is there at every look.
    looks, until = 0, time.monotonic() + 1
    while looks < 10 and time.monotonic() < until:
        blocked, caught = blocked_and_caught(shell, number)
        if not blocked and not caught:
            return False
        looks += caught
        time.sleep(0.005)
    return looks > 0


def is_starting(pid):
    # A process that the shell has just forked still has the shell's handler. It would not die of an
    # interrupt, but end with an exit code, and the shell would go on with the next part of the command.
    # A subshell may look the same, so this is believed for some rounds only.
    rounds[pid] = rounds.get(pid, 0) + 1
    try:
        is_copy = os.readlink("/proc/%d/exe" % pid) == program and blocked_and_caught(pid, 2)[1]
    except OSError:
        return False
    return is_copy and rounds[pid] <= 20


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
program = os.readlink("/proc/%d/exe" % shell)
interrupted, rounds = set(), {}
quiet, deadline = 0, time.monotonic() + 3
while quiet < 2:
    targets = find_processes()
    if not targets & signalled and not any([is_starting(pid) for pid in targets]):
        send(shell, 2)
        for pid in targets:  # one at a time: the shell stops only if a program died of the interrupt
            send(pid, number if pid in interrupted else 2)
        interrupted |= targets
    quiet = 0 if targets or not is_settled() else quiet + 1
    if time.monotonic() > deadline:
        sys.exit(1)
    time.sleep(0.005)
"""
)
