"""`hutch shell` is a session in the log, unless the user says otherwise."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked_command
from tests.cli.test_shell_command import Person, environment, start
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    (directory / "work").mkdir()
    yield directory
    shutil.rmtree(directory)


def hutch(place: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return forked_command.run(
        [HUTCH, *words],
        cwd=place / "work",
        env=environment(place, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def sessions(place: Path) -> list[dict[str, Any]]:
    """All sessions, the newest first."""
    return [json.loads(line) for line in hutch(place, "log", "--json").stdout.splitlines()]


def events(place: Path, session: str = "last") -> list[dict[str, Any]]:
    exported = hutch(place, "export", session, "--format", "jsonl")
    return [json.loads(line)["event"] for line in exported.stdout.splitlines()]


def test_a_command_is_a_session(place: Path) -> None:
    ran = hutch(place, "shell", "--", "sh", "-c", f"echo out {TOKEN}; echo err >&2; exit 3")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, f"out {TOKEN}\n", "err\n")
    work = str(place / "work")
    listed = json.loads(hutch(place, "sessions", "list", "--json").stdout)
    assert (listed["purpose"], listed["repository"], listed["state"]) == (f"shell in {work}", work, "ended")
    (logged,) = sessions(place)
    assert (logged["session"], logged["ended"]) == (listed["id"], True)
    opened, *_, ended = found = events(place)
    assert (opened["owner"], opened["purpose"]) == (listed["owner"], f"shell in {work}")
    assert (ended["type"], ended["outcome"]) == ("session.ended", "done")
    began, *printed, done = [each for each in found if each["type"].startswith(("command.", "shell."))]
    assert began["type"] == "command.started" and done["type"] == "command.ended"
    assert began["by"] == done["by"] == listed["owner"]
    assert (began["command"].split()[0], done["exit_code"]) == ("sh", 3)
    assert {each["stream"]: each["text"] for each in printed} == {
        "stdout": "out [redacted:github_token]\n",
        "stderr": "err\n",
    }
    assert TOKEN not in json.dumps(found)
    assert hutch(place, "export", "last", "-o", str(place / "record.zip")).returncode == 0
    assert hutch(place, "verify", str(place / "record.zip")).returncode == 0


def test_what_a_shell_changed_can_be_read_later(place: Path) -> None:
    (place / "work/file").write_text("one\n")
    assert hutch(place, "shell", "--", "sh", "-c", "echo two > file").returncode == 0
    session = sessions(place)[0]["session"]
    assert hutch(place, "shell", "--", "sh", "-c", "echo three > file").returncode == 0
    [seq] = [at for at, event in enumerate(events(place, session), 1) if event["type"] == "file.changed"]
    assert hutch(place, "log", session, "--content", str(seq)).stdout == "two\n"
    assert "-one\n+two\n" in hutch(place, "log", session, "--diff", str(seq)).stdout


def test_a_shell_on_a_terminal_is_a_session(place: Path) -> None:
    shell = Person(place)
    try:
        shell.see(r"\$ ")
        shell.type("echo to-the-lo''g\n")
        shell.see("to-the-log")
        shell.resize(30, 100)
        shell.type("until stty size | grep '^30 100$'; do sleep 0.1; done\n")
        shell.see(r"\n30 100\r")
        shell.type("exit 7\n")
        assert shell.leave() == 7
    finally:
        shell.close()
    found = events(place)
    kinds = [each["type"] for each in found]
    assert kinds[0] == "session.opened" and kinds[-1] == "session.ended"
    (opened,) = [each for each in found if each["type"] == "terminal.opened"]
    (ended,) = [each for each in found if each["type"] == "terminal.ended"]
    assert (opened["columns"], opened["rows"], opened["by"]) == (80, 24, found[0]["owner"])
    assert ended["exit_code"] == 7
    assert "terminal.resized" in kinds
    assert "to-the-log" in "".join(each.get("text", "") for each in found)


def test_a_command_on_a_terminal_is_a_session(place: Path) -> None:
    command = Person(place, "--", "sh", "-c", "test -t 1 && echo on a terminal")
    try:
        command.see("on a terminal")
        assert command.leave() == 0
    finally:
        command.close()
    kinds = [each["type"] for each in events(place)]
    assert [kind for kind in kinds if kind.startswith(("command.", "shell."))] == [
        "command.started",
        "shell.printed",
        "command.ended",
    ]


def test_the_first_line_says_whether_the_shell_is_recorded(place: Path) -> None:
    for words, text in (((), "; recorded: hutch log last"), (("--no-log",), "; not recorded")):
        shell = Person(place, *words)
        try:
            shell.see(text)
            shell.see(r"\$ ")
            shell.type("exit\n")
            assert shell.leave() == 0
        finally:
            shell.close()


def test_blocked_connections_are_recorded(place: Path) -> None:
    fetch = "import urllib.request as r; r.urlopen('http://blocked.example/')"
    assert hutch(place, "shell", "--", "python3", "-c", fetch).returncode == 1
    (attempt,) = [each for each in events(place) if each["type"] == "egress.attempted"]
    assert (attempt["host"], attempt["allowed"]) == ("blocked.example", False)


def test_without_a_log_nothing_is_recorded(place: Path) -> None:
    ran = hutch(place, "shell", "--no-log", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ran\n", "")
    assert not (place / "home").exists()


def test_a_failed_start_and_a_timeout_end_the_session_as_failed(place: Path) -> None:
    assert hutch(place, "shell", "--", "no-such-program").returncode == 127
    assert hutch(place, "shell", "--timeout", "0.5", "--", "sleep", "60").returncode == 5
    timed_out, missing = [events(place, each["session"]) for each in sessions(place)]
    assert missing[-1]["outcome"] == timed_out[-1]["outcome"] == "failed"
    assert "no-such-program" in missing[-1]["reason"] and "--timeout" in timed_out[-1]["reason"]
    assert [each["timed_out"] for each in timed_out if each["type"] == "command.ended"] == [True]


@pytest.mark.parametrize("damage", ["a file in its place", "a damaged database"])
def test_if_nothing_can_be_recorded_nothing_runs(place: Path, damage: str) -> None:
    if damage == "a file in its place":
        (place / "home").mkdir()
        (place / "home" / "data").write_text("not a directory")
    else:
        (place / "home" / "data").mkdir(parents=True)
        (place / "home" / "data" / "hutch.db").write_text("not a database " * 100)
    ran = hutch(place, "shell", "--", "touch", "made")
    assert (ran.returncode, ran.stdout, (place / "work" / "made").exists()) == (6, "", False)
    assert "cannot be recorded" in ran.stderr and "--no-log" in ran.stderr
    assert hutch(place, "shell", "--no-log", "--", "touch", "made").returncode == 0


def test_a_directory_that_is_too_large_to_record_is_refused(place: Path) -> None:
    for number in range(120):
        (place / "work" / str(number)).touch()
    ran = hutch(place, "shell", "--", "true", HUTCH_WORKSPACE__QUOTA_FILES="100")
    assert ran.returncode == 5
    assert "workspace.quota_files" in ran.stderr and "--no-log" in ran.stderr
    assert events(place)[-1]["outcome"] == "failed"


def test_a_session_whose_shell_was_killed_is_ended_later(place: Path) -> None:
    shell = start(place, "--", "sh", "-c", "echo ready; sleep 600")
    assert shell.stdout is not None and shell.stdout.readline() == b"ready\n"
    (session,) = sessions(place)
    assert session["state"] == "idle"
    os.kill(shell.pid, signal.SIGKILL)
    shell.communicate()
    assert hutch(place, "shell", "--", "true").returncode == 0
    _, killed = sessions(place)
    assert (killed["session"], killed["state"]) == (session["session"], "ended")
    assert events(place, killed["session"])[-1] == {
        "type": "session.ended",
        "v": 1,
        "outcome": "abandoned",
        "reason": "Its process was killed. Input and output of the last moments may be missing.",
    }


def test_two_shells_in_one_directory_are_two_sessions(place: Path) -> None:
    first = start(place, "--", "sh", "-c", "echo ready; read line; echo $line")
    assert first.stdout is not None and first.stdout.readline() == b"ready\n"
    assert hutch(place, "shell", "--", "sh", "-c", "echo two > file").returncode == 0
    second = sessions(place)[0]["session"]
    # Later ones use the snapshots of the first and of the second.
    assert hutch(place, "shell", "--", "sh", "-c", "echo three > file").returncode == 0
    output, _ = first.communicate(b"done\n", timeout=DEADLINE_S)
    assert (first.returncode, output) == (0, b"done\n")
    assert hutch(place, "shell", "--", "sh", "-c", "echo four > file").returncode == 0
    assert [each["state"] for each in sessions(place)] == ["ended"] * 4
    [seq] = [at for at, event in enumerate(events(place, second), 1) if event["type"] == "file.changed"]
    read = hutch(place, "log", second, "--content", str(seq))
    assert (read.stdout, read.stderr) == ("two\n", "")
    assert "+two\n" in hutch(place, "log", second, "--diff", str(seq)).stdout


def test_changes_can_be_read_while_a_shell_works_in_the_directory(place: Path) -> None:
    assert hutch(place, "shell", "--", "sh", "-c", "echo one > file").returncode == 0
    earlier = sessions(place)[0]["session"]
    shell = Person(place)
    try:
        shell.see(r"\$ ")
        shell.type("echo two > file\n")
        for session, text in ((earlier, "one\n"), ("last", "two\n")):
            seq = wait_for_change(place, session)
            read = hutch(place, "log", session, "--content", str(seq))
            assert (read.stdout, read.stderr) == (text, "")
            assert f"+{text}" in hutch(place, "log", session, "--diff", str(seq)).stdout
        shell.type("echo three > file; exit\n")
        assert shell.leave() == 0
    finally:
        shell.close()
    assert (place / "work/file").read_text() == "three\n"


def test_a_change_that_has_no_diff_says_so(place: Path) -> None:
    assert hutch(place, "shell", "--", "git", "init", "-q").returncode == 0
    [seq] = [at for at, event in enumerate(events(place), 1) if event["type"] == "files.changed"]
    shown = hutch(place, "log", "last", "--diff", str(seq))
    assert (shown.returncode, shown.stdout) == (0, "") and "only files of git itself" in shown.stderr


def wait_for_change(place: Path, session: str) -> int:
    """The number of the first change of a file."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        for at, event in enumerate(events(place, session), 1):
            if event["type"] == "file.changed":
                return at
    raise AssertionError("no change was recorded")


def test_without_a_jail_it_is_recorded_too(place: Path) -> None:
    ran = hutch(place, "shell", "--unsafe-no-jail", "--", "echo", "bare")
    assert (ran.returncode, ran.stdout) == (0, "bare\n")
    assert "bare\n" in [each.get("text") for each in events(place)]


def test_a_directory_whose_name_is_not_utf8(place: Path) -> None:
    strange = place / os.fsdecode(b"str\xffnge")
    strange.mkdir(mode=0o755)
    ran = hutch(place, "shell", "-w", str(strange), "--", "sh", "-c", "echo made > file; cat file")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "made\n", "")
    assert (strange / "file").read_text() == "made\n"
    logged = {each["type"]: each for each in events(place)}
    assert logged["session.prepared"]["source"].endswith("str\\xffnge")
    assert logged["file.changed"]["path"] == "file"
    plain = hutch(place, "shell", "--no-log", "-w", str(strange), "--", "cat", "file")
    assert (plain.returncode, plain.stdout) == (0, "made\n")
    run = hutch(place, "run", "--repo", str(strange), "Go.")
    assert run.returncode == 2 and "is not valid UTF-8" in run.stderr and "Traceback" not in run.stderr
