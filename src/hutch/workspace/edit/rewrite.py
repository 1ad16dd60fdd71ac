"""A whole new text for a file, in the form that the file has.

Models write LF and no byte order mark, whatever they have read. So a file that
is written anew keeps its mark, the encoding that the mark declares, and CRLF if
all of its lines end so. A text with a CR of its own is taken as it is given.
"""

import codecs

from hutch.workspace.edit.encoding import BOMS
from hutch.workspace.edit.text import BOM


def rewritten(beginning: bytes, content: str) -> tuple[bytes, str]:
    """`content` as bytes for a file that begins like this, and a sentence about what was kept."""
    bom, encoding, text = _read(beginning)
    kept = []
    if bom:
        content = content.removeprefix(BOM)
        kept.append("its byte order mark")
    if "\n" in content and "\r" not in content and _all_crlf(text):
        content = content.replace("\n", "\r\n")
        kept.append("its CRLF line ends")
    data = bom + content.encode(encoding, "surrogateescape")
    return data, f" The file keeps {' and '.join(kept)}." if kept else ""


def _read(beginning: bytes) -> tuple[bytes, str, str]:
    """Mark, encoding and text; without a mark, what a file is written in and its bytes as characters."""
    for bom, encoding in BOMS:
        if beginning.startswith(bom):
            try:  # the end may be cut inside of a character
                text = codecs.getincrementaldecoder(encoding)().decode(beginning[len(bom) :])
            except UnicodeDecodeError:
                continue
            return bom, encoding, text
    return b"", "utf-8", beginning.decode("latin-1")


def _all_crlf(text: str) -> bool:
    pairs = text.count("\r\n")
    return pairs > 0 and text.count("\n") == pairs == text.removesuffix("\r").count("\r")
