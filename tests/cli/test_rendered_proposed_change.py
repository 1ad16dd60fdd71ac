"""A change on a terminal is escaped, and a pipe gets the exact patch."""

import os
import pty
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.project_with_failing_test import FIX, Project, call, temporary_project
from tests.deadline import DEADLINE_S
from tests.forge.repositories import git
from tests.forked_command import HUTCH, Forked, run

TITLE = "\x1b]0;owned\x07"  # would name the window
TURNED = "\u202e"  # would turn round what follows
EVIL = f"{TITLE}{TURNED}é"
HARMLESS = r"\x1b]0;owned\x07\u202eé"
PAGE = f"# {EVIL}\r\n\tlast ".encode() + b"\xff\n"


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        octal = "".join(f"\\{byte:03o}" for byte in PAGE)
        replies = (
            {"calls": [call("bash", command=f"printf '{octal}' > page.md")]},
            {"calls": [call("edit_file", **FIX)]},
            {"calls": [call("finish", title="A page", summary="It is there.")]},
        )
        ran = made.run(replies=replies)
        assert ran.returncode == 0, ran.stderr
        yield made


def on_a_terminal(project: Project, *words: str) -> str:
    """The screen after this command line."""
    ours, theirs = pty.openpty()
    command = ["setsid", "-c", HUTCH, *words]
    process = Forked(
        command, cwd=project.work, env=project.environment(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    screen = b""
    try:
        while read := os.read(ours, 65536):
            screen += read
    except OSError:  # the other end is closed
        assert process.wait(DEADLINE_S) == 0, screen
    finally:
        os.close(ours)
    return screen.decode().replace("\r\n", "\n")


def test_a_patch_is_escaped_on_a_terminal_and_exact_in_a_pipe(project: Project) -> None:
    screen = on_a_terminal(project, "changes", "diff")
    assert "\x1b" not in screen and "\x07" not in screen and TURNED not in screen and "\r" not in screen
    assert f"\n+# {HARMLESS}\\r\n" in screen and "last \\xff\n" in screen
    piped = run(
        [HUTCH, "changes", "diff"],
        cwd=project.work,
        env=project.environment(),
        capture_output=True,
        timeout=DEADLINE_S,
    )
    assert (piped.returncode, piped.stderr) == (0, b"")
    patch = project.place / "patch"
    patch.write_bytes(piped.stdout)
    git(project.work, "apply", "--whitespace=nowarn", str(patch))
    assert (project.work / "page.md").read_bytes() == PAGE


def test_the_text_of_a_change_cannot_control_the_terminal(project: Project) -> None:
    with closing(sqlite3.connect(project.place / "home" / "data" / "hutch.db")) as database, database:
        database.execute(
            "UPDATE changes SET title = ?, body = ?, branch = ?, web_url = ?, tests = ?, base = ?",
            (EVIL, f"First\n{EVIL}", f"hutch/{EVIL}", f"https://example.com/{EVIL}", EVIL, EVIL),
        )
    screen = on_a_terminal(project, "changes", "show")
    assert screen.startswith(f"{HARMLESS}\n\nFirst\n{HARMLESS}\n\nchange     chg_")
    assert f"\nbranch     hutch/{HARMLESS} for {HARMLESS}\n" in screen
    assert f"\ntests      {HARMLESS}\n" in screen
    assert screen.endswith(f"\npull       https://example.com/{HARMLESS}\n")
    listed = on_a_terminal(project, "changes", "list")
    assert listed.endswith(f"  hutch/{HARMLESS}  {HARMLESS}\n")
    for shown in (screen, listed):
        assert "\x1b" not in shown and "\x07" not in shown and TURNED not in shown
