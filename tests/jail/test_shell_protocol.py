"""Replies of real shells, alone and within noise."""

import os
import subprocess
from pathlib import Path

import pytest

from hutch.jail.shell.shell_protocol import BASH, DASH, Dialect, Reply, ReplyParser

NONCE = b"0123456789abcdef" * 2
OTHER = b"fedcba9876543210" * 2
SHELLS = [(DASH, ["/bin/sh"]), (DASH, ["/bin/bash", "--posix"]), (BASH, ["/bin/bash"])]


def ask(dialect: Dialect, program: list[str], cwd: Path, before: str = "") -> bytes:
    script = before.encode() + b"\n(exit 3)\n" + dialect.status_query(NONCE)
    environment = {"PATH": os.environ["PATH"], "AN_EXPORT": "its value"}
    said = subprocess.run(program, input=script, cwd=cwd, env=environment, capture_output=True, check=False)
    return said.stderr


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
def test_exit_code_and_exports(tmp_path: Path, dialect: Dialect, program: list[str]) -> None:
    parser = ReplyParser(dialect.reply_prefix)
    assert parser.feed(ask(dialect, program, tmp_path), NONCE) == Reply(3, 0)
    assert b"AN_EXPORT" in parser.exports() and NONCE not in parser.exports()


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
@pytest.mark.parametrize("noise", ["set -x", "set -v", "set -xv; PS4=", "PS4='export '; set -x"])
def test_traces_of_our_lines_are_not_a_reply(
    tmp_path: Path, dialect: Dialect, program: list[str], noise: str
) -> None:
    said = ask(dialect, program, tmp_path, noise)
    assert ReplyParser(dialect.reply_prefix).feed(said, NONCE) == Reply(3, 0)


@pytest.mark.parametrize(("dialect", "program"), SHELLS, ids=["sh", "bash as sh", "bash"])
def test_a_reply_may_arrive_byte_by_byte_and_after_another(
    tmp_path: Path, dialect: Dialect, program: list[str]
) -> None:
    said, parser = ask(dialect, program, tmp_path), ReplyParser(dialect.reply_prefix)
    answers = [parser.feed(bytes([byte]), NONCE) for byte in said.replace(NONCE, OTHER) + said]
    assert [answer for answer in answers if answer] == [Reply(3, 0)]
    assert parser.exports().count(b"AN_EXPORT") == 1


def test_a_variable_cannot_speak_for_the_shell(tmp_path: Path) -> None:
    forged = f"export FORGED=\"x\nexport zz{OTHER.decode()}='0 0'\n\""
    said = ask(DASH, ["/bin/sh"], tmp_path, forged)
    assert ReplyParser(DASH.reply_prefix).feed(said, NONCE) == Reply(3, 0)


def test_the_status_query_leaves_no_variable(tmp_path: Path) -> None:
    script = DASH.status_query(NONCE) + b"\\export -p\n"
    has_ended = subprocess.run(
        ["/bin/sh"], input=script, cwd=tmp_path, capture_output=True, check=True
    ).stdout
    assert has_ended and NONCE not in has_ended


@pytest.mark.parametrize("noise", [bytes(65_536), b"zz" + NONCE, b"zz" + NONCE[:-1] + b"\n", b"\0" + NONCE])
def test_a_reply_is_found_after_any_noise(tmp_path: Path, noise: bytes) -> None:
    parser = ReplyParser(DASH.reply_prefix)
    said = ask(DASH, ["/bin/sh"], tmp_path)
    for _ in range(20):
        assert parser.feed(noise, NONCE) is None
    assert parser.feed(said, NONCE) == Reply(3, 0)
    assert not parser.flooded


def test_endless_noise_is_a_flood_and_takes_no_memory() -> None:
    parser = ReplyParser(DASH.reply_prefix, max_bytes=100_000)
    for _ in range(100_001):
        assert parser.feed(b"\0", NONCE) is None
    assert parser.flooded
    assert len(parser._buffer) == 0


def test_every_byte_is_scanned_about_once() -> None:
    """Four million bytes, then one at a time: scanning all of them each time would take for ever."""
    parser = ReplyParser(DASH.reply_prefix)
    parser.feed(bytes(4_000_000), NONCE)
    for _ in range(50_000):
        parser.feed(b"\0", NONCE)
        assert len(parser._buffer) - parser._scanned < 100
