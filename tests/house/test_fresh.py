"""`scripts/fresh` notices what set-up does not install."""

import os
import subprocess
from pathlib import Path

import pytest

TESTS = "tests/forge/test_gh_command.py"
COMMAND = f"make .venv/.set-up-for-tests && .venv/bin/python -m pytest -p no:cacheprovider {TESTS}"


def fresh(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "scripts/fresh", *arguments], capture_output=True, text=True, timeout=1800, check=False
    )


@pytest.fixture
def clone(root: Path, tmp_path: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", root, tmp_path / "clone"], check=True)
    return tmp_path / "clone"


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a bare root, with all that root can mount")
def test_root_sees_a_program_that_no_list_names_fail_on_a_bare_machine(clone: Path) -> None:
    listed = fresh(clone, "root", COMMAND)
    packages = clone / "system-packages.txt"
    lines = packages.read_text().splitlines(keepends=True)
    packages.write_text("".join(line for line in lines if not line.startswith("gh ")))
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, "commit", "--quiet", "-am", "lose gh"], cwd=clone, check=True)
    missing = fresh(clone, "root", COMMAND)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert missing.returncode != 0
    assert "gh is not installed" in missing.stdout, missing.stdout + missing.stderr


def test_a_word_that_names_no_user_is_refused(root: Path) -> None:
    ran = fresh(root, "everybody")
    assert (ran.returncode, ran.stderr) == (90, "fresh: who is 'everybody'? Give root, user or both.\n")
