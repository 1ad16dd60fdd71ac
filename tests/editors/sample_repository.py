"""A small git repository with a task, a function to mend, and files to remove, move and extend."""

import subprocess
from pathlib import Path

FILES = {
    "TASKS.md": "# Tasks\n\n- [ ] T-1 Mend add #bug\n  - [ ] the sum is right\n- [x] T-2 Begin\n",
    "adding.py": "def add(a, b):\n    return a - b\n",
    "move.txt": "to be moved\nwith three\nlines\n",
    "old.txt": "of no\nuse\n",
    "tail.txt": "one\ntwo",
}


def make_repository(place: Path) -> Path:
    place.mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*author, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", str(place), *words], check=True)
    return place
