"""`--file` and `--files`: a session that starts with local files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.new_session_starter_files import read_starter_files
from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.domain.user_given_starter_files import MAX_FILES, StarterFile
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import FILES as BROKEN
from tests.cli.project_with_failing_test import FIXES, Project


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src/.git").mkdir(parents=True)
    (tmp_path / "src/.git/config").write_text("[core]")
    (tmp_path / "src/run").write_bytes(b"\0\xff")
    (tmp_path / "src/run").chmod(0o755)
    (tmp_path / "src/deep").mkdir()
    (tmp_path / "src/deep/a.txt").write_text("a")
    return tmp_path


def test_files_are_named_as_they_are_here(working_directory: Path) -> None:
    run, a = StarterFile(b"\0\xff", executable=True), StarterFile(b"a")
    assert read_starter_files(None, "src") == {"run": run, "deep/a.txt": a}
    assert read_starter_files(["src/run", f"{working_directory}/src/deep/a.txt"], None) == {
        "src/run": run,
        "a.txt": a,
    }
    assert read_starter_files(["src/deep/../run"], "src/deep") == {"a.txt": a, "run": run}
    assert read_starter_files(None, None) == {}


def test_files_with_names_of_secrets_are_given_only_by_name(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".env", "deep/server.key", ".env.example"):
        (working_directory / "src" / name).write_text("x")
    assert set(read_starter_files(None, "src")) == {"run", "deep/a.txt", ".env.example"}
    assert capsys.readouterr().err == (
        "hutch: .env, deep/server.key are left out: the name is typical of secrets. "
        "Add --file PATH to give such a file to the agent.\n"
    )
    assert set(read_starter_files(["src/.env"], "src")) >= {"src/.env", "run"}
    assert capsys.readouterr().err.startswith("hutch: deep/server.key is left out:")


def test_a_directory_without_limits_is_refused_before_all_of_it_is_read(working_directory: Path) -> None:
    for number in range(MAX_FILES + 5):
        (working_directory / f"src/deep/{number}").touch()
    with pytest.raises(LimitReached, match="at most 1000 files"):
        read_starter_files(None, "src")


def test_what_is_not_a_file_is_refused(working_directory: Path) -> None:
    os.mkfifo(working_directory / "pipe")
    (working_directory / "link").symlink_to("/etc/passwd")
    (working_directory / "empty").mkdir()
    for file, problem in (("pipe", "not a file"), ("link", "symbolic link"), ("src", "not a file")):
        with pytest.raises(BadRequest, match=problem):
            read_starter_files([file], None)
    with pytest.raises(NotFound, match="no local file 'none'"):
        read_starter_files(["none"], None)
    for directory, problem in (("none", "does not exist"), ("src/run", "is not a directory")):
        with pytest.raises(NotFound, match=problem):
            read_starter_files(None, directory)
    with pytest.raises(BadRequest, match="has no files"):
        read_starter_files(None, "empty")
    (working_directory / "empty/there").symlink_to("..")
    with pytest.raises(BadRequest, match="symbolic link"):
        read_starter_files(None, "empty")
    with pytest.raises(BadRequest, match="not from both"):
        read_starter_files(None, "src", repository=".")


def test_a_session_of_a_server_starts_with_local_files(server: ServerHome) -> None:
    work = server.place / "work"
    (work / "pack").mkdir(parents=True)
    (work / "pack/a.bin").write_bytes(bytes(range(256)))
    made = server.json("sessions", "new", "--files", str(work / "pack"))
    assert (made["starter_files"], made["repository"]) == (1, "")
    server.until(made["id"], "idle", "parked")
    assert server.hutch("files", "ls", made["id"]).stdout == "a.bin\n"
    assert "1 file" in server.hutch("sessions", "show", made["id"]).stdout
    for words, problem in (
        (("--deliver",), "no repository to deliver to"),
        (("--repo", "."), "not from both"),
    ):
        refused = server.hutch("sessions", "new", "--files", str(work / "pack"), *words)
        assert refused.returncode == exit_codes.BAD_REQUEST and problem in refused.stderr


def test_a_run_works_on_given_files_and_delivers_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    given = tmp_path / "given"
    given.mkdir()
    for name, text in BROKEN.items():
        (given / name).write_text(text)
    ran = project.hutch("run", "Mend add", "--files", str(given), "--model", project.cassette(*FIXES))
    assert ran.returncode == 0, ran.stderr
    assert "There is no repository to deliver to. The work is in the workspace" in ran.stdout
    assert "changes deliver" not in ran.stdout and "No branch" not in ran.stdout
    assert "a - b" in (given / "adding.py").read_text()
    shown = next(line for line in ran.stdout.splitlines() if "review it: " in line)
    patch = project.hutch(*shown.partition("hutch ")[2].split()).stdout
    assert "+    return a + b" in patch
