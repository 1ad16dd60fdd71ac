"""Checks whether the attacks were run with their guards off since they, or the jail, last changed.

An attack with its guard off shows that the attack itself works. So it is run only after the attacks or
the jail have changed: `make controls` writes a digest of both to tests/attacks/controls.sha256, and a
test compares it.
"""

import hashlib
import os
from pathlib import Path

ATTACKS = "tests/attacks"
RECORD = f"{ATTACKS}/controls.sha256"
COVERED = (ATTACKS, "src/hutch/jail")
STALE = (
    f"{' or '.join(COVERED)} has changed since the attacks were last run with their guards off. "
    "Run: make controls"
)


def digest(root: Path) -> str:
    """The hash of the names and contents of the covered files."""
    found = hashlib.sha256()
    for path in sorted(path for place in COVERED for path in (root / place).rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return found.hexdigest()


def is_fresh(root: Path) -> bool:
    path = root / RECORD
    return path.exists() and path.read_text().split()[:1] == [digest(root)]


def record(root: Path, before: str) -> int:
    """Write the digest of the files that were tested; returns an exit code."""
    if digest(root) != before:
        print(f"Files changed while the controls ran, so {RECORD} was not updated. Run: make controls")
        return 1
    gateways = "as root and as an ordinary user" if os.geteuid() == 0 else "as an ordinary user"
    (root / RECORD).write_text(f"{before}  run {gateways}\n")
    print(f"{RECORD} was written. Commit it.")
    return 0
