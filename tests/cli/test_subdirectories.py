"""Commands in a subdirectory of a repository, and repositories with submodules."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Desk, call, lines
from tests.deadline import DEADLINE_S
from tests.forge.repositories import commit, git, make_repository
from tests.forked import HUTCH, run

ENDS = {"calls": [call("finish", title="Look", summary="Looked.")]}
LOOKS = ({"calls": [call("bash", command="pwd")]}, ENDS)
WRITES = ({"calls": [call("bash", command="echo new > here.txt")]}, ENDS)


@pytest.fixture
def desk() -> Iterator[Desk]:
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    made = Desk(directory)
    commit(made.work, {"lib/deep/a.txt": "a\n"})
    yield made
    shutil.rmtree(directory)


def run_in(desk: Desk, directory: str, *words: str) -> tuple[int, str]:
    """`hutch` in a subdirectory; returns its exit code and all its output."""
    ran = run(
        [HUTCH, *words],
        cwd=desk.work / directory,
        env=desk.environment(),
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_a_run_in_a_subdirectory_works_on_the_repository_and_starts_there(desk: Desk) -> None:
    code, output = run_in(
        desk, "lib/deep", "run", "Look", "--json", "--no-pr", "--model", desk.cassette(*LOOKS)
    )
    assert code == 0, output
    result = [each["event"] for each in lines(output) if each["type"] == "event"]
    (prepared,) = [each for each in result if each["type"] == "session.prepared"]
    assert (prepared["source"], prepared["commit"]) == (str(desk.work), git(desk.work, "rev-parse", "HEAD"))
    assert next(each["text"] for each in result if each["type"] == "tool.returned") == "/workspace/lib/deep"


def test_the_work_of_a_subdirectory_becomes_a_branch_of_the_repository(desk: Desk) -> None:
    code, output = run_in(desk, "lib/deep", "run", "Look", "--model", desk.cassette(*WRITES))
    assert code == 0, output
    assert git(desk.work, "diff", "--name-only", "main", "hutch/look") == "lib/deep/here.txt"


def test_a_directory_that_is_not_committed_is_left_for_the_root_with_a_warning(desk: Desk) -> None:
    (desk.work / "new").mkdir()
    code, output = run_in(desk, "new", "run", "Look", "--no-pr", "--model", desk.cassette(*LOOKS))
    assert code == 0, output
    assert (
        "warning: The directory 'new' is not committed: the agent starts at the repository's root." in output
    )
    assert "  /workspace\n" in output


def test_a_plain_directory_in_a_repository_is_copied_alone_when_asked_for(desk: Desk) -> None:
    code, output = run_in(
        desk, "lib", "run", "Look", "--no-pr", "--plain-directory", "--model", desk.cassette(*LOOKS)
    )
    assert code == 0, output
    assert f"the workspace of {desk.work}/lib " in output and "Looked at the repository: 1 file" in output


def test_a_workspace_of_a_subdirectory_is_one_of_the_repository(desk: Desk) -> None:
    code, output = run_in(desk, "lib", "workspace", "prepare", ".", "--json")
    assert code == 0, output
    record = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    assert (record["source"], record["branch"]) == (str(desk.work), "main")


def test_a_shell_in_a_subdirectory_uses_the_settings_of_the_repository(desk: Desk) -> None:
    commit(desk.work, {".hutch/config.toml": 'model = "openai:other"\n'})
    code, output = run_in(desk, "lib/deep", "shell", "--", "ls")
    assert code == 0, output
    assert "a.txt" in output and "config.toml' sets model to 'openai:other', ignored" in output


def add_submodule(desk: Desk) -> None:
    make_repository(desk.place / "library", {"library.txt": "x\n"})
    git(
        desk.work,
        *("-c", "protocol.file.allow=always", "submodule", "--quiet"),
        *("add", str(desk.place / "library"), "vendor/library"),
    )
    git(desk.work, "commit", "-qm", "Add a submodule")


def test_empty_submodules_are_reported(desk: Desk) -> None:
    add_submodule(desk)
    ran = desk.run("--no-pr", replies=LOOKS)
    assert ran.returncode == 0, ran.stderr
    result = "warning: Submodules are empty, because Hutch does not fetch them: vendor/library."
    assert ran.stdout.count(result) == 1


@pytest.mark.parametrize("below", ["", "/inside"])
def test_a_run_in_a_submodule_is_refused_with_what_to_do_instead(desk: Desk, below: str) -> None:
    add_submodule(desk)
    submodule = desk.work / "vendor/library"
    Path(f"{submodule}{below}").mkdir(exist_ok=True)
    code, output = run_in(desk, f"vendor/library{below}", "run", "Look", "--model", desk.cassette(*LOOKS))
    assert code == 2, output
    assert f"'{submodule}' is a submodule: its commits are in '{desk.work}'." in output
    assert f"use '{desk.work}', or clone it (git clone '{submodule}' DIR) and use the clone." in output
