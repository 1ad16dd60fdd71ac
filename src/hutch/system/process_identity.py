"""The identity of a process, which differs from later processes with the same pid."""

from pathlib import Path


def start_stamp(pid: int) -> str:
    """When a process started, in kernel ticks, with the id of the boot.

    Empty when there is no such process, or it is a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    fields = stat.rpartition(") ")[2].split()
    return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"
