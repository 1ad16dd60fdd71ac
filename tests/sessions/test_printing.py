"""What is printed, on its way into the log: secrets in pieces, pauses, many streams."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from hutch.domain.events import Event, TerminalPrinted
from hutch.domain.redaction import Redactor
from hutch.sessions.printing import BURST_BYTES, END_BYTES, MOST_QUIET, QUIET_S, Printing

pytestmark = pytest.mark.anyio

VALUE = "correct-horse-battery"
KEY = "sk-ant-api03-" + "abcdefghij" * 3


class Log:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.printing = Printing(self.append, Redactor([VALUE]))

    async def append(self, events: Sequence[Event]) -> None:
        self.events += events

    def add(self, text: str | bytes, terminal: str = "1") -> None:
        def make(text: str, skipped: int) -> Event:
            return TerminalPrinted(terminal=terminal, text=text, skipped_bytes=skipped)

        self.printing.add(terminal, text.encode() if isinstance(text, str) else text, make)

    def text(self, terminal: str = "1") -> str:
        told = (each for each in self.events if isinstance(each, TerminalPrinted))
        return "".join(each.text for each in told if each.terminal == terminal)


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    made = Log()
    yield made
    await made.printing.close()


async def quiet() -> None:
    await asyncio.sleep(QUIET_S * 1.6)


@pytest.mark.parametrize("secret", [VALUE, KEY])
@pytest.mark.parametrize("cut", [1, 3, 6, 12, 18])
async def test_a_secret_in_two_halves_with_a_pause_between_is_not_whole(
    log: Log, secret: str, cut: int
) -> None:
    log.add("begin " + secret[:cut])
    await quiet()
    log.add(secret[cut:] + " after\n")
    await quiet()
    assert secret[cut:] not in log.text()
    assert log.text().replace("begin ", "").startswith((secret[:cut] + "[redacted", "[redacted"))
    assert log.text().endswith("] after\n")


@pytest.mark.parametrize("secret", [VALUE, KEY])
async def test_a_secret_that_comes_letter_by_letter_shows_its_first_letters_at_most(
    log: Log, secret: str
) -> None:
    for letter in secret:
        log.add(letter)
        await log.printing.flush()  # a pause, without the waiting
    log.add("\n")
    await log.printing.flush()
    assert log.text() in (f"{secret[:3]}[redacted:secret]\n", f"{secret[:2]}[redacted:anthropic_key]\n")


async def test_a_prompt_without_a_line_end_is_shown_after_a_pause(log: Log) -> None:
    log.add("Go on? [y/N] please")
    await quiet()
    assert log.text() == "Go on? [y/N] please"
    log.add("y\n")
    await quiet()
    assert log.text() == "Go on? [y/N] pleasey\n"


async def test_what_only_began_like_a_secret_is_shown_when_it_goes_on_otherwise(log: Log) -> None:
    log.add("correct-h")
    await quiet()
    assert log.text() == ""
    log.add("at\n")
    await quiet()
    assert log.text() == "correct-hat\n"


async def test_what_is_held_back_is_shown_at_the_end(log: Log) -> None:
    log.add("sk-and nothing else, then sk-an")
    log.printing.end("1")
    await log.printing.flush()
    assert log.text() == "sk-and nothing else, then sk-an"


async def test_streams_do_not_mix_and_half_a_letter_waits_for_its_rest(log: Log) -> None:
    log.add("ü".encode()[:1], "1")
    log.add(VALUE[:10], "2")
    await log.printing.flush()
    log.add("ü".encode()[1:], "1")
    log.add(VALUE[10:], "3")
    await log.printing.flush()
    await log.printing.close()
    assert (log.text("1"), log.text("2"), log.text("3")) == ("ü", VALUE[:10], VALUE[10:])


async def test_of_many_streams_not_all_are_remembered_and_none_is_lost(log: Log) -> None:
    names = [str(number) for number in range(MOST_QUIET * 2)]
    for name in names:
        log.add("word", name)
    await log.printing.flush()
    await log.printing.flush()
    assert len(log.printing._sources) == MOST_QUIET
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
    await quiet()
    told = [each for each in log.events if isinstance(each, TerminalPrinted)]
    assert sum(len(each.text) + each.skipped_bytes for each in told) == printed
    assert [each.skipped_bytes > 0 for each in told] == [False] * (len(told) - 1) + [True]
    assert told[-1].text.endswith(LINE + "done\n$ ")
    assert len(log.text()) <= BURST_BYTES + END_BYTES


@pytest.mark.parametrize("cut", [4, 10, len(VALUE) - 1])
async def test_what_is_left_out_takes_the_beginning_of_a_secret_with_it(log: Log, cut: int) -> None:
    log.add("y " * (BURST_BYTES // 2 - 100) + VALUE[:cut])
    log.add(VALUE[cut:] + " " + "z " * BURST_BYTES + "end")
    log.printing.end("1")
    await log.printing.flush()
    assert VALUE[:cut] not in log.text()
    assert "y y z z" in log.text() and log.text().endswith("z z end")


@pytest.mark.parametrize("cut", range(1, len(VALUE)))
async def test_the_end_of_a_flood_does_not_begin_with_half_a_secret(log: Log, cut: int) -> None:
    flood(log, last=VALUE + " " + "x" * (END_BYTES - cut - 1))
    log.printing.end("1")
    await log.printing.flush()
    assert VALUE[-cut:] + " xxx" not in log.text()
    assert log.text().endswith("x" * 1000)


async def test_in_a_flood_without_end_longer_pieces_are_written_now_and_then(log: Log) -> None:
    flood(log, last="")
    log.events.clear()
    for _ in range(40):
        flood(log, last="")
        await asyncio.sleep(0.02)
    told = [each for each in log.events if isinstance(each, TerminalPrinted)]
    assert 1 <= sum(each.skipped_bytes > 0 for each in told) <= 20
    assert all(len(each.text) > END_BYTES // 2 for each in told if each.skipped_bytes)
