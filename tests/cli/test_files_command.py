"""`hutch files`, `diff` and `undo` on the files of a real session."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.commands.files import format_time
from tests.cli.running import call
from tests.cli.visiting import House, open_house

BYTES = bytes(range(256)) * 5000


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


@pytest.fixture(scope="module")
def session(house: House) -> str:
    id = house.new(
        {"calls": [call("write_file", path="src/a.txt", content="one\ntwo\n")]},
        {"text": "Written.", "times": 10},
        prompt="Write",
    )
    house.until(id, "idle")
    return id


def test_a_file_is_copied_both_ways_byte_for_byte(house: House, session: str) -> None:
    here = house.place / "work" / "data.bin"
    here.write_bytes(BYTES)
    put = house.hutch("files", "put", session, str(here), "deep/er/")
    assert (put.returncode, put.stdout) == (exit_codes.OK, "created deep/er/data.bin\n"), put.stderr
    again = house.hutch("files", "put", session, str(here), "deep/er/data.bin", "--new", "--json")
    assert again.returncode == exit_codes.BAD_REQUEST
    assert json.loads(again.stderr)["error"]["code"] == "conflict"
    back = house.place / "back.bin"
    assert house.hutch("files", "get", session, "deep/er/data.bin", str(back)).returncode == exit_codes.OK
    assert back.read_bytes() == BYTES
    refused = house.hutch("files", "get", session, "deep/er/data.bin", str(back))
    assert refused.returncode == exit_codes.BAD_REQUEST and "--force" in refused.stderr
    assert [each.name for each in house.place.glob(".back*")] == []


@pytest.mark.parametrize("seconds", [99_999_999_999_999, -99_999_999_999_999, 9_000_000_000_000_000])
def test_an_unrepresentable_time_is_shown_as_a_number(seconds: int) -> None:
    assert format_time(seconds * 1000) == f"@{seconds}"
    assert format_time(86_400_000_000)[:4] == "1972"


def test_listing_printing_moving_and_removing(house: House, session: str) -> None:
    name = "odd ?#%20 näme"
    assert house.say("files", "put", session, "-", name, stdin="hi\n").returncode == exit_codes.OK
    assert house.hutch("files", "cat", session, f"/workspace/{name}").stdout == "hi\n"
    listed = house.hutch("files", "ls", session).stdout.splitlines()
    assert "src/" in listed and name in listed
    assert "src/a.txt" in house.hutch("files", "ls", session, "-R").stdout.splitlines()
    assert house.hutch("files", "ls", session, "src", "-l").stdout.endswith("a.txt\n")
    moved = house.hutch("files", "mv", session, name, "plain")
    assert moved.stdout == f"moved {name} -> plain\n", moved.stderr
    removed = house.hutch("files", "rm", session, "plain", "--json")
    assert json.loads(removed.stdout)["kind"] == "deleted"
    missing = house.hutch("files", "cat", session, "plain")
    assert missing.returncode == exit_codes.BAD_REQUEST and "plain" in missing.stderr
    for outside in ("../../etc/passwd", "/etc/passwd"):
        out = house.hutch("files", "cat", session, outside)
        assert out.returncode in (exit_codes.BAD_REQUEST, exit_codes.DENIED) and "root:" not in out.stdout


def test_changes_are_shown_and_undone(house: House, session: str, tmp_path: Path) -> None:
    patch = house.hutch("diff", session, "--path", "src")
    assert "+one\n+two\n" in patch.stdout and "\x1b" not in patch.stdout
    assert house.hutch("diff", session, "--path", "src", "--stat").stdout.split() == [
        "added",
        "+2",
        "-0",
        "src/a.txt",
    ]
    result = house.json("diff", session, "--path", "src")
    assert [each["path"] for each in result["files"]] == ["src/a.txt"]
    with house.visitor("diff", session, "--path", "src") as ada:
        ada.see(r"\+one")
        assert ada.leave() == exit_codes.OK
        assert b"\x1b[32m+one" in ada.shown
    (tmp_path / "a.txt").write_bytes(b"mine")
    mine = house.hutch("files", "put", session, str(tmp_path / "a.txt"), "src/a.txt")
    assert mine.returncode == exit_codes.OK
    refused = house.hutch("undo", session)
    assert refused.returncode == exit_codes.BAD_REQUEST and "src/a.txt (" in refused.stderr
    done = house.hutch("undo", session, "--discard-others")
    assert done.returncode == exit_codes.OK and "Changes of others in src/a.txt are in" in done.stdout
    assert house.hutch("diff", session, "--path", "src").stdout == ""


def test_a_path_reaches_nothing_but_files_of_its_session(house: House, session: str, tmp_path: Path) -> None:
    other = house.new({"text": "x"}, purpose="somebody's work")
    (tmp_path / "file").write_text("x")
    for words in (
        ("rm", session, f"../../{other}"),
        ("cat", session, "../../../me"),
        ("get", session, "../../../me", str(tmp_path / "got")),
        ("put", session, str(tmp_path / "file"), f"../../{other}/files/x"),
        ("rm", session, "/workspace/../x"),
    ):
        refused = house.hutch("files", *words)
        assert refused.returncode == exit_codes.BAD_REQUEST and "'..'" in refused.stderr, (
            words,
            refused.stderr,
        )
    assert house.hutch("sessions", "show", f"../users/{other}").returncode != exit_codes.OK
    assert house.json("sessions", "show", other)["id"] == other
