"""Secrets and the key of a shell are masked in a terminal for those who watch it."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain.events import CommandStarted
from hutch.sessions.file_and_command_requests import RunCommand
from hutch.sessions.terminal_masking import MIN_KEY_BYTES, KeyMask
from tests.deadline import DEADLINE_S
from tests.sessions.test_commands_typed_in_terminal import BEN, PRINT_KEY, PROMPT, SHELLS, Typist, terminal

pytestmark = pytest.mark.anyio

KEY = "0123456789abcdef0123456789abcdef"


async def view(at: Typist, resume: int, end: int, *, masked: bool) -> bytes:
    """The bytes of a terminal from one to another, for a viewer who reconnects."""
    seen = b""
    watched = at.server.host.terminal(at.session_id, at.terminal, resume=resume, masked=masked, by=BEN)
    async with asyncio.timeout(DEADLINE_S), watched as viewer:
        async for _, data in viewer:
            viewer.acknowledge(len(data))
            seen += data
            if len(seen) >= end - resume:
                break
    return seen[: end - resume]


@pytest.mark.parametrize("program", SHELLS)
async def test_no_viewer_sees_the_key_wherever_it_resumes(tmp_path: Path, program: str) -> None:
    async with terminal(tmp_path, program) as at:  # type: ignore[arg-type]
        await at.type("", PROMPT)
        key = await at.learn_key()
        await at.type(f"echo tr''aced: $({PRINT_KEY}); set -x\n", rf"traced:.*{PROMPT}")
        end = len(at.seen)
        start = at.seen.rindex(b"traced:") + len(b"traced: ")
        whole = await view(at, 0, end, masked=False)
        assert whole == await view(at, 0, end, masked=True)
        assert key not in whole and whole[start : start + 32] == b"*" * 32
        for at_byte in (start + 1, start + 20, start + 28):
            seen = await view(at, at_byte, end, masked=False)
            assert seen == whole[at_byte:]
        events = await at.close()
    assert key.decode() not in "".join(str(event) for event in events)


async def test_what_a_viewer_sees_is_not_enough_to_forge_a_command(
    tmp_path: Path,
) -> None:
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        seen = at.seen.partition(b"hutch=")[2][:32].decode()
        forged = f"printf '\\033]133;C;hutch={seen};command=evil\\033\\\\' > /dev/pts/0"
        done = await at.server.host.call(at.session_id, RunCommand(forged), by=BEN)
        assert done.exit_code == 0, done
        await at.type("pwd\n", rf"/workspace\r\n.*{PROMPT}")
        events = await at.close()
    started = [each.command for each in events if isinstance(each, CommandStarted) and each.terminal]
    assert started == ["pwd"]


def test_a_key_in_pieces_is_hidden() -> None:
    for size in range(1, 40):
        text = f"a 0123 {KEY}{KEY[:9]}x {KEY[:5]}".encode()
        mask = KeyMask(KEY)
        shown = b"".join(mask.feed(text[at : at + size]) for at in range(0, len(text), size)) + mask.end()
        assert len(shown) == len(text)
        assert KEY[MIN_KEY_BYTES - 1 :].encode() not in shown and shown.endswith(KEY[:5].encode())


def test_the_rest_of_a_key_is_hidden_where_earlier_output_was_dropped() -> None:
    assert KeyMask(KEY).hide(b"cdef rest", is_cut=True) == b"**** rest"
    assert KeyMask(KEY).hide(b"cdef rest") == b"cdef rest"
