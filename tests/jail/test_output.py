"""The head and the tail of what was printed, and the whole beside it."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hutch.jail.output import Capture, Kept
from hutch.jail.output_files import OutputFiles


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_head_and_tail_are_the_ends_of_what_came(chunks: list[bytes], most_bytes: int) -> None:
    kept = Kept(most_bytes)
    for chunk in chunks:
        kept.add(chunk)
    whole, half = b"".join(chunks), (most_bytes + 1) // 2
    if len(whole) <= 2 * half:
        assert kept.text() == whole
    else:
        left_out = len(whole) - 2 * half
        assert kept.text() == whole[:half] + b"\n[... %d bytes left out ...]\n" % left_out + whole[-half:]


def test_the_file_has_both_streams_in_order_and_an_end(tmp_path: Path) -> None:
    capture = Capture(most_bytes=10, file_bytes=20, files=OutputFiles(lambda: tmp_path, 100))
    capture.add("stdout", b"12345")
    capture.add("stderr", b"e!")
    assert capture.path is None
    capture.add("stdout", b"678901")
    capture.add("stderr", b"more and more and more")
    capture.close()
    assert capture.path == tmp_path / "output-1"
    assert capture.path.read_bytes() == b"12345e!678901more and more"[:20]
    assert capture.cut


def test_what_fits_needs_no_file(tmp_path: Path) -> None:
    capture = Capture(most_bytes=10, file_bytes=20, files=OutputFiles(lambda: tmp_path, 100))
    capture.add("stdout", b"1234567890")
    capture.close()
    assert capture.path is None
    assert list(tmp_path.iterdir()) == []
