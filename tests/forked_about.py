"""A program that says what it finds itself to be: `python -m tests.forked_about WORD…`."""

import json
import os
import sys
import threading


def main(words: list[str]) -> int:
    match words:
        case ["exit", code]:
            return int(code)
        case ["wait"]:
            sys.stdout.write("here\n")
            sys.stdout.flush()
            sys.stdin.readline()
        case ["echo"]:
            sys.stderr.write("said")
            sys.stdout.write(sys.stdin.read())
        case ["terminal"]:
            with open("/dev/tty") as terminal:  # noqa: PTH123
                told = {"session": os.getsid(0), "foreground": os.tcgetpgrp(terminal.fileno())}
            sys.stdout.write(json.dumps(told | {"line_buffering": sys.stdout.line_buffering}))
        case _:
            told = {
                "words": words,
                "environment": dict(os.environ),
                "cwd": os.getcwd(),  # noqa: PTH109
                "descriptors": [n for n in range(256) if os.path.exists(f"/proc/self/fd/{n}")],  # noqa: PTH110
                "threads": threading.active_count(),
                "forked": "hutch.cli.main" in sys.modules,
            }
            sys.stdout.write(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
