"""The view of a session on the full screen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import RichLog, Static

from hutch.cli.render.transcript import Line, ReplyPart
from hutch.cli.screens.transcript_panel import TranscriptView
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


class OnlyTranscript(App[None]):
    def compose(self) -> ComposeResult:
        yield TranscriptView()


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():
            await pilot.pause(0.01)


@asynccontextmanager
async def with_lines() -> AsyncIterator[tuple[Pilot[None], TranscriptView, RichLog]]:
    """A view of 12 rows that shows the end of 100 lines."""
    app = OnlyTranscript()
    async with app.run_test(size=(40, 12)) as pilot:
        view, log = app.query_one(TranscriptView), app.query_one(RichLog)
        view.put([Line(f"line {number}") for number in range(100)])
        await until(pilot, lambda: log.scroll_y == log.max_scroll_y == 88)
        for _ in range(20):  # each line that was written scrolls once more to the end, some time later
            await pilot.pause(0.01)
            await pilot.pause()
        yield pilot, view, log


async def lowered(pilot: Pilot[None], log: RichLog) -> None:
    await pilot.resize_terminal(40, 8)
    await until(pilot, lambda: log.max_scroll_y == 92)
    await pilot.pause()


def rows(log: RichLog) -> list[str]:
    return [line.text.rstrip() for line in log.lines]


async def test_lines_and_replies_are_wrapped_again_when_the_width_changes() -> None:
    app = OnlyTranscript()
    async with app.run_test(size=(40, 12)) as pilot:
        view, log = app.query_one(TranscriptView), app.query_one(RichLog)
        words = " ".join(f"word{number}" for number in range(10))  # 59 characters
        view.put([Line(words, lead="you: "), ReplyPart(words[:20]), ReplyPart(words[20:], end=True)])
        view.put([ReplyPart(words)])
        await until(pilot, lambda: len(log.lines) == 5)
        await pilot.resize_terminal(100, 12)
        await until(pilot, lambda: rows(log) == [f"you: {words}", words])
        assert str(view.query_one("#unfinished", Static).content) == words
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: len(log.lines) == 5)


async def test_lines_take_the_colours_of_a_new_theme() -> None:
    app = OnlyTranscript()
    async with app.run_test(size=(40, 12)) as pilot:
        view, log = app.query_one(TranscriptView), app.query_one(RichLog)
        view.put([Line("added", "added")])
        await until(pilot, lambda: rows(log) == ["added"])

        def colours() -> set[str]:
            return {str(segment.style) for strip in log.lines for segment in strip if segment.text.strip()}

        assert colours() == {"bright_green"}
        app.theme = "textual-light"
        await until(pilot, lambda: colours() == {"dark_green"})


async def test_the_last_line_stays_visible_when_the_window_gets_lower() -> None:
    async with with_lines() as (pilot, _, log):
        await lowered(pilot, log)
        await until(pilot, lambda: log.scroll_y == 92)


async def test_the_last_line_stays_visible_above_an_unfinished_one() -> None:
    async with with_lines() as (pilot, view, log):
        view.put([ReplyPart("not yet a li")])
        await until(pilot, lambda: log.scroll_y == log.max_scroll_y == 89)


async def test_a_view_that_was_scrolled_up_stays_there_when_the_window_gets_lower() -> None:
    async with with_lines() as (pilot, view, log):
        view.page(-1)
        await until(pilot, lambda: log.scroll_y < 88 and log.scroll_y == log.scroll_target_y)
        shown_from = log.scroll_y
        await lowered(pilot, log)
        assert log.scroll_y == shown_from
