"""Processes of this machine, told apart from later ones with the same number."""

from pathlib import Path


def start_stamp(pid: int) -> str:
    """When a process started, in the kernel's own count, with the boot that it belongs to.

    Empty when there is no such process, or only its exit code is left.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    fields = stat.rpartition(") ")[2].split()
    return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"
