"""Headers of images: what they claim, without decoding anything."""

import struct

import pytest

from hutch.domain.image_header import ImageHeader, read_image_header


def png(width: int, height: int, rest: bytes = b"") -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + rest


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\0" * 10 + b"\xff\xff\xfe\x00\x04ab"
    b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 20, 30)
)


@pytest.mark.parametrize(
    ("data", "header"),
    [
        (png(640, 480), ImageHeader("image/png", 640, 480)),
        (JPEG, ImageHeader("image/jpeg", 30, 20)),
        (b"GIF89a" + struct.pack("<HH", 3, 4), ImageHeader("image/gif", 3, 4)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x09\0\0\x13\0\0", ImageHeader("image/webp", 10, 20)),
        (
            b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (9 | 19 << 14).to_bytes(4, "little"),
            ImageHeader("image/webp", 10, 20),
        ),
        (
            b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 10, 20),
            ImageHeader("image/webp", 10, 20),
        ),
    ],
)
def test_the_size_is_read_from_the_header(data: bytes, header: ImageHeader) -> None:
    assert read_image_header(data) == header and header.fits
    assert [end for end in range(len(data)) if read_image_header(data[:end])] == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xe0\xff\xff",
        b"\xff\xd8" + b"\xff" * 5000,
        b"RIFF1234WEBPxxxx",
        b"BM",
    ],
)
def test_other_data_has_no_header(data: bytes) -> None:
    assert read_image_header(data) is None


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (8001, 5), (5, 8001), (2**32 - 1, 2**32 - 1), (7000, 7000)])
def test_an_image_of_too_many_pixels_does_not_fit(size: tuple[int, int]) -> None:
    header = read_image_header(png(*size))
    assert header is not None and not header.fits
