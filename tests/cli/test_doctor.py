"""`hutch doctor` reports problems and how to fix them."""

import json
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.commands.doctor import ELSEWHERE, OR_ELSEWHERE, clock, database, disk
from hutch.domain.errors import NotFound
from hutch.jail.machine_checks import Check
from hutch.store.doctor_and_completion_queries import newest_event_ms
from tests.deadline import DEADLINE_S
from tests.forge.repositories import make_repository
from tests.forked_command import HUTCH, run

NOVEMBER_2026_S = 1_794_000_000.0
NOBODY = 65534


def doctor(home: Path, *args: str, cwd: Path = Path("/"), **environ: str) -> subprocess.CompletedProcess[str]:
    environ = {"HUTCH_HOME": str(home), "PATH": os.defpath, "HOME": str(home.parent), **environ}
    return run(
        [HUTCH, "doctor", *args], cwd=cwd, env=environ, capture_output=True, text=True, timeout=DEADLINE_S
    )


def report(ran: subprocess.CompletedProcess[str]) -> dict[str, Check]:
    return {each["name"]: Check(**each) for each in json.loads(ran.stdout)["checks"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database of Hutch's shape with one event in it."""
    return filled(tmp_path / "hutch.db")


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of an ordinary user's; the test is that user, also when root runs it."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(path, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield path
        finally:
            if is_root:
                os.seteuid(0)
            subprocess.run(["chmod", "-R", "u+rwX", path], check=True)


def filled(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        PRAGMA journal_mode=WAL;
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
    assert (ran.returncode, report["ok"], ran.stderr) == (exit_codes.OK, True, "")
    assert [check["name"] for check in report["checks"]] == [
        *("python", "settings"),
        *("bwrap", "user namespaces", "apparmor", "seccomp", "cgroups", "process list", "jail"),
        *("git", "rg", "gh", "disk", "database", "clock"),
        *("secrets", "model", "toolchains", "languages", "github", "delivery", "tests"),
    ]


def test_the_doctor_writes_nothing(tmp_path: Path) -> None:
    doctor(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_missing_programs_fail_with_install_commands(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PATH=str(tmp_path))
    assert ran.returncode == exit_codes.NO
    assert "apt-get install -y bubblewrap\n" in ran.stdout
    assert "apt-get install -y ripgrep\n" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Hutch cannot run here yet. 22 checks, 4 failed, ")


def test_invalid_settings_do_not_stop_other_checks(tmp_path: Path) -> None:
    report = json.loads(doctor(tmp_path, "--json", HUTCH_JAIL__PROCESSES="many").stdout)
    failed = [check for check in report["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["settings"]
    assert "HUTCH_JAIL__PROCESSES" in failed[0]["found"]


def test_checks_that_need_invalid_settings_are_not_run(tmp_path: Path) -> None:
    checks = report(doctor(tmp_path, "--json", HUTCH_JAIL__PROCESSES="many"))
    for name in ("model", "github", "delivery", "tests"):
        assert checks[name] == Check(name, "warn", "not checked: the settings are invalid")


def test_a_new_machine_gets_warnings_and_no_failure(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--json")
    checks = report(ran)
    assert ran.returncode == exit_codes.OK
    assert (checks["model"].status, checks["github"].status) == ("warn", "warn")
    assert checks["model"].fix.startswith("hutch config set-secret anthropic_api_key\n")
    assert checks["github"] == Check(
        "github",
        "warn",
        "github.com: no token, so no pull requests can be opened",
        "hutch config set-secret github_token\nor set GH_TOKEN in the environment",
    )
    assert checks["tests"] == Check("tests", "ok", "not in a git repository; name one with --repo DIR")


def test_credentials_in_the_environment_are_named_but_not_shown(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--json", GITHUB_TOKEN="in-secret-1", GEMINI_API_KEY="in-secret-2")
    checks = report(ran)
    assert (checks["model"].status, checks["github"].status) == ("ok", "ok")
    assert "the key is in GEMINI_API_KEY" in checks["model"].found
    assert "the environment variable GITHUB_TOKEN" in checks["github"].found
    assert "in-secret" not in ran.stdout + ran.stderr


def test_a_gh_login_is_not_used_but_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("github.com:\n    user: ada\n    oauth_token: in-secret\n")
    ran = doctor(tmp_path, "--json", GH_CONFIG_DIR=str(tmp_path))
    check = report(ran)["github"]
    assert (check.status, check.fix) == (
        "warn",
        "gh auth token --hostname github.com | hutch config set-secret github_token",
    )
    assert "in-secret" not in ran.stdout + ran.stderr


def test_the_named_or_current_repository_is_checked(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        repo = Path(name).resolve() / "\x1b[2J"
        make_repository(repo, {"go.mod": "module a\n"})
        here = doctor(tmp_path, cwd=repo)
        named = report(doctor(tmp_path, "--json", "--repo", str(repo)))
    assert "go test does not work in the jail: there is no program go in the jail" in here.stdout
    assert "\x1b" not in here.stdout
    assert (named["tests"].status, named["delivery"].status) == ("warn", "ok")


def test_a_missing_repository_is_an_error(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--repo", "/nowhere")
    assert (ran.returncode, ran.stdout) == (exit_codes.code_of(NotFound("")), "")
    assert "The repository '/nowhere' does not exist." in ran.stderr


def test_a_system_directory_fails_only_its_own_check(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--json", "--repo", "/etc")
    assert ran.returncode == exit_codes.OK
    assert "'/etc' is a directory of the system" in report(ran)["tests"].found


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PYTHONIOENCODING="ascii", PATH=str(tmp_path))
    assert ran.stdout.isascii()
    assert ran.stdout.startswith("ok python ")


def test_output_that_is_not_a_terminal_has_no_colour(tmp_path: Path) -> None:
    ran = doctor(tmp_path, PYTHONIOENCODING="utf-8")
    assert "\x1b" not in ran.stdout
    assert ran.stdout.startswith("✓ python ")


def test_the_fix_for_an_uncreatable_directory_changes_only_its_owner(own: Path) -> None:
    home = Path("/usr/hutch of mine")
    assert disk(home / "data", home) == Check(
        "disk",
        "fail",
        f"{home}/data cannot be created in /usr: Permission denied",
        f"sudo install -d -m 700 -o $(id -u) '/usr/hutch of mine'\n{OR_ELSEWHERE}",
    )


@pytest.mark.parametrize("home", ["/usr", "/proc/nope", "/proc", "/sys/nope", "/"])
def test_the_owner_of_foreign_directories_is_never_changed(own: Path, home: str) -> None:
    check = disk(Path(home) / "data", Path(home))
    assert (check.status, check.fix) == ("fail", ELSEWHERE)


def test_only_hutchs_data_directory_may_change_its_owner(own: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    data = own / "data"
    data.mkdir()
    filled(data / "hutch.db")
    subprocess.run(["chmod", "-R", "a-w", data], check=True)
    os.seteuid(0)
    for path in (data, *data.iterdir()):
        os.chown(path, 0, 0)
    os.seteuid(NOBODY)
    chown = f"sudo chown -R $(id -u) {data}\n{OR_ELSEWHERE}"
    assert (disk(data).fix, database(data / "hutch.db").fix) == (chown, chown)
    assert "intact, but not writable" in database(data / "hutch.db").found
    os.seteuid(0)
    (data / "hutch.db").unlink()
    os.seteuid(NOBODY)
    assert disk(data).fix == ELSEWHERE


def test_the_fix_for_a_closed_directory_is_chmod(own: Path) -> None:
    data = own / "data"
    data.mkdir(mode=0o500)
    assert (disk(data).status, disk(data).fix) == ("fail", f"chmod -R u+rwX {data}")
    data.rmdir()
    own.chmod(0o500)
    assert disk(data, own).fix == f"chmod u+w {own}"


def test_an_inaccessible_directory_fails_two_checks(own: Path) -> None:
    closed = own / "closed"
    closed.mkdir(mode=0o000)
    for check in (disk(closed / "data"), database(closed / "data" / "hutch.db")):
        assert (check.status, check.fix) == ("fail", f"chmod u+rwx {closed}")
        assert check.found.endswith("cannot be reached: Permission denied")
    if os.getuid() == 0:
        os.seteuid(0)
        os.chown(closed, 0, 0)
        os.seteuid(NOBODY)
        assert disk(closed / "data").fix == database(closed / "data" / "hutch.db").fix == ELSEWHERE


def test_a_home_that_is_a_file_fails_and_no_database_is_promised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    report = json.loads(doctor(tmp_path / "file", "--json").stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert {name for name, check in checks.items() if check["status"] == "fail"} == {
        *("settings", "disk", "database")
    }
    assert checks["disk"]["found"].startswith(f"HUTCH_HOME is '{tmp_path}/file', which is not a directory")
    assert checks["disk"]["fix"] == ELSEWHERE


def test_a_data_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    check = disk(tmp_path / "data", tmp_path)
    assert (check.status, check.found) == ("fail", f"{tmp_path}/data is not a directory")
    assert database(tmp_path / "data" / "hutch.db").status == "fail"


def test_disk_space_is_that_of_the_nearest_existing_directory(tmp_path: Path) -> None:
    check = disk(tmp_path / "not" / "yet")
    assert check.found.endswith(f"free at {tmp_path}/not/yet") or check.status != "ok"
    assert list(tmp_path.iterdir()) == []


def test_no_database_is_fine(tmp_path: Path) -> None:
    missing = tmp_path / "hutch.db"
    assert database(missing) == Check("database", "ok", f"none yet; it will be created at {missing}")
    assert newest_event_ms(missing, within_s=DEADLINE_S) is None


def test_an_intact_database_shows_its_size_and_schema(file: Path) -> None:
    assert database(file) == Check("database", "ok", f"0.0 MiB at {file}, schema 0001")
    assert newest_event_ms(file, within_s=DEADLINE_S) == 1_794_000_000_000


def test_checking_a_database_creates_no_files(file: Path) -> None:
    database(file)
    newest_event_ms(file, within_s=DEADLINE_S)
    assert list(file.parent.iterdir()) == [file]


def test_recent_writes_are_seen(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("INSERT INTO logs VALUES (1794000000001)")
    connection.commit()
    assert (newest_event_ms(file, within_s=DEADLINE_S), database(file).status) == (1_794_000_000_001, "ok")
    connection.close()


def test_a_read_only_database_is_not_called_damaged(own: Path) -> None:
    data = own / "data"
    data.mkdir()
    file = filled(data / "hutch.db")
    subprocess.run(["chmod", "-R", "a-w", data], check=True)
    assert database(file) == Check(
        "database",
        "fail",
        f"0.0 MiB at {file}, schema 0001; intact, but not writable",
        f"chmod -R u+rwX {data}",
    )


def test_an_unreadable_database_is_not_called_damaged(own: Path) -> None:
    file = filled(own / "hutch.db")
    file.chmod(0o000)
    check = database(file)
    assert (check.status, check.fix) == ("fail", f"chmod -R u+rwX {own}")
    assert "damaged" not in check.found


def test_an_empty_file_is_a_database_without_a_schema(tmp_path: Path) -> None:
    (tmp_path / "hutch.db").touch()
    assert database(tmp_path / "hutch.db").found.endswith("schema none")


def test_a_damaged_database_fails(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    check = database(file)
    assert (check.name, check.status) == ("database", "fail")
    assert "backup" in check.fix
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "hutch.db").write_text("hello " * 1000)
    assert database(tmp_path / "hutch.db").found.endswith("is damaged: file is not a database")


def test_the_clock_is_right_when_it_is_after_the_newest_event() -> None:
    newest_ms = int(NOVEMBER_2026_S * 1000)
    assert clock(NOVEMBER_2026_S, newest_ms).status == "ok"
    assert clock(time.time(), None).status == "ok"


@pytest.mark.parametrize(
    ("now_s", "newest_ms"),
    [(0.0, None), (NOVEMBER_2026_S - 60, int(NOVEMBER_2026_S * 1000))],
    ids=["in 1970", "behind the newest event"],
)
def test_an_implausible_clock_fails(now_s: float, newest_ms: int | None) -> None:
    check = clock(now_s, newest_ms)
    assert (check.status, check.fix) == ("fail", "sudo timedatectl set-ntp true")


def test_a_source_of_a_secret_that_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[secrets]\ngithub_token = "file:/none/such"\n')
    failed = report(doctor(tmp_path, "--json"))["secrets"]
    assert failed.status == "fail" and "github_token comes from a file that cannot be read" in failed.found
    (tmp_path / "key").write_text("clove-bucket-77\n")
    (tmp_path / "config.toml").write_text(f'[secrets]\ngithub_token = "file:{tmp_path}/key"\n')
    ran = doctor(tmp_path, "--json")
    assert report(ran)["secrets"] == Check("secrets", "ok", "0 in the vault; github_token from a file")
    assert "clove-bucket-77" not in ran.stdout
