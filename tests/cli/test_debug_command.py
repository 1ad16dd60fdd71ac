"""`hutch debug`: a program of a session, driven by commands from standard input."""

import json

from hutch.cli import exit_codes
from tests.cli.attached_users import running_server

PROGRAM = "def double(n):\n    m = n * 2\n    return m\n\n\nprint('total', double(21))\n"


def test_a_program_is_stepped_and_its_values_are_printed() -> None:
    with running_server() as server:
        session = server.new({"text": "Ready.", "times": 10}, prompt="Wait")
        server.until(session, "idle")
        assert server.say("files", "put", session, "-", "shop.py", stdin=PROGRAM).returncode == exit_codes.OK
        typed = "n\np m + 1\np no_such\nbt\nv\nb shop.py:2\nc\n"
        ran = server.say("debug", session, "shop.py", "-b", "shop.py:2", stdin=typed)
        assert ran.returncode == exit_codes.OK, ran.stderr
        lines = ran.stdout.splitlines()
        assert lines[:3] == [
            "shop.py: breakpoints at 2",
            "stopped at shop.py:2 in double (breakpoint)",
            "stopped at shop.py:3 in double (step)",
        ]
        assert lines[3] == "43" and "NameError: name 'no_such' is not defined" in ran.stdout
        assert "shop.py:6 in <module>" in lines and "m = 42" in lines and "n = 21" in lines
        assert lines[-3:] == [
            "shop.py: breakpoints at none",
            "total 42",
            "ended: the program ended, exit code 0",
        ]
        entry = server.say("debug", session, "shop.py", "--json", stdin="q\n")
        assert json.loads(entry.stdout.splitlines()[-1])["frames"][0]["line"] == 1
        assert json.loads(server.hutch("debug", session, "none.py", "--json").stderr)["error"]
        log = server.hutch("log", session).stdout
        assert "debug.stopped" in log and "shop.py:2 (breakpoint)" in log
