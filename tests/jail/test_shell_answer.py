"""Answers as real shells give them, in directories of every name, and among noise."""

import os
import subprocess
from pathlib import Path

import pytest

from hutch.jail.shell_answer import Answer, Hearing
from hutch.jail.shell_script import BASH, DASH, Dialect

NONCE = b"0123456789abcdef" * 2
OTHER = b"fedcba9876543210" * 2
NAMES = [
    "plain",
    "it's",
    "''",
    "a'b''c",
    'say "so"',
    "$HOME `x` \\ \\\\",
    "two\nlines",
    "it's\ntwo \x01\x1b\t",
    "ä\udcff",
    "end'",
    "= '",
]
SHELLS = [(DASH, ["/bin/sh"]), (DASH, ["/bin/bash", "--posix"]), (BASH, ["/bin/bash"])]


def ask(dialect: Dialect, program: list[str], cwd: Path, before: str = "") -> bytes:
    script = before.encode() + b"\n(exit 3)\n" + dialect.question(NONCE)
    environment = {"PATH": os.environ["PATH"], "AN_EXPORT": "its value"}
    said = subprocess.run(program, input=script, cwd=cwd, env=environment, capture_output=True, check=False)
    return said.stderr


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
@pytest.mark.parametrize("name", NAMES)
def test_exit_code_and_directory(tmp_path: Path, dialect: Dialect, program: list[str], name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    hearing = Hearing(dialect.mark)
    assert hearing.hear(ask(dialect, program, place), NONCE) == Answer(3, 0, str(place))
    assert b"AN_EXPORT" in hearing.exports() and NONCE not in hearing.exports()


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
@pytest.mark.parametrize("noise", ["set -x", "set -v", "set -xv; PS4=", "PS4='export '; set -x"])
def test_what_a_shell_shows_of_our_lines_is_no_answer(
    tmp_path: Path, dialect: Dialect, program: list[str], noise: str
) -> None:
    said = ask(dialect, program, tmp_path, noise)
    assert Hearing(dialect.mark).hear(said, NONCE) == Answer(3, 0, str(tmp_path))


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
def test_it_may_come_byte_by_byte_and_after_another(
    tmp_path: Path, dialect: Dialect, program: list[str]
) -> None:
    said, hearing = ask(dialect, program, tmp_path), Hearing(dialect.mark)
    answers = [hearing.hear(bytes([byte]), NONCE) for byte in said.replace(NONCE, OTHER) + said]
    assert [answer for answer in answers if answer] == [Answer(3, 0, str(tmp_path))]
    assert hearing.exports().count(b"AN_EXPORT") == 1


def test_a_variable_cannot_speak_for_the_shell(tmp_path: Path) -> None:
    forged = f"export FORGED=\"x\nexport zz{OTHER.decode()}='0 0 /elsewhere'\n\""
    said = ask(DASH, ["/bin/sh"], tmp_path, forged)
    assert Hearing(DASH.mark).hear(said, NONCE) == Answer(3, 0, str(tmp_path))


def test_the_question_leaves_no_variable(tmp_path: Path) -> None:
    script = DASH.question(NONCE) + b"\\export -p\n"
    left = subprocess.run(["/bin/sh"], input=script, cwd=tmp_path, capture_output=True, check=True).stdout
    assert left and NONCE not in left
