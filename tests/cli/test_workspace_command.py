"""`hutch workspace`: every command through the real program."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked_command
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH

BAD_REQUEST, DENIED = 2, 4


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach, with a project and a home for Hutch."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    (directory / "project/src").mkdir(parents=True)
    (directory / "project/README.md").write_text("# A project\n")
    (directory / "project/src/main.py").write_text("def main():\n    return 1\n")
    yield directory
    shutil.rmtree(directory)


def run(place: Path, *args: str, stdin: bytes = b"", **more: Any) -> "subprocess.CompletedProcess[bytes]":
    if args[:1] == ("prepare",):
        args = (*args, "--plain-directory")
    return hutch(place, *args, stdin=stdin, **more)


def hutch(place: Path, *args: str, stdin: bytes = b"", **more: Any) -> "subprocess.CompletedProcess[bytes]":
    return forked_command.run(
        [HUTCH, "workspace", *args],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(place / "home")},
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        **more,
    )


def good(place: Path, *args: str, stdin: bytes = b"") -> str:
    ran = run(place, *args, stdin=stdin)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


def run_json(place: Path, *args: str, stdin: bytes = b"") -> list[Any]:
    return [json.loads(line) for line in good(place, *args, "--json", stdin=stdin).splitlines()]


def bad(place: Path, *args: str, stdin: bytes = b"") -> str:
    """The message about invalid input: one line, never a bug."""
    ran = run(place, *args, stdin=stdin)
    assert ran.returncode == BAD_REQUEST, (ran.returncode, ran.stderr.decode())
    assert ran.stdout == b""
    said = ran.stderr.decode()
    assert "Traceback" not in said
    assert "bug in Hutch" not in said
    return said


def test_the_life_of_a_workspace(place: Path) -> None:
    (made,) = run_json(place, "prepare", "project", "--id", "w")
    assert made["id"] == "w"
    assert [each["id"] for each in run_json(place, "ls")] == ["w"]
    assert {each["path"] for each in run_json(place, "ls", "w", "-R")} >= {"README.md", "src", "src/main.py"}
    assert good(place, "cat", "w", "README.md") == "# A project\n"
    (lines,) = run_json(place, "cat", "w", "src/main.py", "--lines", "2")
    assert "return 1" in lines["text"]

    (first,) = run_json(place, "snapshot", "w", "--reason", "mine")
    (change,) = run_json(place, "write", "w", "new.txt", stdin=b"one\r\ntwo\n")
    assert (change["kind"], change["path"]) == ("created", "new.txt")
    (edited,) = run_json(place, "edit", "w", "src/main.py", "--old", "return 1", "--new", "return 2")
    assert "+    return 2" in edited["diff"]
    (found,) = run_json(place, "grep", "w", "return [0-9]")
    assert [(each["path"], each["number"]) for each in found["lines"]] == [("src/main.py", 2)]
    assert run(place, "grep", "w", "nowhere to be found").returncode == 1
    (code,) = run_json(place, "search", "w", "main")
    assert [(each["path"], each["symbol"]) for each in code["matches"]] == [("src/main.py", "main")]
    assert good(place, "search", "w", "main").startswith("src/main.py:1-2 function main (defines main; ")
    assert run(place, "search", "w", "zebra").returncode == 1
    assert "no words" in bad(place, "search", "w", "?")

    changes = {each["path"]: each["kind"] for each in run_json(place, "diff", "w", str(first["id"]))}
    assert set(changes) == {"new.txt", "src/main.py"}
    assert "+    return 2" in good(place, "diff", "w", str(first["id"]))
    (forked,) = run_json(place, "fork", "w", "--id", "other")
    assert forked["id"] == "other"
    assert good(place, "cat", "other", "new.txt").encode() == b"one\r\ntwo\n"

    (restored,) = run_json(place, "restore", "w", str(first["id"]))
    assert set(restored["changed"]) == {"new.txt", "src/main.py"}
    assert good(place, "cat", "w", "src/main.py").endswith("return 1\n")
    assert "return 2" in good(place, "cat", "w", "src/main.py", "-s", str(restored["before"]["id"]))
    reasons = [each["reason"] for each in run_json(place, "snapshot", "w", "--list")]
    assert reasons[:2] == ["mine", "before editing src/main.py"]

    good(place, "rm", "w", "other")
    assert run_json(place, "ls") == []


def test_a_directory_is_used_in_place(place: Path) -> None:
    project = place / "project"
    (before,) = run_json(place, "snapshot", "./project")
    run_json(place, "write", str(project), "README.md", stdin=b"changed\n")
    assert (project / "README.md").read_text() == "changed\n"
    listed = run_json(place, "snapshot", "project/", "--list")
    assert [each["id"] for each in listed] == [before["id"]]
    (found,) = run_json(place, "grep", "./project", "changed")
    assert [each["path"] for each in found["lines"]] == ["README.md"]
    run_json(place, "restore", "./project", str(before["id"]))
    assert (project / "README.md").read_text() == "# A project\n"
    (forked,) = run_json(place, "fork", "./project", str(before["id"]))
    assert forked["id"].startswith("project-")
    assert good(place, "cat", forked["id"], "README.md") == "# A project\n"
    assert "There is no directory" in run(place, "ls", "./nowhere").stderr.decode()


def test_a_patch_is_read_byte_for_byte(place: Path) -> None:
    run_json(place, "prepare", "project", "--id", "w")
    run_json(place, "write", "w", "dos.txt", stdin=b"one\r\ntwo\r\n")
    patch = b"--- a/dos.txt\n+++ b/dos.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n"
    run_json(place, "edit", "w", "--patch", "-", stdin=patch)
    assert run(place, "cat", "w", "dos.txt").stdout == b"one\r\n2\r\n"
    odd = b"--- /dev/null\n+++ b/odd.txt\n@@ -0,0 +1 @@\n+a\rb\n"
    (place / "odd.patch").write_bytes(odd)
    run_json(place, "edit", "w", "--patch", "odd.patch")
    assert run(place, "cat", "w", "odd.txt").stdout == b"a\rb\n"
    assert "not UTF-8" in bad(place, "edit", "w", "--patch", "-", stdin=odd.replace(b"a\r", b"\xff"))


@pytest.mark.parametrize(
    "command", [("cat", "w", "README.md"), ("ls", "w"), ("diff", "w"), ("grep", "w", "A")]
)
def test_closed_output_is_an_error(place: Path, command: tuple[str, ...]) -> None:
    run_json(place, "prepare", "project", "--id", "w")
    closed = run(place, *command, preexec_fn=lambda: os.close(1))
    assert closed.returncode == BAD_REQUEST
    assert b"output is closed" in closed.stderr


def test_invalid_requests_are_refused_with_a_reason(place: Path) -> None:
    run_json(place, "prepare", "project", "--id", "w")
    assert "--lines" in bad(place, "cat", "w", "README.md", "--lines", "x")
    assert "--old" in bad(place, "edit", "w", "README.md", "--new", "x")
    assert "--output" in bad(place, "grep", "w", "x", "--output", "all")
    assert "cannot be a workspace" in bad(place, "prepare", "project", "--id", "a b")
    for words in (
        ("cat", "w", "nowhere"),
        ("ls", "nobody"),
        ("restore", "w", "99"),
        ("diff", "w", "98", "99"),
        ("rm", "nobody"),
        ("fork", "w", "99"),
        ("prepare", "project", "--id", "w"),
        ("cat", "w", "../../etc/passwd"),
    ):
        ran = run(place, *words)
        assert ran.returncode not in (0, 1), words
        assert ran.stdout == b"", words
        assert ran.stderr.startswith(b"hutch: "), words
        assert b"bug in Hutch" not in ran.stderr, ran.stderr
    assert good(place, "cat", "w", "README.md") == "# A project\n"


def test_a_directory_without_git_needs_an_option(place: Path) -> None:
    (place / "project/.env").write_text("PASSWORD=1\n")
    ran = hutch(place, "prepare", "project")
    said = ran.stderr.decode()
    assert ran.returncode == BAD_REQUEST and ran.stdout == b""
    assert "is not a git repository" in said and "3 files" in said and "secrets: .env" in said
    assert "--plain-directory" in said
    good(place, "prepare", "project")


def test_system_directories_and_hutchs_own_are_never_copied(place: Path) -> None:
    good(place, "prepare", "project")  # so that there is a home
    (place / "link").symlink_to(place / "home/data")
    (place / "home/data/keys").mkdir(exist_ok=True)
    for source in ("/etc", "/", str(Path.home()), "home", "home/data/keys", "link", ".", "/var/log"):
        ran = run(place, "prepare", source)
        assert ran.returncode == DENIED, (source, ran.stderr.decode())
        assert ran.stdout == b""


def test_the_owner_may_name_a_directory_by_a_link(place: Path) -> None:
    (place / "link").symlink_to(place / "project")
    [made] = run_json(place, "prepare", "link")
    assert made["source"] == str(place / "project")


def test_secrets_are_redacted_except_by_cat(place: Path) -> None:
    secret = "Zq7-KvRwtHnmxuE-93kxl"
    told_vault = forked_command.run(
        [HUTCH, "config", "set-secret", "github_token"],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(place / "home")},
        input=secret.encode(),
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert told_vault.returncode == 0
    id = good(place, "prepare", "project").strip()
    good(place, "snapshot", id)
    content = f"a = {secret}\r\nb\n"
    said = [
        good(place, "write", id, f"{secret}.txt", stdin=content.encode()),
        good(place, "write", id, f"{secret}.txt", "--json", stdin=content.encode()),
        good(place, "ls", id),
        good(place, "ls", id, "--json"),
        good(place, "diff", id),
        good(place, "diff", id, "--names"),
        good(place, "diff", id, "--json"),
        good(place, "grep", id, "a ="),
        good(place, "edit", id, f"{secret}.txt", "--old", "b", "--new", "c"),
        good(place, "edit", id, f"{secret}.txt", "--old", "c", "--new", "d", "--json"),
        good(place, "restore", id, "1"),
        good(place, "restore", id, "2", "--json"),
    ]
    assert [each for each in said if secret in each] == []
    assert all("[redacted:secret]" in each for each in said if "paths restored" not in each)
    good(place, "write", id, "plain.txt", stdin=content.encode())
    for more in ([], ["--snapshot", "2"]):
        name = f"{secret}.txt" if more else "plain.txt"
        assert run(place, "cat", id, name, *more).stdout == content.encode()
    assert secret in good(place, "cat", id, "plain.txt", "--lines", "1")
