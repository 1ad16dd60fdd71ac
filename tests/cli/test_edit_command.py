"""`hutch edit` with real editors on a terminal: a script, and vi."""

import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, Visitor, running_server
from tests.cli.project_with_failing_test import Project, call
from tests.deadline import DEADLINE_S

TEXT = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture
def session(server: ServerHome) -> str:
    (server.place / "work" / "a.txt").write_text(TEXT)
    made = server.json("sessions", "new", "--file", str(server.place / "work" / "a.txt"))
    server.until(made["id"], "idle", "parked")
    return str(made["id"])


def editor(place: Path, text: str) -> str:
    """An editor that is a script; $1 is the file. It waits for a line in it with `wait_for`."""
    path = place / "editor.sh"
    path.write_text(
        f'#!/bin/bash\nset -eu\nwait_for() {{ until grep -q -- "$1" "$2"; do sleep 0.1; done; }}\n{text}\n'
    )
    path.chmod(0o755)
    return str(path)


def content(server: ServerHome, session: str, path: str = "a.txt") -> str:
    return server.hutch("files", "cat", session, path).stdout


def local_copy(server: ServerHome) -> Path:
    """The only local copy that is open."""
    [path] = (server.place / "home/state/edits").glob("*/file/a.txt")
    return path


def until(user: Visitor, is_so: Callable[[], bool]) -> None:
    """Wait for something while the screen is read."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline and user.process.poll() is None, user.shown
        user._read_screen(0.1)


def test_a_save_goes_to_the_session_while_the_editor_is_open(server: ServerHome, session: str) -> None:
    script = editor(server.place, f'sed -i "s/line 3/mine/" "$1"; echo saved; wait_for go {server.place}/go')
    (server.place / "go").write_text("")
    with server.visitor("edit", session, "a.txt", EDITOR=script) as user:
        user.see("saved")
        until(user, lambda: "mine" in content(server, session))
        (server.place / "go").write_text("go\n")
        user.see(r"a\.txt: saved once\.")
        assert user.leave() == exit_codes.OK
    assert content(server, session) == TEXT.replace("line 3", "mine")
    assert list((server.place / "home/state/edits").iterdir()) == []


@pytest.mark.parametrize(("end", "shown"), [("exit 3", "exit code 3"), ("kill -9 $$", "signal KILL")])
def test_an_editor_that_fails_is_no_success(server: ServerHome, session: str, end: str, shown: str) -> None:
    script = editor(server.place, f'sed -i "s/line 3/saved/" "$1"; {end}')
    ran = server.hutch("edit", session, "a.txt", EDITOR=script)
    assert ran.returncode == exit_codes.UNAVAILABLE
    assert f"The editor ended with {shown}. What it saved before is in the session." in ran.stderr
    assert "saved" in content(server, session)


def test_changes_of_others_come_into_the_file_and_are_merged(server: ServerHome, session: str) -> None:
    script = editor(
        server.place,
        'old=$(cat "$1"); echo ready; wait_for theirs "$1"; echo received\n'
        'echo "$old" | sed "s/line 2/mine/" > "$1"; wait_for theirs "$1"; echo merged',
    )
    with server.visitor("edit", session, "a.txt", VISUAL=script, EDITOR="false") as user:
        user.see("ready")
        changed = TEXT.replace("line 8", "theirs")
        assert server.say("files", "put", session, "-", "a.txt", stdin=changed).returncode == 0
        user.see(r"received\s+merged")
        user.see("saved once, merged with changes by others once, changed by others once")
        assert user.leave() == exit_codes.OK
    assert content(server, session) == TEXT.replace("line 2", "mine").replace("line 8", "theirs")


def test_the_agent_and_the_user_change_one_file(server: ServerHome, session: str) -> None:
    edit = call("edit_file", path="a.txt", edits=[{"old": "line 9", "new": "by the agent"}])
    made = server.new({"calls": [edit]}, {"text": "Done.", "times": 10})
    server.until(made, "idle", "parked")
    server.say("files", "put", made, "-", "a.txt", stdin=TEXT)
    script = editor(server.place, 'sed -i "s/line 1$/mine/" "$1"; echo ready; wait_for "by the agent" "$1"')
    with server.visitor("edit", made, "a.txt", "--editor", script) as user:
        user.see("ready")
        assert server.hutch("sessions", "send", made, "Change it").returncode == 0
        user.see(r"a\.txt: saved once")
        assert user.leave() == exit_codes.OK
    assert content(server, made) == TEXT.replace("line 1\n", "mine\n").replace("line 9", "by the agent")


@pytest.mark.parametrize(("answer", "expected"), [("m", "mine"), ("s", "theirs"), ("e", "both")])
def test_a_collision_is_settled_by_the_user(
    server: ServerHome, session: str, answer: str, expected: str
) -> None:
    script = editor(
        server.place,
        'if [[ "$1" == */merge-* ]]; then grep -q "<<<<<<<" "$1"; echo both > "$1"; exit; fi\n'
        f'echo ready; wait_for go {server.place}/go; sed -i "s/line 5/mine/" "$1"',
    )
    (server.place / "go").write_text("")
    with server.visitor("edit", session, "a.txt", EDITOR=script) as user:
        user.see("ready")
        # The session's side changes at the same time as the save: the script saves when both are there.
        theirs = TEXT.replace("line 5", "theirs")
        os.kill(user.process.pid, signal.SIGSTOP)
        assert server.say("files", "put", session, "-", "a.txt", stdin=theirs).returncode == 0
        (server.place / "go").write_text("go\n")
        until(user, lambda: "mine" in local_copy(server).read_text())
        os.kill(user.process.pid, signal.SIGCONT)
        user.see("changed the same lines of a.txt")
        user.type(f"{answer}\n")
        user.see("saved")
        assert user.leave() == exit_codes.OK
    assert expected in content(server, session)
    assert list((server.place / "home/state/edits").iterdir()) == []


def test_both_versions_are_kept_when_the_user_decides_nothing(server: ServerHome, session: str) -> None:
    script = editor(server.place, f'echo ready; wait_for go {server.place}/go; sed -i "s/line 5/mine/" "$1"')
    (server.place / "go").write_text("")
    with server.visitor("edit", session, "a.txt", EDITOR=script) as user:
        user.see("ready")
        os.kill(user.process.pid, signal.SIGSTOP)
        server.say("files", "put", session, "-", "a.txt", stdin=TEXT.replace("line 5", "theirs"))
        (server.place / "go").write_text("go\n")
        kept = local_copy(server)
        until(user, lambda: "mine" in kept.read_text())
        os.kill(user.process.pid, signal.SIGCONT)
        user.see("changed the same lines")
        user.type("\n")
        user.see(r"Both versions of a\.txt are kept.*Continue with: hutch edit")
        assert user.leave() == exit_codes.NO
    assert "theirs" in content(server, session) and "mine" in kept.read_text()
    assert "<<<<<<< your version" in (kept.parent / "merge-a.txt").read_text()
    again = editor(server.place, 'sed -i "s/mine/theirs/" "$1"')
    with server.visitor("edit", session, "a.txt", EDITOR=again) as user:
        user.see("Continuing your unfinished edit of a.txt")
        assert user.leave() == exit_codes.OK
    assert not kept.exists()


def test_ctrl_c_belongs_to_the_editor(server: ServerHome, session: str) -> None:
    trap = 'came=; trap "echo interrupted; came=1" INT; echo ready'
    waiting = 'until [ "$came" ]; do sleep 0.05 || true; done'
    script = editor(server.place, f'{trap}; {waiting}; echo mine >> "$1"')
    with server.visitor("edit", session, "a.txt", EDITOR=script) as user:
        user.see("ready")
        user.type("\x03")
        user.see("interrupted")
        user.see(r"a\.txt: saved once")
        assert user.leave() == exit_codes.OK
    assert content(server, session).endswith("mine\n")


def test_a_closed_terminal_loses_no_save(server: ServerHome, session: str) -> None:
    script = editor(server.place, 'echo mine >> "$1"; echo ready; sleep 600')
    with server.visitor("edit", session, "a.txt", EDITOR=script) as user:
        user.see("ready")
        user.process.send_signal(signal.SIGHUP)
        user.leave()
    assert content(server, session).endswith("mine\n")


def test_vi_edits_a_file(server: ServerHome, session: str) -> None:
    vi = shutil.which("vim.tiny") or shutil.which("vi")
    assert vi
    with server.visitor("edit", session, "a.txt", EDITOR=f"{vi} -u NONE", HOME=str(server.place)) as user:
        user.see("line 10")
        user.type(":%s/line 4/by hand/\r:w\r")
        until(user, lambda: "by hand" in content(server, session))
        theirs = content(server, session).replace("line 9", "theirs")
        assert server.say("files", "put", session, "-", "a.txt", stdin=theirs).returncode == 0
        until(user, lambda: "theirs" in local_copy(server).read_text())
        user.type(":%s/line 6/once more/\r:w\r")  # without having loaded the change by others
        user.see("really want to write to it")
        user.type("y")
        until(user, lambda: "once more" in content(server, session))
        user.type(":q!\r")
        user.see(r"a\.txt: saved 2 times")
        assert user.leave() == exit_codes.OK
    expected = TEXT.replace("line 4", "by hand").replace("line 9", "theirs").replace("line 6", "once more")
    assert content(server, session) == expected


def test_a_new_file_is_created_and_a_file_that_is_not_saved_is_not(server: ServerHome, session: str) -> None:
    script = editor(server.place, 'test ! -e "$1"; echo new > "$1"')
    with server.visitor("edit", session, "deep/new file.txt", EDITOR=script) as user:
        assert user.leave() == exit_codes.OK
    assert content(server, session, "deep/new file.txt") == "new\n"
    with server.visitor("edit", session, "none.txt", EDITOR="true") as user:
        user.see("nothing was saved")
        assert user.leave() == exit_codes.OK
    assert "none.txt" not in server.hutch("files", "ls", session).stdout


def test_what_cannot_be_edited_is_refused(server: ServerHome, session: str) -> None:
    for words, problem in (
        (("../x",), "'..'"),
        (("a.txt", "--editor", "/none/such"), "There is no editor '/none/such'"),
        (("a.txt", "--editor", "vi 'x"), "open quotation"),
    ):
        refused = server.hutch("edit", session, *words)
        assert refused.returncode == exit_codes.BAD_REQUEST and problem in refused.stderr
    assert server.hutch("sessions", "end", session).returncode == 0
    server.until(session, "ended")
    ended = server.hutch("edit", session, "a.txt", EDITOR="true")
    assert ended.returncode == exit_codes.BAD_REQUEST and "has ended" in ended.stderr


def test_a_save_without_a_connection_is_kept_and_sent_later() -> None:
    with running_server() as server:
        (server.place / "work" / "a.txt").write_text(TEXT)
        made = server.json("sessions", "new", "--file", str(server.place / "work" / "a.txt"))["id"]
        server.until(made, "idle", "parked")
        script = editor(server.place, f'echo ready; wait_for go {server.place}/go; echo mine >> "$1"')
        (server.place / "go").write_text("")
        with server.visitor("edit", made, "a.txt", EDITOR=script) as user:
            user.see("ready")
            assert server.hutch("down").returncode == 0
            (server.place / "go").write_text("go\n")
            user.see(r"a\.txt could not be saved: .*Your version is kept: ")
            assert user.leave() == exit_codes.UNAVAILABLE
        with server.up():
            with server.visitor("edit", made, "a.txt", EDITOR="true") as user:
                user.see("Continuing your unfinished edit")
                user.see("saved once")
                assert user.leave() == exit_codes.OK
            assert content(server, made) == f"{TEXT}mine\n"


def test_a_file_of_a_session_without_a_server(tmp_path: Path) -> None:
    project = Project(tmp_path)
    ran = project.run("--no-pr", "--json")
    found = json.loads(ran.stdout.splitlines()[-1])
    script = editor(tmp_path, 'grep -q "a + b" "$1"; echo "# mine" >> "$1"')
    edited = project.hutch("edit", found["session"], "adding.py", EDITOR=script)
    assert edited.returncode == exit_codes.OK, edited.stderr
    assert "adding.py: saved once." in edited.stderr
    again = project.hutch(
        "edit", found["session"], "adding.py", EDITOR=editor(tmp_path, 'grep "# mine" "$1"')
    )
    assert again.returncode == exit_codes.OK and "# mine" in again.stdout
    copies = tmp_path / "home/state/edits"
    assert list(copies.iterdir()) == [] and stat.S_IMODE(copies.stat().st_mode) == 0o700
