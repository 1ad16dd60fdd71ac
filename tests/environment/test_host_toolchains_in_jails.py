"""Toolchains of the host: what a jail sees of them, and what it never sees."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch import settings
from hutch.app.jails import jail_policy, open_jail
from hutch.domain.errors import BadRequest, Denied
from hutch.environment.host_toolchains_in_jails import (
    find_toolchains,
    propose_toolchains,
    toolchain_variables,
)
from hutch.settings.schema import repository_access
from hutch.workspace.admission.directory_checks import OwnDirectories

pytestmark = pytest.mark.anyio

NOWHERE = OwnDirectories(Path("/nowhere/hutch"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach, as jails of root have another user."""
    made = Path(tempfile.mkdtemp(prefix="hutch-toolchains-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def program(path: Path, text: str = "echo tool") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_kinds_are_recognised_by_their_content(place: Path) -> None:
    program(place / "go1/bin/go")
    (place / "go1/src/runtime").mkdir(parents=True)
    program(place / "jdk/bin/java")
    (place / "jdk/release").write_text("")
    for version in ("v9.1.0", "v20.1.0", "v18.3.0"):
        program(place / f".nvm/versions/node/{version}/bin/node")
    program(place / ".pyenv/versions/3.9.1/bin/python3")
    program(place / ".pyenv/versions/3.12.1/bin/python3")
    (place / ".pyenv/version").write_text("3.9.1\n")
    named = [str(place / each) for each in ("go1", "jdk", ".nvm", ".pyenv")]
    go, java, node, python = find_toolchains(named, NOWHERE)
    assert go.variables == {"GOROOT": f"{place}/go1"}
    assert java.variables == {"JAVA_HOME": f"{place}/jdk"}
    assert node.shown == (f"{place}/.nvm/versions/node/v20.1.0",)
    assert python.shown == (f"{place}/.pyenv/versions/3.9.1",)
    path = toolchain_variables([go, node])["PATH"]
    assert path.startswith(f"{place}/go1/bin:{place}/.nvm/versions/node/v20.1.0/bin:/usr")
    assert toolchain_variables([]) == {}


def test_credentials_of_cargo_stay_out(place: Path) -> None:
    program(place / ".cargo/bin/cargo")
    (place / ".cargo/credentials.toml").write_text("token")
    (place / ".rustup/toolchains").mkdir(parents=True)
    [found] = find_toolchains([str(place / ".cargo")], NOWHERE)
    assert found.shown == (f"{place}/.cargo/bin", f"{place}/.rustup/toolchains")
    assert found.variables["CARGO_HOME"] == "/home/hutch/.cargo"


@pytest.mark.parametrize(
    "named",
    [
        *("/", "/etc", "/etc/ssl", "/proc/self", "/home", "/root", "/run", "/tmp", "~", "~/", "/dev/shm"),
        "~/..",
    ],
)
def test_directories_of_the_system_and_homes_are_refused(named: str) -> None:
    with pytest.raises((Denied, BadRequest)):
        find_toolchains([named], NOWHERE)


def test_links_do_not_lead_to_what_is_refused(place: Path) -> None:
    (place / "go").symlink_to("/etc")
    with pytest.raises(Denied, match="directory of the system"):
        find_toolchains([str(place / "go")], NOWHERE)


def test_keys_and_data_of_hutch_are_refused(place: Path) -> None:
    program(place / ".ssh/bin/tool")
    program(place / "data/tools/bin/tool")
    with pytest.raises(Denied, match="keys of a user"):
        find_toolchains([str(place / ".ssh")], NOWHERE)
    for named in (place / "data", place / "data/tools", place):
        program(place / "bin/tool")
        with pytest.raises(Denied, match="Hutch's own data"):
            find_toolchains([str(named)], OwnDirectories(place / "data"))


def test_a_directory_with_a_file_of_secrets_is_refused(place: Path) -> None:
    program(place / "tool/bin/tool")
    (place / "tool/.npmrc").write_text("//x/:_authToken=1")
    with pytest.raises(Denied, match="may hold a secret"):
        find_toolchains([str(place / "tool")], NOWHERE)


def test_a_directory_without_programs_is_no_toolchain(place: Path) -> None:
    with pytest.raises(BadRequest, match="no toolchain"):
        find_toolchains([str(place)], NOWHERE)
    with pytest.raises(BadRequest, match="no directory"):
        find_toolchains([str(place / "missing")], NOWHERE)


def test_a_repository_cannot_name_toolchains() -> None:
    assert repository_access("jail.toolchains") == "not touch it"


def test_proposals_are_toolchains_that_are_not_named_yet() -> None:
    found = propose_toolchains((), NOWHERE)
    assert all(find_toolchains([each], NOWHERE) for each in found)
    assert not set(propose_toolchains(found, NOWHERE)) & set(found)


async def test_a_jail_runs_the_programs_and_cannot_change_them(place: Path, tmp_path: Path) -> None:
    program(place / "kit/bin/mytool", 'echo "tool $KIT"')
    (place / "beside").write_text("not shown")
    place_of_hutch = {"HUTCH_HOME": str(tmp_path / "home")}
    given = {"jail": {"toolchains": [str(place / "kit")], "variables": {"KIT": "x"}}}
    policy = jail_policy(settings.load(given, environ=place_of_hutch).settings)
    (tmp_path / "work").mkdir()
    async with open_jail(tmp_path / "work", policy) as jail:
        ran = await jail.run(["mytool"])
        assert (ran.exit_code, ran.stdout) == (0, b"tool x\n")
        wrote = await jail.run(["sh", "-c", f"echo x >> {place}/kit/bin/mytool"])
        assert wrote.exit_code != 0
        assert (await jail.run(["cat", f"{place}/beside"])).exit_code != 0
    assert "echo x" not in (place / "kit/bin/mytool").read_text()
