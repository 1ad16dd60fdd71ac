"""A small process that forks for tests.

To fork a test run that has loaded every test takes as long as the work that is
to be killed. Reads pickled functions with their arguments from standard input,
runs each in a process of its own, and tells its wait status.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.deadline import DEADLINE_S

ROOT = Path(__file__).parents[2]


class Forks:
    """The other end: `run` is given what can be found by its name."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.workspace.fork_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, work: Callable[..., object], *arguments: object) -> int:
        assert self._process.stdin and self._process.stdout
        pickle.dump((work, arguments), self._process.stdin)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=DEADLINE_S)


def in_child(work: Callable[..., object], *arguments: object) -> int:
    """Run something in a process of its own; its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except BaseException:  # noqa: BLE001, whatever it was, the child must not go on as this one
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def main() -> None:
    result = os.dup(1)
    os.dup2(2, 1)  # what is logged is not for the other end
    while sys.stdin.buffer.peek(1):
        work, arguments = pickle.load(sys.stdin.buffer)
        os.write(result, b"%d\n" % in_child(work, *arguments))


if __name__ == "__main__":
    main()
