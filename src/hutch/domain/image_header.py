"""The format and size of an image, read from its header alone.

Nothing is decoded: a few bytes of PNG can unpack to gigabytes. Providers decode what they are sent, so an
image that claims more pixels than they accept is refused here.
"""

import struct

from hutch.system.lazy_dataclass import dataclass

MAX_SIDE = 8000  # pixels, as providers accept them
MAX_PIXELS = 40_000_000
MAX_JPEG_SEGMENTS = 1000
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # JPEG segments with the size
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # JPEG markers without a length


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """The format and size that an image claims."""

    media_type: str
    width: int
    height: int

    @property
    def fits(self) -> bool:
        """True if providers accept so many pixels."""
        sides = 0 < self.width <= MAX_SIDE and 0 < self.height <= MAX_SIDE
        return sides and self.width * self.height <= MAX_PIXELS


def read_image_header(data: bytes) -> ImageHeader | None:
    """The header of a PNG, JPEG, GIF or WebP; None if it is something else, or broken."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return ImageHeader("image/png", *struct.unpack(">II", data[16:24]))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return ImageHeader("image/gif", *struct.unpack("<HH", data[6:10]))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
    except (struct.error, IndexError):
        return None
    return None


def _webp(data: bytes) -> ImageHeader | None:
    match data[12:16]:
        case b"VP8X" if len(data) >= 30:
            width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        case b"VP8L" if len(data) >= 25 and data[20] == 0x2F:
            bits = int.from_bytes(data[21:25], "little")
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = (side & 0x3FFF for side in struct.unpack("<HH", data[26:30]))
        case _:
            return None
    return ImageHeader("image/webp", width, height)


def _jpeg(data: bytes) -> ImageHeader | None:
    at = 2
    for _ in range(MAX_JPEG_SEGMENTS):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return ImageHeader("image/jpeg", width, height)
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _ALONE:
            at += 2
        else:
            at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None
