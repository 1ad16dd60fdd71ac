"""Ends a command of a shell, but neither the shell nor what earlier commands left running.

Runs inside the jail, by the warden's Python. All that a shell ever started is
below its parent, the reaper, however it was detached; who is younger than the
command belongs to it. The shell gets SIGINT each time, which brings it back to
its prompt instead of on to the next part of the command.
"""

HUNT = r"""
import os, sys, time

shell, since_s, spare = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
me = os.getpid()
since = since_s * os.sysconf("SC_CLK_TCK")


def look():
    children, started = {}, {}
    reaper = 0
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
            if pid != shell and started.get(pid, 0) >= since:
                found.add(pid)
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


quiet, deadline = 0, time.monotonic() + 0.5
while quiet < 2:
    prey = look()
    send(shell, 2)
    send(shell, 18)
    for pid in prey:
        send(pid, 2)
        send(pid, 9)
    quiet = 0 if prey else quiet + 1
    if time.monotonic() > deadline:
        sys.exit(1)
    time.sleep(0.005)
"""
