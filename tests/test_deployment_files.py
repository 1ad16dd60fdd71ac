"""The files in deploy/ are read by the programs that they are for, and say what is true of Hutch."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hutch.store.stored_logs_check import check_stored_logs
from tests.deadline import DEADLINE_S
from tests.flows.backups.installations import installation
from tests.forked_command import HUTCH

DEPLOY = Path(__file__).parents[1] / "deploy"
MAX_EXPOSURE = {"hutch.service": 4.0, "hutch-backup.service": 2.0}


def checked(*words: str | Path, **options: object) -> str:
    done = subprocess.run(
        list(words),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units, with programs that this machine has in place of the installed ones."""
    for unit in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")):
        text = re.sub(r"/usr/local/bin/[\w-]+", "/usr/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    return sorted(tmp_path.iterdir())


def test_systemd_accepts_the_units_without_a_warning(units: list[Path]) -> None:
    assert [unit.name for unit in units] == ["hutch-backup.service", "hutch-backup.timer", "hutch.service"]
    assert checked("systemd-analyze", "verify", "--man=no", *units) == ""


def test_the_units_stay_hardened(units: list[Path]) -> None:
    for unit in units:
        if unit.name in MAX_EXPOSURE:
            shown = checked("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
            found = re.search(r"Overall exposure level for \S+: (\d+\.\d)", shown)
            assert found and float(found[1]) <= MAX_EXPOSURE[unit.name], shown


def test_what_jails_are_made_of_is_not_taken_from_the_server() -> None:
    directives = dict(
        line.split("=", 1)
        for line in (DEPLOY / "hutch.service").read_text().splitlines()
        if re.match(r"\w+=", line)
    )
    assert not directives.keys() & {
        *("RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectControlGroups"),
        *("ProtectHostname", "PrivateUsers", "MemoryDenyWriteExecute", "PrivateDevices", "ProcSubset"),
    }
    assert (directives["KillMode"], directives["OOMPolicy"]) == ("mixed", "continue")


def test_compose_accepts_its_file() -> None:
    checked("docker-compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet")
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["hutch"]
    assert "privileged" not in service and service["cap_drop"] == ["ALL"]
    assert [port.startswith("127.0.0.1:") for port in service["ports"]] == [True]


def test_the_container_runs_as_an_ordinary_user_and_names_no_registry() -> None:
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    images = [rest for step, rest in steps if step == "FROM"]
    assert all(re.fullmatch(r"debian:[a-z]+-slim( AS \w+)?", image) for image in images), images
    assert [rest for step, rest in steps if step == "USER"] == ["hutch"]
    known = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL"}
    assert {step for step, _ in steps} == known | {"ENTRYPOINT", "CMD"}
    assert "/healthz" in dict(steps)["HEALTHCHECK"]
    installed = " ".join(rest for step, rest in steps if step == "RUN")
    assert {"bubblewrap", "git", "ripgrep", "openssh-client", "util-linux"} <= set(installed.split())


def nightly(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (place / "bin").mkdir(exist_ok=True)
    if not (place / "bin/hutch").exists():
        (place / "bin/hutch").symlink_to(HUTCH)
    return subprocess.run(
        [DEPLOY / "hutch-backup", *words],
        env={"HUTCH_HOME": str(place / "home"), "PATH": f"{place / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_nightly_backup_is_checked_and_old_ones_are_deleted(tmp_path: Path) -> None:
    installation(tmp_path / "home")
    backups = tmp_path / "backups"
    backups.mkdir()
    for name, days in (("hutch-20000101T000000Z.tar.gz", 20), ("hutch-of-today.tar.gz", 1), ("notes", 20)):
        (backups / name).touch()
        old = (backups / name).stat().st_mtime - days * 86_400
        os.utime(backups / name, (old, old))
    done = nightly(tmp_path, str(backups), "14")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 chains and their signatures are right" in done.stdout
    names = {path.name for path in backups.iterdir()}
    assert {"hutch-of-today.tar.gz", "notes"} < names and len(names) == 3


def test_a_bad_nightly_backup_deletes_nothing_and_is_reported(tmp_path: Path) -> None:
    installation(tmp_path / "home")
    for blob in (tmp_path / "home/data/blobs").glob("*/*"):
        blob.unlink()
    assert check_stored_logs(
        tmp_path / "home/data/hutch.db", tmp_path / "home/data/blobs", lambda _: None
    ).problems
    backups = tmp_path / "backups"
    backups.mkdir()
    (backups / "hutch-20000101T000000Z.tar.gz").touch()
    os.utime(backups / "hutch-20000101T000000Z.tar.gz", (1, 1))
    assert nightly(tmp_path, str(backups)).returncode != 0
    endings = sorted(path.name.partition(".tar.gz")[2] for path in backups.iterdir())
    assert endings == ["", ".bad"]


def test_the_unit_starts_the_script_that_is_tested() -> None:
    unit = (DEPLOY / "hutch-backup.service").read_text()
    assert re.findall(r"^ExecStart=(.*)$", unit, re.M) == [
        "/usr/local/bin/hutch-backup /var/backups/hutch 14"
    ]
    assert os.access(DEPLOY / "hutch-backup", os.X_OK)
    assert shutil.which("sh")
