"""A program that prints its own environment: `python -m tests.environment_printer WORD…`."""

import atexit
import json
import os
import signal
import sys
import threading
import time


def main(words: list[str]) -> int:
    match words:
        case ["exit", code]:
            return int(code)
        case ["exit late", code]:
            # Python waits for threads, then calls exit functions, then writes what is buffered.
            atexit.register(sys.stdout.write, "exit function\n")
            threading.Thread(target=lambda: (time.sleep(0.2), sys.stdout.write("thread\n"))).start()
            sys.exit(int(code))
        case ["raise"]:
            raise ValueError("as asked")
        case ["exit words"]:
            sys.exit("some words")
        case ["wait"]:
            sys.stdout.write("here\n")
            sys.stdout.flush()
            sys.stdin.readline()
        case ["until", path]:
            sys.stdout.write("one\ntwo\n")
            sys.stdout.flush()
            while not os.path.exists(path):  # noqa: PTH110
                time.sleep(0.01)
            sys.stdout.write("three\n")
        case ["echo"]:
            sys.stderr.write("said")
            sys.stdout.write(sys.stdin.read())
        case ["terminal"]:
            with open("/dev/tty") as terminal:  # noqa: PTH123
                result = {"session": os.getsid(0), "foreground": os.tcgetpgrp(terminal.fileno())}
            sys.stdout.write(json.dumps(result | {"line_buffering": sys.stdout.line_buffering}))
        case _:
            result = {
                "words": words,
                "environment": dict(os.environ),
                "cwd": os.getcwd(),  # noqa: PTH109
                "descriptors": [n for n in range(256) if os.path.exists(f"/proc/self/fd/{n}")],  # noqa: PTH110
                "threads": threading.active_count(),
                "ignored": [each.name for each in signal.Signals if signal.getsignal(each) == signal.SIG_IGN],
                "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
                "forked": "hutch.cli.main" in sys.modules,
            }
            sys.stdout.write(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
