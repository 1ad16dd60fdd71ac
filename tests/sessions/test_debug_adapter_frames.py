"""Frames from a debug adapter that is hostile."""

import pytest

from hutch.domain.redaction import Redactor
from hutch.sessions.debugging.debug_adapter_frames import (
    BURST_BYTES,
    MAX_FRAME_BYTES,
    BadFrame,
    FrameReader,
    Throttle,
    encode_frame,
)
from hutch.sessions.debugging.debug_adapter_values import MAX_VALUE_CHARS, ValueReader

WORKSPACE = "/workspace"


def test_frames_are_read_in_any_pieces() -> None:
    sent = [{"seq": 1, "text": 'ä]}\\"'}, {"seq": 2}]
    data = b"".join(map(encode_frame, sent))
    reader = FrameReader()
    assert [frame for byte in data for frame in reader.feed(bytes([byte]))] == sent


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: %d\r\n\r\n" % (MAX_FRAME_BYTES + 1),
        b"Content-Length: -1\r\n\r\n",
        b"x" * 300,
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 2\r\n\r\n{]",
        b"Content-Length: 20000\r\n\r\n" + b"[" * 20000,
        b"Content-Length: 200001\r\n\r\n[" + b"0," * 100000,
    ],
    ids=["large", "negative", "endless header", "no object", "no JSON", "deep", "many"],
)
def test_bad_frames_are_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().feed(data))


def test_a_flood_is_slowed_down() -> None:
    throttle = Throttle()
    assert throttle.delay_s(1000, 1) == 0
    assert throttle.delay_s(BURST_BYTES, 1) > 0


def test_values_are_mapped_cut_and_redacted() -> None:
    values = ValueReader(Redactor(["s3cr3t-value-42"]), WORKSPACE)
    paths = ["/workspace/a/b.py", "/workspace/../etc/passwd", "/etc/passwd", "/workspacex/a", "a.py", 7, None]
    found = [values.path({"path": path, "name": "n"}) for path in paths]
    assert found[0] == ("a/b.py", "")
    assert [path for path, _ in found[1:]] == [""] * 6
    body = {"variables": [{"name": "k\x1b", "value": "x s3cr3t-value-42", "variablesReference": -1}, 3, None]}
    (shown,) = values.variables(body, "variables")
    assert "s3cr3t" not in shown.value and shown.name == "k\\x1b" and shown.reference == 0
    assert len(values.lines("y" * 100_000)) == MAX_VALUE_CHARS
