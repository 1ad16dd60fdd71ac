"""Set-up on a machine that lacks something says what to do about it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534
TOOLS = ("bash", "env", "dirname", "dpkg-query", "apt-get", "apt-cache")


@pytest.fixture
def place(root: Path) -> Iterator[Path]:
    """A directory that anybody may read, with the script in it; the checkout may be private."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        shutil.copy(root / "scripts/system-packages", path)
        (path / "bin").mkdir()
        yield path


def install(place: Path, packages: str, tools: tuple[str, ...] = TOOLS) -> subprocess.CompletedProcess[str]:
    """Run the script as an ordinary user for whom there is no sudo, with only these programs on PATH."""
    (place / "packages.txt").write_text(packages)
    for tool in tools:
        if path := shutil.which(tool):
            (place / "bin" / tool).symlink_to(path)
    is_root = os.geteuid() == 0
    return subprocess.run(
        [place / "bin/bash", place / "system-packages", place / "packages.txt"],
        env={"PATH": str(place / "bin")},
        cwd="/",
        capture_output=True,
        text=True,
        user=NOBODY if is_root else None,
        group=NOBODY if is_root else None,
        extra_groups=[] if is_root else None,
    )


needs_apt = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not a Debian or Ubuntu machine")


@needs_apt
def test_a_user_without_rights_gets_the_exact_command(place: Path) -> None:
    ran = install(place, "# comment\n\nbash  # is there\nhutch-lacks-this  # is not\nhutch-nor-this\n")
    assert (ran.returncode, ran.stdout) == (3, "")
    line = "sudo apt-get update && sudo apt-get install -y --no-install-recommends"
    assert f"\n    {line} hutch-lacks-this hutch-nor-this\n" in ran.stderr


@needs_apt
def test_nothing_is_done_or_said_when_all_is_installed(place: Path) -> None:
    ran = install(place, "bash  # the shell\n", tools=("bash", "env", "dirname", "dpkg-query", "apt-get"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_on_a_machine_without_apt_the_packages_are_named(place: Path) -> None:
    ran = install(place, "bubblewrap  # the jail\ngit\n", tools=("bash", "env", "dirname"))
    assert ran.returncode == 4
    assert "bubblewrap git" in ran.stderr


def test_a_list_that_is_not_there_is_named(root: Path, tmp_path: Path) -> None:
    missing = tmp_path / "no-list.txt"
    ran = subprocess.run([root / "scripts/system-packages", missing], capture_output=True, text=True)
    assert ran.returncode == 2
    assert str(missing) in ran.stderr


def test_the_list_names_each_package_with_a_reason(root: Path) -> None:
    lines = (root / "system-packages.txt").read_text().splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in packages if " # " not in line] == []
