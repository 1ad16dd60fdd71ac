"""Bytes become text that encodes to the same bytes, or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest
from hutch.edit.encoding_detection import decode

FRENCH = "# Le café est très agréable\nx = 'été'\n"
RUSSIAN = "# Привет, мир! Это проверка\nx = 'да'\n"


@pytest.mark.parametrize(
    ("data", "encoding", "content"),
    [
        (b"", "utf-8", ""),
        ("naïve ✅\n".encode(), "utf-8", "naïve ✅\n"),
        ("é\n".encode("utf-8-sig"), "utf-8", "é\n"),
        ("a\r\nб\n".encode("utf-16"), "utf-16-le", "a\r\nб\n"),
        (b"\xfe\xff" + "aб\n".encode("utf-16-be"), "utf-16-be", "aб\n"),
        ("plain text\n".encode("utf-16-le"), "utf-16-le", "plain text\n"),
        ("Привет, мир\n".encode("utf-16-be"), "utf-16-be", "Привет, мир\n"),
        ("a\n".encode("utf-32"), "utf-32-le", "a\n"),
        (FRENCH.encode("latin-1"), "latin-1", FRENCH),
        ("x = 'é'\n".encode("latin-1"), "latin-1", "x = 'é'\n"),
        ("“naïve” – ok\n".encode("cp1252"), "cp1252", "“naïve” – ok\n"),
        (RUSSIAN.encode("cp1251"), "cp1251", RUSSIAN),
        ("да\n".encode("cp1251"), "cp1251", "да\n"),
        (RUSSIAN.encode("koi8-r"), "koi8-r", RUSSIAN),
        ("こんにちは世界。これはテスト\n".encode("shift_jis"), "shift_jis", "こんにちは世界。これはテスト\n"),
        ("你好世界,这是一个测试\n".encode("gb18030"), "gb18030", "你好世界,这是一个测试\n"),
        ((RUSSIAN * 30_000).encode("cp1251"), "cp1251", RUSSIAN * 30_000),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_encodings_are_recognised_and_written_back(data: bytes, encoding: str, content: str) -> None:
    text = decode(data)
    assert (text.encoding, text.content) == (encoding, content)
    assert text.encode(text.content) == data


def test_a_stray_byte_does_not_change_the_encoding() -> None:
    data = "Füße, naïve, été, über\n".encode() + b"bad: \xff\n"
    text = decode(data)
    assert text.encoding == "utf-8"
    assert text.content.startswith("Füße")
    assert text.encode(text.content.replace("Füße", "feet")) == data.replace("Füße".encode(), b"feet")


def test_text_that_should_be_in_the_file_decides() -> None:
    polish = "Zażółć gęślą jaźń\n"
    assert decode(polish.encode("cp1250"), ["gęślą"]).content == polish


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"a\0b",
        b"\x7fELF\x02\x01\x01\0",
        b"\xff\xfe\x00\xd8",  # half a surrogate pair
        b"\x01\x02\x03\xff\xfe\xfd",
        bytes(range(256)) * 4,
    ],
)
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest, match="binary"):
        decode(data)


@given(st.binary(max_size=300))
def test_decoded_text_is_encoded_to_the_same_bytes(data: bytes) -> None:
    try:
        text = decode(data)
    except BadRequest:
        return
    assert text.encode(text.content) == data
