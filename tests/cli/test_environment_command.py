"""`hutch environment`, and `hutch run` with dependencies of the repository."""

import json
import os
import pty
import select
import termios
from pathlib import Path

import pytest

from hutch.agent.repository_testing.test_results import NO_PYTEST
from hutch.cli import exit_codes
from hutch.cli.render.dependency_event_lines import environment_note
from hutch.cli.render.transcript import _tests
from tests.cli.project_with_failing_test import Project, call
from tests.deadline import DEADLINE_S
from tests.environment.layers.registries import add_wheel, serving
from tests.forge.repositories import commit, git
from tests.forked_command import HUTCH, Forked

SETTINGS = """[tests]
command = "python3 -S -m unittest -q"
[environment]
setup = ["cp lock.txt installed.py && echo copied"]
inputs = ["lock.txt"]
outputs = ["installed.py"]
"""
FILES = {
    "lock.txt": "TEXT = 'hello'\n",
    "adding.py": "from installed import TEXT\n\n\ndef add(a, b):\n    return a - b\n",
    ".hutch/config.toml": SETTINGS,
}
FIX = {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]}
FIXES = (
    {"calls": [call("edit_file", **FIX)]},
    {"calls": [call("finish", title="Add", summary="The sign was wrong.")], "times": 5},
)
AUTO = {"HUTCH_ENVIRONMENT__AUTO": "true"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "place")
    commit(made.work, FILES)
    # Set-ups that download nothing need no pip or npm to say where from.
    (made.place / "home" / "config.toml").write_text("[environment]\nregistries = []\n")
    return made


def test_tests_pass_thanks_to_installed_dependencies(project: Project) -> None:
    without = project.run(replies=FIXES)
    assert "tests: 1 passed" not in without.stdout
    assert "nobody has accepted the set-up yet" in without.stdout + without.stderr
    first = project.run(replies=FIXES, **AUTO)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "dependencies are installed" in first.stdout
    assert "tests: 1 passed" in first.stdout
    second = project.run(replies=FIXES, **AUTO)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "dependencies in .hutch-cache, installed.py" in second.stdout
    assert "installing dependencies" not in second.stdout
    listed = project.hutch("environment", "list", "--json").stdout
    (layer,) = map(json.loads, listed.splitlines())
    assert "installed.py" in layer["roots"]
    assert len(layer["workspaces"]) == 2


@pytest.mark.long
def test_detected_packages_are_installed_from_the_index_of_the_user(project: Project, tmp_path: Path) -> None:
    add_wheel(tmp_path / "index", "greeting", "1.0", {"greeting.py": "TEXT = 'hello'\n"})
    commit(project.work, {"requirements.txt": "greeting==1.0\n", ".hutch/config.toml": ""})
    (project.place / "home" / "config.toml").unlink()
    with serving(tmp_path / "index") as host:
        index = {"PIP_INDEX_URL": f"http://{host}/simple", "HUTCH_JAIL__PRIVATE_NETWORKS": "127.0.0.0/8"}
        built = project.hutch("environment", "build", "--yes", "--json", **index)
        assert built.returncode == 0, built.stdout + built.stderr
        program = "python -c 'import greeting; print(greeting.TEXT)'"
        ran = project.hutch("environment", "shell", "-c", program, **index)
        assert ran.stdout == "hello\n", ran.stderr
        commit(project.work, {"requirements.txt": "greeting==1.0\n# changed\n"})
        other = {**index, "HUTCH_ENVIRONMENT__REGISTRIES": "x.example"}
        failed = project.hutch("environment", "build", "--yes", **other)
    assert failed.returncode == exit_codes.NO
    assert "not reached: " in failed.stderr
    assert "environment.registries" in failed.stderr


def test_the_set_up_is_shown_built_and_removed(project: Project) -> None:
    shown = project.hutch("environment", "show")
    assert "cp lock.txt installed.py" in shown.stdout
    assert "not installed yet; not accepted yet" in shown.stdout
    refused = project.hutch("environment", "build")
    assert (refused.returncode, "was not accepted" in refused.stderr) == (exit_codes.BAD_REQUEST, True)
    built = project.hutch("environment", "build", "--yes", "--json")
    assert built.returncode == 0, built.stderr
    key = json.loads(built.stdout)["key"]
    assert "installed, " in project.hutch("environment", "show").stdout
    ran = project.hutch("environment", "shell", "-c", "cat installed.py; exit 7")
    assert (ran.returncode, ran.stdout) == (7, "TEXT = 'hello'\n"), ran.stderr
    assert key[:12] in project.hutch("__complete", "environment", "rm", "").stdout
    assert "copied" in project.hutch("environment", "log", key[:12]).stdout
    assert project.hutch("environment", "rm", key[:12]).returncode == 0
    assert project.hutch("environment", "list", "--json").stdout == ""
    assert project.hutch("workspace", "ls", "--json").stdout == ""  # nothing is left of it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rm",), "Name the layers to remove"),
        (("rm", "abcdef"), "There is no layer 'abcdef'"),
        (("rm", "a"), "too short"),
        (("log", "../../x"), "is no key"),
        (("show", "/nonexistent"), "/nonexistent"),
    ],
)
def test_mistakes_are_named(project: Project, words: tuple[str, ...], message: str) -> None:
    ran = project.hutch("environment", *words)
    assert ran.returncode == exit_codes.BAD_REQUEST
    assert message in ran.stderr


