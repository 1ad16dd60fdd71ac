"""Log lines of one request differ from those of another."""

import asyncio
import re

import pytest

from hutch.domain.trace_id import trace_id, traced

ONE, TWO = "a" * 32, "b" * 32


def test_lines_inside_belong_to_the_trace_and_lines_after_do_not() -> None:
    assert trace_id() == ""
    with traced(ONE, session_id="ses_1"):
        assert trace_id() == ONE
        with traced(TWO):
            assert trace_id() == TWO
        assert trace_id() == ONE
    assert trace_id() == ""


def test_work_outside_of_a_request_has_its_own_trace() -> None:
    found = []
    for _ in range(2):
        with traced(""):
            found.append(trace_id())
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in found) and found[0] != found[1]


@pytest.mark.anyio
async def test_tasks_side_by_side_do_not_mix() -> None:
    async def work(id: str) -> list[str]:
        with traced(id):
            seen = [trace_id()]
            await asyncio.sleep(0)
            return [*seen, await asyncio.to_thread(trace_id)]

    assert await asyncio.gather(work(ONE), work(TWO)) == [[ONE, ONE], [TWO, TWO]]
