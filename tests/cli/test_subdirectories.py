"""Commands in a subdirectory of a repository, and repositories with submodules."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.project_with_failing_test import Project, call, lines, temporary_project
from tests.deadline import DEADLINE_S
from tests.forge.repositories import commit, git, make_repository
from tests.forked_command import HUTCH, run

ENDS = {"calls": [call("finish", title="Look", summary="Looked.")]}
LOOKS = ({"calls": [call("bash", command="pwd")]}, ENDS)
WRITES = ({"calls": [call("bash", command="echo new > here.txt")]}, ENDS)


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        commit(made.work, {"lib/deep/a.txt": "a\n"})
        yield made


def run_in(project: Project, directory: str, *words: str) -> tuple[int, str]:
    """`hutch` in a subdirectory; returns its exit code and all its output."""
    ran = run(
        [HUTCH, *words],
        cwd=project.work / directory,
        env=project.environment(),
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_a_run_in_a_subdirectory_works_on_the_repository_and_starts_there(project: Project) -> None:
    code, output = run_in(
        project, "lib/deep", "run", "Look", "--json", "--no-pr", "--model", project.cassette(*LOOKS)
    )
    assert code == 0, output
    result = [each["event"] for each in lines(output) if each["type"] == "event"]
    (prepared,) = [each for each in result if each["type"] == "session.prepared"]
    assert (prepared["source"], prepared["commit"]) == (
        str(project.work),
        git(project.work, "rev-parse", "HEAD"),
    )
    assert next(each["text"] for each in result if each["type"] == "tool.returned") == "/workspace/lib/deep"


def test_the_work_of_a_subdirectory_becomes_a_branch_of_the_repository(project: Project) -> None:
    code, output = run_in(project, "lib/deep", "run", "Look", "--model", project.cassette(*WRITES))
    assert code == 0, output
    assert git(project.work, "diff", "--name-only", "main", "hutch/look") == "lib/deep/here.txt"


def test_a_directory_that_is_not_committed_is_left_for_the_root_with_a_warning(project: Project) -> None:
    (project.work / "new").mkdir()
    code, output = run_in(project, "new", "run", "Look", "--no-pr", "--model", project.cassette(*LOOKS))
    assert code == 0, output
    assert (
        "warning: The directory 'new' is not committed: the agent starts at the repository's root." in output
    )
    assert "  /workspace\n" in output


def test_a_plain_directory_in_a_repository_is_copied_alone_when_asked_for(project: Project) -> None:
    code, output = run_in(
        project, "lib", "run", "Look", "--no-pr", "--plain-directory", "--model", project.cassette(*LOOKS)
    )
    assert code == 0, output
    assert f"the workspace of {project.work}/lib " in output and "Looked at the repository: 1 file" in output


def test_a_workspace_of_a_subdirectory_is_one_of_the_repository(project: Project) -> None:
    code, output = run_in(project, "lib", "workspace", "prepare", ".", "--json")
    assert code == 0, output
    record = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    assert (record["source"], record["branch"]) == (str(project.work), "main")


def test_a_shell_in_a_subdirectory_uses_the_settings_of_the_repository(project: Project) -> None:
    commit(project.work, {".hutch/config.toml": 'model = "openai:other"\n'})
    code, output = run_in(project, "lib/deep", "shell", "--", "ls")
    assert code == 0, output
    assert "a.txt" in output and "config.toml' sets model to 'openai:other', ignored" in output


def add_submodule(project: Project) -> None:
    make_repository(project.place / "library", {"library.txt": "x\n"})
    git(
        project.work,
        *("-c", "protocol.file.allow=always", "submodule", "--quiet"),
        *("add", str(project.place / "library"), "vendor/library"),
    )
    git(project.work, "commit", "-qm", "Add a submodule")


def test_empty_submodules_are_reported(project: Project) -> None:
    add_submodule(project)
    ran = project.run("--no-pr", replies=LOOKS)
    assert ran.returncode == 0, ran.stderr
    result = "warning: Submodules are empty, because Hutch does not fetch them: vendor/library."
    assert ran.stdout.count(result) == 1


def test_a_submodule_can_be_fetched_from_an_allowed_host(project: Project) -> None:
    library = project.place / "library"
    make_repository(library, {"library.txt": "x\n"})
    git(library, "update-server-info")
    handler = partial(SimpleHTTPRequestHandler, directory=str(project.place))
    host = "127.0.0.2"  # commands in the jail reach 127.0.0.1 without the proxy
    with ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://{host}:{server.server_port}/library/.git"
        git(project.work, "submodule", "--quiet", "add", address, "library")
        git(project.work, "commit", "-qm", "Add a submodule")
        fetch = {"command": "git submodule update --init && cat library/library.txt"}
        replies = ({"text": "", "calls": [{"tool": "bash", "args": fetch}]}, {"text": "Done."})
        allowed = ("--net", f"{host}:{server.server_port}", "--no-pr")
        ran = project.run(*allowed, replies=replies, HUTCH_JAIL__PRIVATE_NETWORKS="127.0.0.0/8")
        refused = project.run("--no-pr", replies=replies)
        server.shutdown()
    assert "checked out" in ran.stdout and "\n  x\n" in ran.stdout, ran.stdout
    assert "unable to access" in refused.stdout


@pytest.mark.parametrize("below", ["", "/inside"])
def test_a_run_in_a_submodule_is_refused_with_what_to_do_instead(project: Project, below: str) -> None:
    add_submodule(project)
    submodule = project.work / "vendor/library"
    Path(f"{submodule}{below}").mkdir(exist_ok=True)
    code, output = run_in(
        project, f"vendor/library{below}", "run", "Look", "--model", project.cassette(*LOOKS)
    )
    assert code == 2, output
    assert f"'{submodule}' is a submodule: its commits are in '{project.work}'." in output
    assert f"use '{project.work}', or clone it (git clone '{submodule}' DIR) and use the clone." in output