@pytest.mark.parametrize(
    ("key", "repository", "is_installed"),
    [("y", "", True), ("n", "", False), ("y", "bare", True), ("y", "address", True)],
)
def test_one_key_accepts_the_set_up_before_a_run(
    project: Project, tmp_path: Path, key: str, repository: str, is_installed: bool
) -> None:
    words = [HUTCH, "run", "Mend add", "--no-pr", "--here", "--model", project.cassette(*FIXES)]
    if repository:
        bare = tmp_path / "bare.git"
        git(tmp_path, "clone", "--quiet", "--bare", str(project.work), str(bare))
        words += ["--repo", str(bare) if repository == "bare" else bare.as_uri()]
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (50, 300))
    env = project.environment()
    with Forked(words, cwd=project.work, env=env, stdin=side, stdout=side, stderr=side) as run:
        os.close(side)
        printed = _read_until(main, b"any other key for no")
        assert b"cp lock.txt installed.py" in printed
        _press(main, key)
        _read_until(main, b"")
        run.wait(DEADLINE_S)
    os.close(main)
    assert bool(project.hutch("environment", "list", "--json").stdout) == is_installed


def test_variables_of_a_repository_need_no_set_up(project: Project) -> None:
    commit(project.work, {".hutch/config.toml": '[environment]\nvariables = { MODE = "test" }\n'})
    said = project.run(replies=({"calls": [call("bash", command="echo mode $MODE")]}, {"text": "Done."}))
    assert "mode test" in said.stdout
    assert project.hutch("shell", "--", "printenv", "MODE").stdout == "test\n"
    commit(project.work, {".hutch/config.toml": '[environment]\nvariables = { BASH_ENV = "x" }\n'})
    shown = project.hutch("environment", "show")
    assert "variable BASH_ENV is set by Hutch itself" in shown.stderr


def _press(fd: int, key: str) -> None:
    """Press a key until it is read: keys that come before the terminal reads single keys are discarded."""
    answer = b""
    while b"\n" not in answer:
        os.write(fd, key.encode())
        while select.select([fd], [], [], 1)[0] and b"\n" not in answer:
            answer += os.read(fd, 65536)


def _read_until(fd: int, mark: bytes) -> bytes:
    """Everything that is printed up to a mark; up to the end if it is empty."""
    printed = b""
    while not mark or mark not in printed:
        assert select.select([fd], [], [], DEADLINE_S)[0], printed
        try:
            data = os.read(fd, 65536)
        except OSError:  # the terminal was closed
            break
        if not data:
            break
        printed += data
    return printed


def test_hutch_test_uses_the_built_layer_in_a_copy(project: Project) -> None:
    commit(project.work, {"adding.py": FILES["adding.py"].replace("a - b", "a + b")})
    (project.work / "adding.py").write_text(FILES["adding.py"])  # what is not committed counts
    without = project.hutch("test")
    assert "ImportError" in without.stdout, without.stdout + without.stderr
    assert "copy" not in without.stderr
    built = project.hutch("environment", "build", "--yes")
    assert built.returncode == 0, built.stderr
    failing = project.hutch("test")
    assert "ImportError" not in failing.stdout, failing.stdout
    assert failing.returncode == exit_codes.NO, failing.stdout + failing.stderr
    assert "the tests run in a copy of" in failing.stderr
    (project.work / "adding.py").write_text(FILES["adding.py"].replace("a - b", "a + b"))
    passing = project.hutch("test")
    assert passing.returncode == 0, passing.stdout + passing.stderr
    assert not (project.work / "installed.py").exists()
    assert not (project.work / ".hutch-cache").exists()
    assert project.hutch("workspace", "ls", "--json").stdout == ""  # the copy is removed
    (project.work / "installed.py").write_text("TEXT = 'own'\n")
    own = project.hutch("test")
    assert own.returncode == 0, own.stdout + own.stderr
    assert "copy" not in own.stderr  # a directory with packages of its own is used itself


def test_a_run_names_the_host_that_was_not_reached_and_all_of_the_remedy(project: Project) -> None:
    setup = "python3 -c 'import urllib.request as u; u.urlopen(\\\"http://10.0.0.1:9/\\\")' 2>/dev/null"
    commit(project.work, {".hutch/config.toml": f'[environment]\nsetup = ["{setup}"]\n'})
    settings = {**AUTO, "HUTCH_ENVIRONMENT__REGISTRIES": "10.0.0.1:9"}
    ran = project.run(replies=FIXES, **settings)
    said = ran.stdout + ran.stderr
    (warning,) = [line for line in said.splitlines() if "Dependencies were not installed" in line]
    assert "set jail.private_networks to 10.0.0.1/32 in your settings." in warning, said
    assert "exit code 1" in warning


def test_what_to_do_about_a_host_is_not_cut_off() -> None:
    host = f"{'packages.' * 15}example.org:443"
    remedy = "To exempt it, set jail.private_networks to 10.0.0.1/32 in your settings."
    denied = f"{host}: it resolves to 10.0.0.1, an address that jails may not reach. {remedy}"
    event = {"reason": "`x` failed with exit code 1.", "output": "line\n" * 9, "denied": [denied]}
    assert denied in environment_note("environment.failed", event)


def test_what_to_do_about_a_missing_runner_is_not_cut_off() -> None:
    (line,) = _tests({"ok": False, "reason": NO_PYTEST}, "pytest")
    assert NO_PYTEST in line.text
