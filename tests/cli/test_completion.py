"""The shell completes what was begun, with the script that Hutch prints."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer

from hutch.cli.candidates import candidates
from hutch.cli.commands import COMMANDS, Command

BIN = Path(sys.executable).parent


def bash(*words: str) -> list[str]:
    """What bash offers for the last of these words, by the function that the script defines."""
    typed = " ".join(f"'{word}'" for word in words)
    program = f"""
        source <("{BIN}/hutch" completion bash)
        COMP_WORDS=({typed}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        handler=$(complete -p hutch | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$handler" "{BIN}/hutch" "${{COMP_WORDS[COMP_CWORD]}}" ''
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_the_names_of_commands() -> None:
    assert bash("hutch", "ver") == ["verify", "version"]
    assert set(bash("hutch", "")) >= {command.name for command in COMMANDS}


def test_bash_completes_the_options_of_hutch_and_of_a_command() -> None:
    assert bash("hutch", "--v") == ["--version"]
    assert bash("hutch", "version", "--") == ["--json", "--help"]


def test_bash_completes_a_value() -> None:
    assert bash("hutch", "completion", "z") == ["zsh"]


def test_bash_completes_behind_an_option_of_hutch() -> None:
    assert bash("hutch", "--debug", "comp") == ["completion"]


def test_bash_offers_nothing_for_an_unknown_command() -> None:
    assert bash("hutch", "zzz", "") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
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


HOUSE = Command("Work", "house", f"{__name__}:app", "Keep house.")


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
    assert candidates(HOUSE, args, word) == offered
