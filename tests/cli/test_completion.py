"""Shell completion with the scripts that Hutch prints."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperArgument

from hutch.cli import exit_codes
from hutch.cli.command_table import BY_NAME, COMMANDS, Command
from hutch.cli.completion_candidates import FILES, candidates
from hutch.cli.dispatch import load
from hutch.cli.main import run
from tests.deadline import DEADLINE_S

BIN = Path(sys.executable).parent


def bash(*words: str) -> list[str]:
    """The completions that bash offers for the last of these words."""
    typed = " ".join(f"'{word}'" for word in words)
    program = f"""
        source <("{BIN}/hutch" completion bash)
        COMP_WORDS=({typed}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        handler=$(complete -p hutch | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$handler" "{BIN}/hutch" "${{COMP_WORDS[COMP_CWORD]}}" ''
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with sixty sessions and two secrets."""
    monkeypatch.setenv("HUTCH_HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    connection = sqlite3.connect(tmp_path / "data" / "hutch.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE logs (session_id TEXT, opened_ms BIGINT, ended BOOLEAN, seq BIGINT)")
    rows = [(f"ses_{number:026}", 1_794_000_000_000, number % 2, number) for number in range(60)]
    connection.executemany("INSERT INTO logs VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    (tmp_path / "data" / "vault.json").write_text(json.dumps({"openai_api_key": "x", "github_token": "y"}))
    return tmp_path


@pytest.mark.parametrize("name", ["log", "export", "receipt", "erase"])
@pytest.mark.parametrize("args", [[], ["--json"]])
def test_a_session_is_last_or_one_of_the_newest(home: Path, name: str, args: list[str]) -> None:
    offered = candidates(BY_NAME[name], args, "")
    assert offered[:2] == [
        ("last", "The session that was opened last."),
        ("ses_00000000000000000000000059", "2026-11-06 21:20, ended, 59 events"),
    ]
    assert len(offered) == 51
    assert [word for word, _ in candidates(BY_NAME[name], args, "la")] == ["last"]
    assert [word for word, _ in candidates(BY_NAME[name], args, "ses_00000000000000000000000058")] == [
        "ses_00000000000000000000000058"
    ]


def test_offering_sessions_leaves_nothing_beside_the_database(home: Path) -> None:
    candidates(BY_NAME["log"], [], "")
    assert sorted(path.name for path in (home / "data").iterdir()) == ["hutch.db", "vault.json"]


def test_without_sessions_or_secrets_nothing_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUTCH_HOME", str(tmp_path / "none"))
    assert candidates(BY_NAME["log"], [], "") == []
    assert candidates(BY_NAME["config"], ["unset-secret"], "") == []
    assert list(tmp_path.iterdir()) == []


def test_unset_secret_completes_existing_names(home: Path) -> None:
    assert candidates(BY_NAME["config"], ["unset-secret"], "") == [
        ("github_token", ""),
        ("openai_api_key", ""),
    ]
    assert candidates(BY_NAME["config"], ["unset-secret"], "o") == [("openai_api_key", "")]


def test_set_secret_completes_the_names_that_hutch_uses(home: Path) -> None:
    assert candidates(BY_NAME["config"], ["set-secret"], "github_t") == [("github_token", "")]
    assert ("anthropic_api_key", "") in candidates(BY_NAME["config"], ["set-secret"], "")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("verify", []),
        ("verify", ["--receipt"]),
        ("export", ["last", "--output"]),
        ("config", ["show", "--repo"]),
        ("config", ["set-secret", "github_token", "--from-file"]),
    ],
)
def test_file_names_are_completed_by_the_shell(name: str, args: list[str]) -> None:
    assert candidates(BY_NAME[name], args, "some") == FILES


def test_choices_are_completed() -> None:
    assert candidates(BY_NAME["shell"], ["--profile"], "") == [("agent", ""), ("test", ""), ("tool", "")]
    assert candidates(BY_NAME["shell"], ["--profile"], "te") == [("test", "")]


def test_help_is_offered_for_every_command() -> None:
    assert [word for word, _ in candidates(BY_NAME["help"], [], "ver")] == ["verify", "version"]


def test_the_command_table_matches_the_commands() -> None:
    for command in COMMANDS:
        first = next((each for each in load(command).params if isinstance(each, TyperArgument)), None)
        if command.takes:
            assert first and first.metavar in {command.takes, "FILE"}


def test_a_shell_without_a_script_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == exit_codes.BAD_REQUEST
    assert (
        capsys.readouterr().err
        == "hutch: There is no completion script for 'tcsh'. Choose bash, zsh or fish.\n"
    )


def test_bash_completes_sessions_and_leaves_files_to_itself(home: Path) -> None:
    assert bash("hutch", "log", "la") == ["last"]
    assert bash("hutch", "verify", "") == []


def test_fish_completes_sessions_and_files(home: Path) -> None:
    (home / "record.zip").touch()
    script = subprocess.run([BIN / "hutch", "completion", "fish"], capture_output=True, text=True, check=True)

    def fish(line: str) -> list[str]:
        ran = subprocess.run(
            ["fish", "--no-config", "-c", f"{script.stdout}\ncomplete --do-complete '{line}'"],
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home)},
            cwd=home,
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        )
        return [offered.split("\t")[0] for offered in ran.stdout.splitlines()]

    assert fish("hutch log la") == ["last"]
    assert fish("hutch verify rec") == ["record.zip"]
    assert fish("hutch log rec") == []


def test_bash_completes_the_names_of_commands() -> None:
    assert bash("hutch", "ver") == ["verify", "version"]
    assert set(bash("hutch", "")) >= {command.name for command in COMMANDS}


def test_bash_completes_the_options_of_hutch_and_of_a_command() -> None:
    assert bash("hutch", "--v") == ["--version"]
    assert bash("hutch", "version", "--") == ["--json", "--help"]


def test_bash_completes_a_value() -> None:
    assert bash("hutch", "completion", "z") == ["zsh"]


def test_bash_completes_after_an_option_of_hutch() -> None:
    assert bash("hutch", "--debug", "comp") == ["completion"]


def test_bash_offers_nothing_for_an_unknown_command() -> None:
    assert bash("hutch", "zzz", "") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_each_shell_can_parse_its_script(shell: str) -> None:
    script = subprocess.run([BIN / "hutch", "completion", shell], capture_output=True, check=True).stdout
    subprocess.run([shell, "-n", "/dev/stdin"], input=script, check=True)


app = typer.Typer(help="A group, for the tests.")


@app.command()
def paint(
    thing: Annotated[Literal["door", "wall"], typer.Argument()],
    colour: Annotated[Literal["red", "green"], typer.Option(help="Which colour.")] = "red",
) -> None:
    """Paint a thing."""


@app.command()
def sweep() -> None:
    """Sweep the floor."""


GROUP = Command("Work", "paintwork", f"{__name__}:app", "Paint and clean.")


@pytest.mark.parametrize(
    ("args", "word", "offered"),
    [
        ([], "", [("paint", "Paint a thing."), ("sweep", "Sweep the floor.")]),
        ([], "sw", [("sweep", "Sweep the floor.")]),
        (["paint"], "", [("door", ""), ("wall", "")]),
        (["paint"], "--c", [("--colour", "Which colour.")]),
        (["paint", "--colour"], "g", [("green", "")]),
        (["paint", "door"], "", []),
        (["paint", "--colour", "red"], "w", [("wall", "")]),
    ],
)
def test_a_group_completes_its_commands_their_options_and_values(
    args: list[str], word: str, offered: list[tuple[str, str]]
) -> None:
    assert candidates(GROUP, args, word) == offered
