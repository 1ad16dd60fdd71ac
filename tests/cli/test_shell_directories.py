"""No jail on Hutch itself, on its keys, or on the machine."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hutch
from tests import forked_command
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    (directory / "work").mkdir()
    yield directory
    shutil.rmtree(directory)


def run(
    workspace: Path, *words: str, home: Path, program: tuple[str, ...] = (HUTCH,), user_home: str = ""
) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HUTCH_HOME": str(home)}
    return forked_command.run(
        [*program, "shell", "-w", str(workspace), *words],
        env=env | ({"HOME": user_home} if user_home else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def refused(ran: "subprocess.CompletedProcess[str]", *words: str) -> bool:
    return (
        (ran.returncode, ran.stdout) == (4, "")
        and all(word in ran.stderr for word in (*words, "-w DIR", "--unsafe-workspace"))
        and ran.stderr.count("\n") == 1
    )


def with_keys(home: Path) -> Path:
    forked_command.run(
        [HUTCH, "config", "fingerprint"], env={"HUTCH_HOME": str(home)}, check=True, capture_output=True
    )
    assert (home / "data" / "keys" / "signing.pem").exists()
    return home


STEAL = ("--", "sh", "-c", "cat */data/keys/signing.pem keys/signing.pem signing.pem 2>/dev/null")


@pytest.mark.parametrize("below", ["", "home", "home/data", "home/data/keys", "home/data/workspaces"])
def test_the_signing_key_stays_out_of_reach(place: Path, below: str) -> None:
    home = with_keys(place / "work" / "home")
    (home / "data" / "workspaces").mkdir()
    ran = run(place / "work" / below, *STEAL, home=home)
    assert refused(ran, "Hutch's")


def test_a_future_key_directory_is_refused(place: Path) -> None:
    assert refused(run(place / "work", *STEAL, home=place / "work" / "later"), "HUTCH_HOME")


def test_a_link_to_the_keys_is_refused(place: Path) -> None:
    home = with_keys(place / "elsewhere")
    (place / "work" / "home").symlink_to(home)
    assert refused(run(place / "work", *STEAL, home=place / "work" / "home"), "HUTCH_HOME")


def test_a_workspace_beside_the_data_is_allowed(place: Path) -> None:
    home = place / "home"
    assert run(place / "work", "--", "true", home=home).returncode == 0  # there are keys and a database
    for workspace in (home / "slugs", home / "data" / "workspaces" / "one" / "tree"):
        workspace.mkdir(parents=True)
        ran = run(workspace, "--", "touch", "made", home=home)
        assert (ran.returncode, ran.stderr, (workspace / "made").exists()) == (0, "", True)


def test_hutchs_own_environment_cannot_be_changed(place: Path) -> None:
    environment = place / "work" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    found = [str(Path(hutch.__file__).parents[1]), *(path for path in sys.path if "site-packages" in path)]
    library = next(environment.glob("lib/python*/site-packages"))
    (library / "hutch.pth").write_text("\n".join(found))
    program = (str(environment / "bin" / "python"), "-c", "from hutch.cli.main import main; exit(main())")
    attack = ("--", "sh", "-c", "echo 'import os' > .venv/lib/python3/site-packages/owned.pth")
    ran = run(place / "work", *attack, home=place / "home", program=program)
    assert refused(ran, "Hutch itself runs from", str(environment))
    (place / "beside").mkdir()
    assert run(place / "beside", "--", "true", home=place / "home", program=program).returncode == 0


def test_hutchs_own_code_cannot_be_changed(place: Path) -> None:
    package = Path(hutch.__file__).parent
    assert refused(run(package, "--", "touch", "owned.py", home=place / "home"), str(package))
    assert not (package / "owned.py").exists()


@pytest.mark.parametrize(
    "workspace", ["/", "/etc", "/usr", "/var", "/home", "/tmp", "/usr/bin", "/proc/self"]
)
def test_the_system_is_no_workspace(place: Path, workspace: str) -> None:
    ran = run(Path(workspace), "--", "touch", "owned", home=place / "home")
    assert refused(ran)


def test_the_directory_of_git_is_no_workspace(place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place / "work")], check=True)
    for inside in (".git", ".git/hooks"):
        assert refused(run(place / "work" / inside, "--", "true", home=place / "home"), "data of git")
    assert run(place / "work", "--", "true", home=place / "home").returncode == 0


def test_a_home_is_no_workspace_but_a_project_in_it_is(place: Path) -> None:
    assert refused(run(place / "work", "--", "true", home=place / "h", user_home=f"{place}/work"), "home")
    assert refused(
        run(place / "work", "--", "true", home=place / "h", user_home=str(place / "work" / "me")), "home"
    )
    assert run(place / "work", "--", "true", home=place / "h", user_home=str(place)).returncode == 0


def test_the_unsafe_option_allows_it(place: Path) -> None:
    ran = run(place / "work", "--unsafe-workspace", "--", "touch", "made", home=place / "work" / "home")
    assert (ran.returncode, (place / "work" / "made").exists()) == (0, True)
    assert ran.stderr.startswith("hutch: WARNING: ")
