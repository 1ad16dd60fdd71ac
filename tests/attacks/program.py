"""The text that runs inside for an attack, and its limits."""

from pathlib import Path

from hutch.jail.policy import GIB, MIB, Limits

PRELUDE = (Path(__file__).parent / "prelude.py").read_text()
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
SMALL = Limits(
    processes=64,
    memory_bytes=96 * MIB,
    tmp_bytes=16 * MIB,
    shm_bytes=8 * MIB,
    home_bytes=8 * MIB,
    workspace_growth_bytes=64 * GIB,  # of a disk that others fill too
)


def program(text: str) -> list[str]:
    """The command that acts and prints the verdict."""
    body = "".join(f"    {line}\n" for line in text.strip().splitlines())
    return [*PYTHON, f"{PRELUDE}\n\ndef deed():\n{body}\nattack(deed)\n"]


def verdict(stdout: bytes, *, end: str) -> str:
    """The last line of a program, or how it was ended."""
    for line in reversed(stdout.decode(errors="replace").splitlines()):
        if line.startswith(("WON", "HELD", "ABSENT")):
            return line
    return f"CUT {end}"
