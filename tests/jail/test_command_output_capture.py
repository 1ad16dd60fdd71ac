"""Head and tail of output in memory, and all of it in a file."""

from pathlib import Path

from hutch.jail.command_output_capture import Capture, OutputFiles


def test_the_file_has_both_streams_in_order_and_an_end(tmp_path: Path) -> None:
    capture = Capture(max_bytes=10, file_bytes=20, files=OutputFiles(lambda: tmp_path, 100))
    capture.add("stdout", b"12345")
    capture.add("stderr", b"e!")
    assert capture.path is None
    capture.add("stdout", b"678901")
    capture.add("stderr", b"more and more and more")
    capture.close()
    assert capture.path == tmp_path / "output-1"
    assert capture.path.read_bytes() == b"12345e!678901more and more"[:20]
    assert capture.cut


def test_output_that_fits_needs_no_file(tmp_path: Path) -> None:
    capture = Capture(max_bytes=10, file_bytes=20, files=OutputFiles(lambda: tmp_path, 100))
    capture.add("stdout", b"1234567890")
    capture.close()
    assert capture.path is None
    assert list(tmp_path.iterdir()) == []
