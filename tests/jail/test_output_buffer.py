"""Head and tail of output, without half of a secret at the cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.redaction import Redactor
from hutch.jail.output_buffer import CONTEXT_BYTES, StreamBuffer, StreamOutput

VALUE = "Zq7vaultvalue93kxlPmw0TtRest"
SPACED = "my spaced vault value of words"
ENDS = 60  # characters: the first or last line of a key, and more
KEY = "-----BEGIN PRIVATE KEY-----\n" + "QUJDREVGR0hJSktMTU5P\n" * 40 + "-----END PRIVATE KEY-----\n"
REDACTOR = Redactor([VALUE, SPACED])


def buffer(chunks: list[bytes], max_bytes: int) -> StreamOutput:
    stream = StreamBuffer(max_bytes)
    for chunk in chunks:
        stream.add(chunk)
    return stream.output()


def clean(data: bytes) -> str:
    return REDACTOR.redact(data.decode(errors="replace"))


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_head_and_tail_are_the_ends_of_the_output(chunks: list[bytes], max_bytes: int) -> None:
    whole, half = b"".join(chunks), (max_bytes + 1) // 2
    output = buffer(chunks, max_bytes)
    assert output.total_bytes == len(whole)
    if len(whole) <= 2 * half:
        assert output == StreamOutput(whole)
    else:
        left_out = len(whole) - 2 * half
        assert bytes(output) == whole[:half] + b"\n[... %d bytes omitted ...]\n" % left_out + whole[-half:]


@pytest.mark.parametrize("more", [0, 1, CONTEXT_BYTES, 2 * CONTEXT_BYTES, 3 * CONTEXT_BYTES + 7])
@pytest.mark.parametrize("chunk", [1000, 70_001])
def test_context_at_the_cut_is_the_omitted_output(more: int, chunk: int) -> None:
    half = 5000
    whole = bytes(range(256)) * ((2 * half + 1 + more) // 256 + 1)
    output = buffer([whole[at : at + chunk] for at in range(0, len(whole), chunk)], 2 * half)
    assert (output.head + output.after_head) == whole[: half + len(output.after_head)]
    assert (output.before_tail + output.tail) == whole[-half - len(output.before_tail) :]
    around = min(CONTEXT_BYTES, len(whole) - half)
    assert (len(output.after_head), len(output.before_tail)) == (around, around)


def cuts(secret: str, step: int) -> list[int]:
    """Every place in a secret, but of a long one, whose lines are equal, only each `step`th in the middle."""
    if len(secret) < 3 * ENDS:
        return list(range(len(secret)))
    return [*range(ENDS), *range(ENDS, len(secret) - ENDS, step), *range(len(secret) - ENDS, len(secret))]


# 17 has no divisor in common with the 21 characters of a line, so each of its columns is met.
@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "secret", [VALUE, f"{SPACED} ", f"sk-ant-{'K3y' * 12} ", KEY, f"\x1b[1m{VALUE[:9]}\r{VALUE[9:]}"]
)
def test_no_part_of_a_secret_is_visible_wherever_output_is_cut(secret: str, step: int) -> None:
    whole = (secret * (400_000 // len(secret))).encode()
    for half in (2000 + at for at in cuts(secret, step)):
        shown = buffer([whole], 2 * half).render(clean)
        head, note, tail = shown.partition(f"\n[... {len(whole) - 2 * half} bytes omitted ...]\n")
        assert note, half
        rest = (head + tail).replace("[redacted:secret]", "").replace("[redacted:anthropic_key]", "")
        rest = rest.replace("[redacted:private_key]", "")
        assert set(rest) <= {" ", "\n", "\x1b", "[", "1", "m"}, (half, rest[:200])


def test_a_line_that_only_looks_like_a_cut_changes_nothing() -> None:
    whole = (f"\n[... 5 bytes omitted ...]\n{VALUE * 20_000}").encode()
    for half in range(2000, 2000 + len(VALUE)):
        shown = buffer([whole], 2 * half).render(clean)
        assert shown.startswith("\n[... 5 bytes omitted ...]\n[redacted:secret]")
        for part in (VALUE[at : at + 4] for at in range(len(VALUE) - 3)):
            assert part not in shown


def test_an_output_can_be_cut_again() -> None:
    whole = (VALUE * 20_000).encode()
    for most, less in itertools.product((300_000, 10_000_000), range(4000, 4000 + 2 * len(VALUE), 2)):
        output = buffer([whole], most).shortened(less)
        assert (output.total_bytes, len(output)) == (len(whole), less)
        shown = output.render(clean).replace("[redacted:secret]", "")
        assert shown == f"\n[... {len(whole) - less} bytes omitted ...]\n"


def test_unfinished_output_ends_before_the_beginning_of_a_secret() -> None:
    def clean_running(data: bytes) -> str:
        return REDACTOR.redact(REDACTOR.drop_partial_secret(data.decode(errors="replace")))

    output = buffer([f"words {VALUE[:9]}".encode()], 1000)
    assert output.render(clean, clean_end=clean_running) == "words "
