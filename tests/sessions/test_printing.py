"""What is printed, on its way into the log: secrets in pieces, pauses, many streams."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from hutch.domain.events import Event, TerminalPrinted
from hutch.domain.redaction import Redactor
from hutch.sessions.printing import MOST_QUIET, QUIET_S, Printing

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
