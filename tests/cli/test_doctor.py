"""The doctor says what is wrong, and what would mend it."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hutch.cli import exits
from hutch.cli.doctor import clock, database, disk, newest_event_ms
from hutch.jail.probe import Check

HUTCH = Path(sys.executable).with_name("hutch")
NOVEMBER_2026_S = 1_794_000_000.0


def doctor(home: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environ = {"HUTCH_HOME": str(home), "PATH": os.defpath, **environ}
    return subprocess.run([HUTCH, "doctor", *args], env=environ, capture_output=True, text=True, timeout=30)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database of Hutch's shape with one event in it."""
    path = tmp_path / "hutch.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE alembic_version (version_num TEXT);
        INSERT INTO alembic_version VALUES ('0001');
        CREATE TABLE logs (at_ms BIGINT);
        INSERT INTO logs VALUES (1794000000000);
        """
    )
    connection.close()
    return path


def test_a_good_machine_passes(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--json")
    report = json.loads(ran.stdout)
    assert [check for check in report["checks"] if check["status"] == "fail"] == []
    assert (ran.returncode, report["ok"], ran.stderr) == (exits.OK, True, "")
    assert [check["name"] for check in report["checks"]] == [
        *("python", "settings"),
        *("bwrap", "user namespaces", "apparmor", "seccomp", "cgroups", "jail"),
        *("git", "rg", "gh", "disk", "database", "clock"),
    ]


def test_looking_makes_nothing(tmp_path: Path) -> None:
    doctor(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_programs_gets_a_no_and_the_commands(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PATH=str(tmp_path))
    assert ran.returncode == exits.NO
    assert "apt-get install -y bubblewrap\n" in ran.stdout
    assert "apt-get install -y ripgrep\n" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Hutch cannot run here yet. 14 checks, 4 failed, ")


def test_wrong_settings_are_one_failure_among_the_rest(tmp_path: Path) -> None:
    report = json.loads(doctor(tmp_path, "--json", HUTCH_JAIL__PROCESSES="many").stdout)
    failed = [check for check in report["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["settings"]
    assert "HUTCH_JAIL__PROCESSES" in failed[0]["found"]


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PYTHONIOENCODING="ascii", PATH=str(tmp_path))
    assert ran.stdout.isascii()
    assert ran.stdout.startswith("ok python ")


def test_output_that_is_not_a_terminal_has_no_colour(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PYTHONIOENCODING="utf-8")
    assert "\x1b" not in ran.stdout
    assert ran.stdout.startswith("✓ python ")


def test_a_directory_that_cannot_be_written_fails() -> None:
    check = disk(Path("/proc/hutch"))
    assert (check.name, check.status) == ("disk", "fail")
    assert check.found.startswith("/proc cannot be written: ")
    assert "HUTCH_HOME" in check.fix


def test_disk_space_is_that_of_the_nearest_directory_there_is(tmp_path: Path) -> None:
    check = disk(tmp_path / "not" / "yet")
    assert check.found.endswith(f"free at {tmp_path}/not/yet") or check.status != "ok"
    assert list(tmp_path.iterdir()) == []


def test_no_database_is_fine(tmp_path: Path) -> None:
    missing = tmp_path / "hutch.db"
    assert database(missing) == Check("database", "ok", f"none yet; it will be at {missing}")
    assert newest_event_ms(missing) is None


def test_a_sound_database_tells_its_size_and_schema(file: Path) -> None:
    assert database(file) == Check("database", "ok", f"0.0 MiB at {file}, schema 0001")
    assert newest_event_ms(file) == 1_794_000_000_000


def test_a_damaged_database_fails(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    check = database(file)
    assert (check.name, check.status) == ("database", "fail")
    assert "backup" in check.fix


def test_what_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "hutch.db").write_text("hello " * 1000)
    assert database(tmp_path / "hutch.db").found.endswith("cannot be read: file is not a database")


def test_the_clock_is_right_when_it_is_after_the_newest_event() -> None:
    newest_ms = int(NOVEMBER_2026_S * 1000)
    assert clock(NOVEMBER_2026_S, newest_ms).status == "ok"
    assert clock(time.time(), None).status == "ok"


@pytest.mark.parametrize(
    ("now_s", "newest_ms"),
    [(0.0, None), (NOVEMBER_2026_S - 60, int(NOVEMBER_2026_S * 1000))],
    ids=["in 1970", "behind the newest event"],
)
def test_a_clock_that_cannot_be_right_fails(now_s: float, newest_ms: int | None) -> None:
    check = clock(now_s, newest_ms)
    assert (check.status, check.fix) == ("fail", "sudo timedatectl set-ntp true")
