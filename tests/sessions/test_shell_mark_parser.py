"""The marks of a shell in hostile output, in chunks of any size."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.sessions.shell_mark_parser import BEGINNING, MAX_MARK_BYTES, Mark, MarkParser

KEY = "0123456789abcdef0123456789abcdef"
PROMPT = f"\x1b]133;D;1;hutch={KEY};cwd=/work;space\x1b\\".encode()
START = f"\x1b]133;C;hutch={KEY};command=echo 'a;b'\r\necho é\x07".encode()
SHELL = b"before" + PROMPT + b"\x1b]133;A\x1b\\$ " + START + b"after"


def parse(data: bytes, *, key: str = KEY, at: tuple[int, ...] = ()) -> list[bytes | Mark]:
    """The parts of output that comes in chunks, with adjacent output joined."""
    parser = MarkParser(key)
    cuts = [0, *sorted(min(place, len(data)) for place in at), len(data)]
    parts = [part for i in range(len(cuts) - 1) for part in parser.feed(data[cuts[i] : cuts[i + 1]])]
    parts.append(parser.end())
    joined: list[bytes | Mark] = []
    for part in parts:
        if isinstance(part, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += part
        elif part:
            joined.append(part)
    return joined


def test_marks_are_found_and_are_not_output() -> None:
    until_prompt = len(b"before" + PROMPT)
    assert parse(SHELL) == [
        b"before",
        Mark("prompt", until_prompt, 1, "/work;space"),
        b"$ ",
        Mark("start", len(SHELL) - len(b"after"), command="echo 'a;b'\necho é"),
        b"after",
    ]


@given(st.lists(st.integers(0, len(SHELL)), max_size=8).map(tuple))
def test_chunks_may_end_anywhere(at: tuple[int, ...]) -> None:
    assert parse(SHELL, at=at) == parse(SHELL)


def test_marks_with_another_key_or_none_are_output() -> None:
    for forged in (
        SHELL.replace(KEY.encode(), b"0" * 32),
        SHELL.replace(KEY.encode(), b""),
        SHELL.replace(b";hutch=" + KEY.encode(), b""),
        SHELL.replace(KEY.encode(), KEY[:-1].encode()),
        SHELL.replace(KEY.encode(), KEY.encode() + b"0"),
    ):
        assert parse(forged) == [forged.replace(b"\x1b]133;A\x1b\\", b"")]


def test_a_terminal_without_a_key_has_no_marks() -> None:
    for data in (SHELL, SHELL.replace(KEY.encode(), b"")):
        assert parse(data, key="") == [data]


def test_a_mark_that_another_sequence_interrupts_is_output() -> None:
    cut = START[:-1] + b"\x1b[31mred\x07"
    assert parse(cut) == [cut]
    assert parse(cut + START)[1] == Mark("start", len(cut + START), command="echo 'a;b'\necho é")


def test_an_endless_mark_is_not_held() -> None:
    parser = MarkParser(KEY)
    chunk = b"x" * 4096
    count = 0
    list(parser.feed(BEGINNING))
    for _ in range(MAX_MARK_BYTES // 4096 + 1):
        count += sum(len(part) for part in parser.feed(chunk) if isinstance(part, bytes))
    assert count > MAX_MARK_BYTES


WORDS = (
    b"\x1b",
    b"]133;",
    b"D;0;",
    b"C;",
    f"hutch={KEY};".encode(),
    b"cwd=/",
    b"command=a",
    b"\\",
    b"\x07",
    b"o",
)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.lists(st.integers(0, 300), max_size=6).map(tuple))
def test_no_output_is_lost_and_only_whole_marks_count(words: list[bytes], at: tuple[int, ...]) -> None:
    data = b"".join(words)
    whole = parse(data)
    assert parse(data, at=at) == whole
    shown = b"".join(part for part in whole if isinstance(part, bytes))
    if not any(isinstance(part, Mark) for part in whole):
        assert shown == data
