"""Printed output on its way into the log: secrets in pieces, pauses, many streams."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from hutch.domain.events import Event, TerminalPrinted
from hutch.domain.redaction import Redactor
from hutch.sessions.command_and_terminal_recorder import MAX_QUIET, OutputRecorder
from hutch.sessions.output_log_filter import BURST_BYTES, END_BYTES, MAX_ENDS_BYTES, STEADY_BYTES_S
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

VALUE = "correct-horse-battery"
KEY = "sk-ant-api03-" + "abcdefghij" * 3


class Log:
    """Stores appended events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.output_recorder = OutputRecorder(self.append, Redactor([VALUE]))

    async def append(self, events: Sequence[Event]) -> None:
        self.events += events

    def add(self, text: str | bytes, terminal: str = "1") -> None:
        def make(text: str, skipped: int) -> Event:
            return TerminalPrinted(terminal=terminal, text=text, skipped_bytes=skipped)

        self.output_recorder.add(terminal, text.encode() if isinstance(text, str) else text, make)

    def text(self, terminal: str = "1") -> str:
        result = (each for each in self.events if isinstance(each, TerminalPrinted))
        return "".join(each.text for each in result if each.terminal == terminal)


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    made = Log()
    yield made
    await made.output_recorder.close()


async def quiet(log: Log) -> None:
    """Print nothing until the buffered text has been shown."""
    async with asyncio.timeout(DEADLINE_S):
        while any(source.held for source in log.output_recorder._sources.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("secret", [VALUE, KEY])
@pytest.mark.parametrize("cut", [1, 3, 6, 12, 18])
async def test_a_secret_in_two_halves_with_a_pause_between_is_not_whole(
    log: Log, secret: str, cut: int
) -> None:
    log.add("begin " + secret[:cut])
    await quiet(log)
    log.add(secret[cut:] + " after\n")
    await quiet(log)
    assert secret[cut:] not in log.text()
    assert log.text().replace("begin ", "").startswith((secret[:cut] + "[redacted", "[redacted"))
    assert log.text().endswith("] after\n")


@pytest.mark.parametrize("secret", [VALUE, KEY])
async def test_a_secret_that_comes_in_single_characters_shows_only_its_first_ones(
    log: Log, secret: str
) -> None:
    for letter in secret:
        log.add(letter)
        await log.output_recorder.flush()  # a pause, without the waiting
    log.add("\n")
    await log.output_recorder.flush()
    assert log.text() in (f"{secret[:3]}[redacted:secret]\n", f"{secret[:2]}[redacted:anthropic_key]\n")


async def test_a_prompt_without_a_line_end_is_shown_after_a_pause(log: Log) -> None:
    log.add("Go on? [y/N] please")
    await quiet(log)
    assert log.text() == "Go on? [y/N] please"
    log.add("y\n")
    await quiet(log)
    assert log.text() == "Go on? [y/N] pleasey\n"


async def test_what_only_began_like_a_secret_is_shown_when_it_goes_on_otherwise(log: Log) -> None:
    log.add("correct-h")
    await quiet(log)
    assert log.text() == ""
    log.add("at\n")
    await quiet(log)
    assert log.text() == "correct-hat\n"


async def test_what_is_held_back_is_shown_at_the_end(log: Log) -> None:
    log.add("sk-and nothing else, then sk-an")
    log.output_recorder.end("1")
    await log.output_recorder.flush()
    assert log.text() == "sk-and nothing else, then sk-an"


async def test_streams_do_not_mix_and_an_incomplete_character_waits_for_its_rest(log: Log) -> None:
    log.add("ü".encode()[:1], "1")
    log.add(VALUE[:10], "2")
    await log.output_recorder.flush()
    log.add("ü".encode()[1:], "1")
    log.add(VALUE[10:], "3")
    await log.output_recorder.flush()
    await log.output_recorder.close()
    assert (log.text("1"), log.text("2"), log.text("3")) == ("ü", VALUE[:10], VALUE[10:])


async def test_of_many_streams_not_all_are_remembered_and_none_is_lost(log: Log) -> None:
    names = [str(number) for number in range(MAX_QUIET * 2)]
    for name in names:
        log.add("word", name)
    await log.output_recorder.flush()
    await log.output_recorder.flush()
    assert len(log.output_recorder._sources) == MAX_QUIET
    assert [log.text(name) for name in names] == ["word"] * len(names)


LINE = "a line of a long listing\n"


def flood(log: Log, *, last: str) -> int:
    """Much more than is written down, in pieces as a terminal gives them; how many bytes."""
    text = LINE * (4 * BURST_BYTES // len(LINE)) + last
    for at in range(0, len(text), 10_000):
        log.add(text[at : at + 10_000])
    return len(text)


async def test_of_a_flood_the_beginning_and_the_end_are_written_and_the_rest_is_counted(log: Log) -> None:
    printed = flood(log, last="done\n$ ")
    await quiet(log)
    result = [each for each in log.events if isinstance(each, TerminalPrinted)]
    assert sum(len(each.text) + each.skipped_bytes for each in result) == printed
    assert [each.skipped_bytes > 0 for each in result] == [False] * (len(result) - 1) + [True]
    assert result[-1].text.endswith(LINE + "done\n$ ")
    assert len(log.text()) <= BURST_BYTES + END_BYTES


@pytest.mark.parametrize("cut", [4, 10, len(VALUE) - 1])
async def test_what_is_left_out_takes_the_beginning_of_a_secret_with_it(log: Log, cut: int) -> None:
    log.add("y " * (BURST_BYTES // 2 - 100) + VALUE[:cut])
    log.add(VALUE[cut:] + " " + "z " * BURST_BYTES + "end")
    log.output_recorder.end("1")
    await log.output_recorder.flush()
    assert VALUE[:cut] not in log.text()
    assert "y y z z" in log.text() and log.text().endswith("z z end")


TOKEN = "abcdefghij" * 3
BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 3)
SECRETS = {
    "a value": (VALUE, VALUE),
    "a header": (f"Authorization: Bearer {TOKEN}", TOKEN),
    "a key": (f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----", BODY[:64]),
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("filler", ["x", "x "])
async def test_the_end_of_a_flood_shows_nothing_of_a_secret_that_begins_before_it(
    name: str, filler: str
) -> None:
    text, secret = SECRETS[name]
    for behind in range(1, len(text), 5):
        log = Log()
        last = filler * (END_BYTES - behind)
        flood(log, last=f" {text}\n{last[: END_BYTES - behind - 1]}")
        await log.output_recorder.close()
        assert not any(secret[at : at + 8] in log.text() for at in range(0, len(secret) - 8, 4))
        assert log.text().endswith((filler * 500).strip()) or log.text().endswith(filler * 500)


async def test_what_was_too_much_and_is_all_there_is_written_whole(log: Log) -> None:
    flood(log, last="")
    log.add("first word, and the others\n", "2")
    log.add("42\n", "3")
    await quiet(log)
    assert (log.text("2"), log.text("3")) == ("first word, and the others\n", "42\n")


async def test_ends_do_not_take_more_than_there_is(log: Log) -> None:
    names = [str(number) for number in range(400)]
    printed, began = 0, time.monotonic()
    for name in names:
        log.add(LINE * 400, name)
        log.output_recorder.end(name)
        printed += len(LINE) * 400
    await log.output_recorder.flush()
    result = [each for each in log.events if isinstance(each, TerminalPrinted)]
    assert sum(len(each.text) + each.skipped_bytes for each in result) == printed
    took_s = time.monotonic() - began  # in which more may be written
    assert sum(len(each.text) for each in result) <= BURST_BYTES + MAX_ENDS_BYTES + STEADY_BYTES_S * max(
        1, took_s
    )
    log.events.clear()
    log.add("42\n", "new")
    await asyncio.sleep(END_BYTES / STEADY_BYTES_S)
    log.output_recorder.end("new")
    await log.output_recorder.flush()
    assert log.text("new") == "42\n"


async def test_behind_what_was_forgotten_no_half_of_a_secret_is_shown(log: Log) -> None:
    for number in range(100):
        log.add(LINE * 400, str(number))
        log.output_recorder.end(str(number))
    await log.output_recorder.flush()  # there is no room for any more ends
    log.add("x" * END_BYTES + VALUE[:9])
    await log.output_recorder.flush()
    await asyncio.sleep(0.2)
    log.add(VALUE[9:] + " after\n")
    await quiet(log)
    assert VALUE[9:] not in log.text()
    assert log.text().endswith(" after\n")


async def test_in_a_flood_without_end_longer_pieces_are_written_now_and_then(log: Log) -> None:
    flood(log, last="")
    log.events.clear()
    pauses = 0  # that this machine made: after each, the end of what came before is shown as well
    for _ in range(40):
        flood(log, last="")
        began = time.monotonic()
        await asyncio.sleep(0.02)
        pauses += time.monotonic() - began > 0.04
    result = [each for each in log.events if isinstance(each, TerminalPrinted)]
    assert 1 <= sum(each.skipped_bytes > 0 for each in result) <= 20 + pauses
    assert all(len(each.text) > END_BYTES // 2 for each in result if each.skipped_bytes)
