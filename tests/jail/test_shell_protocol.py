"""Answers as real shells give them, and among noise."""

import os
import subprocess
from pathlib import Path

import pytest

from hutch.jail.shell.protocol import BASH, DASH, Answer, Dialect, Hearing

NONCE = b"0123456789abcdef" * 2
OTHER = b"fedcba9876543210" * 2
SHELLS = [(DASH, ["/bin/sh"]), (DASH, ["/bin/bash", "--posix"]), (BASH, ["/bin/bash"])]


def ask(dialect: Dialect, program: list[str], cwd: Path, before: str = "") -> bytes:
    script = before.encode() + b"\n(exit 3)\n" + dialect.question(NONCE)
    environment = {"PATH": os.environ["PATH"], "AN_EXPORT": "its value"}
    said = subprocess.run(program, input=script, cwd=cwd, env=environment, capture_output=True, check=False)
    return said.stderr


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
def test_exit_code_and_exports(tmp_path: Path, dialect: Dialect, program: list[str]) -> None:
    hearing = Hearing(dialect.mark)
    assert hearing.hear(ask(dialect, program, tmp_path), NONCE) == Answer(3, 0)
    assert b"AN_EXPORT" in hearing.exports() and NONCE not in hearing.exports()


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
@pytest.mark.parametrize("noise", ["set -x", "set -v", "set -xv; PS4=", "PS4='export '; set -x"])
def test_what_a_shell_shows_of_our_lines_is_no_answer(
    tmp_path: Path, dialect: Dialect, program: list[str], noise: str
) -> None:
    said = ask(dialect, program, tmp_path, noise)
    assert Hearing(dialect.mark).hear(said, NONCE) == Answer(3, 0)


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
def test_it_may_come_byte_by_byte_and_after_another(
    tmp_path: Path, dialect: Dialect, program: list[str]
) -> None:
    said, hearing = ask(dialect, program, tmp_path), Hearing(dialect.mark)
    answers = [hearing.hear(bytes([byte]), NONCE) for byte in said.replace(NONCE, OTHER) + said]
    assert [answer for answer in answers if answer] == [Answer(3, 0)]
    assert hearing.exports().count(b"AN_EXPORT") == 1


def test_a_variable_cannot_speak_for_the_shell(tmp_path: Path) -> None:
    forged = f"export FORGED=\"x\nexport zz{OTHER.decode()}='0 0'\n\""
    said = ask(DASH, ["/bin/sh"], tmp_path, forged)
    assert Hearing(DASH.mark).hear(said, NONCE) == Answer(3, 0)


def test_the_question_leaves_no_variable(tmp_path: Path) -> None:
    script = DASH.question(NONCE) + b"\\export -p\n"
    left = subprocess.run(["/bin/sh"], input=script, cwd=tmp_path, capture_output=True, check=True).stdout
    assert left and NONCE not in left


@pytest.mark.parametrize("noise", [bytes(65_536), b"zz" + NONCE, b"zz" + NONCE[:-1] + b"\n", b"\0" + NONCE])
def test_an_answer_is_found_behind_any_noise(tmp_path: Path, noise: bytes) -> None:
    hearing = Hearing(DASH.mark)
    said = ask(DASH, ["/bin/sh"], tmp_path)
    for _ in range(20):
        assert hearing.hear(noise, NONCE) is None
    assert hearing.hear(said, NONCE) == Answer(3, 0)
    assert not hearing.flooded


def test_noise_without_end_is_a_flood_and_takes_no_room() -> None:
    hearing = Hearing(DASH.mark, most_bytes=100_000)
    for _ in range(100_001):
        assert hearing.hear(b"\0", NONCE) is None
    assert hearing.flooded
    assert len(hearing._heard) == 0


def test_every_byte_is_looked_at_about_once() -> None:
    """Four million bytes, then one at a time: looking at all of them each time would take for ever."""
    hearing = Hearing(DASH.mark)
    hearing.hear(bytes(4_000_000), NONCE)
    for _ in range(50_000):
        hearing.hear(b"\0", NONCE)
        assert len(hearing._heard) - hearing._looked < 100
