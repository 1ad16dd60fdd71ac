"""`hutch files`, `diff` and `undo` on the files of a real session."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.commands.session_files import format_time
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import call

BYTES = bytes(range(256)) * 5000


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture(scope="module")
def session(server: ServerHome) -> str:
    id = server.new(
        {"calls": [call("write_file", path="src/a.txt", content="one\ntwo\n")]},
        {"text": "Written.", "times": 10},
        prompt="Write",
    )
    server.until(id, "idle")
    return id


def test_a_file_is_copied_both_ways_byte_for_byte(server: ServerHome, session: str) -> None:
    here = server.place / "work" / "data.bin"
    here.write_bytes(BYTES)
    put = server.hutch("files", "put", session, str(here), "deep/er/")
    assert (put.returncode, put.stdout) == (exit_codes.OK, "created deep/er/data.bin\n"), put.stderr
    again = server.hutch("files", "put", session, str(here), "deep/er/data.bin", "--new", "--json")
    assert again.returncode == exit_codes.BAD_REQUEST
    assert json.loads(again.stderr)["error"]["code"] == "conflict"
    back = server.place / "back.bin"
    assert server.hutch("files", "get", session, "deep/er/data.bin", str(back)).returncode == exit_codes.OK
    assert back.read_bytes() == BYTES
    refused = server.hutch("files", "get", session, "deep/er/data.bin", str(back))
    assert refused.returncode == exit_codes.BAD_REQUEST and "--force" in refused.stderr
    assert [each.name for each in server.place.glob(".back*")] == []


@pytest.mark.parametrize("seconds", [99_999_999_999_999, -99_999_999_999_999, 9_000_000_000_000_000])
def test_an_unrepresentable_time_is_shown_as_a_number(seconds: int) -> None:
    assert format_time(seconds * 1000) == f"@{seconds}"
    assert format_time(86_400_000_000)[:4] == "1972"


def test_listing_printing_moving_and_removing(server: ServerHome, session: str) -> None:
    name = "odd ?#%20 näme"
    assert server.say("files", "put", session, "-", name, stdin="hi\n").returncode == exit_codes.OK
    assert server.hutch("files", "cat", session, f"/workspace/{name}").stdout == "hi\n"
    listed = server.hutch("files", "ls", session).stdout.splitlines()
    assert "src/" in listed and name in listed
    assert "src/a.txt" in server.hutch("files", "ls", session, "-R").stdout.splitlines()
    assert server.hutch("files", "ls", session, "src", "-l").stdout.endswith("a.txt\n")
    moved = server.hutch("files", "mv", session, name, "plain")
    assert moved.stdout == f"moved {name} -> plain\n", moved.stderr
    removed = server.hutch("files", "rm", session, "plain", "--json")
    assert json.loads(removed.stdout)["kind"] == "deleted"
    missing = server.hutch("files", "cat", session, "plain")
    assert missing.returncode == exit_codes.BAD_REQUEST and "plain" in missing.stderr
    for outside in ("../../etc/passwd", "/etc/passwd"):
        out = server.hutch("files", "cat", session, outside)
        assert out.returncode in (exit_codes.BAD_REQUEST, exit_codes.DENIED) and "root:" not in out.stdout


def test_changes_are_shown_and_undone(server: ServerHome, session: str, tmp_path: Path) -> None:
    patch = server.hutch("diff", session, "--path", "src")
    assert "+one\n+two\n" in patch.stdout and "\x1b" not in patch.stdout
    assert server.hutch("diff", session, "--path", "src", "--stat").stdout.split() == [
        "added",
        "+2",
        "-0",
        "src/a.txt",
    ]
    result = server.json("diff", session, "--path", "src")
    assert [each["path"] for each in result["files"]] == ["src/a.txt"]
    with server.visitor("diff", session, "--path", "src") as ada:
        ada.see(r"\+one")
        assert ada.leave() == exit_codes.OK
        assert b"\x1b[32m+one" in ada.shown
    (tmp_path / "a.txt").write_bytes(b"mine")
    mine = server.hutch("files", "put", session, str(tmp_path / "a.txt"), "src/a.txt")
    assert mine.returncode == exit_codes.OK
    refused = server.hutch("undo", session)
    assert refused.returncode == exit_codes.BAD_REQUEST and "src/a.txt (" in refused.stderr
    done = server.hutch("undo", session, "--discard-others")
    assert done.returncode == exit_codes.OK and "Changes by others in src/a.txt are in" in done.stdout
    assert server.hutch("diff", session, "--path", "src").stdout == ""


def test_a_path_reaches_nothing_but_files_of_its_session(
    server: ServerHome, session: str, tmp_path: Path
) -> None:
    other = server.new({"text": "x"}, purpose="somebody's work")
    (tmp_path / "file").write_text("x")
    for words in (
        ("rm", session, f"../../{other}"),
        ("cat", session, "../../../me"),
        ("get", session, "../../../me", str(tmp_path / "got")),
        ("put", session, str(tmp_path / "file"), f"../../{other}/files/x"),
        ("rm", session, "/workspace/../x"),
    ):
        refused = server.hutch("files", *words)
        assert refused.returncode == exit_codes.BAD_REQUEST and "'..'" in refused.stderr, (
            words,
            refused.stderr,
        )
    assert server.hutch("sessions", "show", f"../users/{other}").returncode != exit_codes.OK
    assert server.json("sessions", "show", other)["id"] == other
