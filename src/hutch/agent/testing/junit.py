"""JUnit XML, read as a stream.

The file was written inside the jail and is hostile. It is never a tree in memory:
elements are counted as they come. Input that no runner writes and that would cost
much time or memory is refused: a document type, deeply nested elements, thousands
of element names, and a tag or text of more than a few MiB.
"""

from dataclasses import dataclass, field
from xml.parsers import expat

from hutch.agent.testing.failure_message import MAX_CHARS, failure
from hutch.agent.testing.report import Counts, Failure
from hutch.agent.testing.tally import Tally

FAULTS = ("failure", "error")
CHUNK_BYTES = 1 << 16
MAX_DEPTH = 200
MAX_NAMES = 1000
MAX_TOKEN_BYTES = 4 * 1024 * 1024  # the parser rescans an unfinished token with every chunk


class _NotARunnersFile(Exception):
    """It declares a document type, or is nested too deep, or has too many element names."""


@dataclass(slots=True)
class _Case:
    attributes: dict[str, str]
    fault: dict[str, str] | None = None
    skipped: bool = False
    text: list[str] = field(default_factory=list)
    characters: int = 0


def junit(data: bytes) -> Counts | None:
    """Counts of `<testcase>` elements; the totals that the file claims are ignored."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.refuse
    try:
        for at in range(0, len(data), CHUNK_BYTES):
            parser.Parse(data[at : at + CHUNK_BYTES], False)
            if at - parser.CurrentByteIndex > MAX_TOKEN_BYTES:
                return None
        parser.Parse(b"", True)
    except (expat.ExpatError, _NotARunnersFile, LookupError, ValueError):
        return None
    return reader.tally.counts()


class _Reader:
    def __init__(self) -> None:
        self.tally = Tally()
        self._case: _Case | None = None
        self._in_fault = False
        self._depth = 0
        self._names: set[str] = set()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._names.add(name)
        if self._depth > MAX_DEPTH or len(self._names) > MAX_NAMES:
            raise _NotARunnersFile
        if name == "testcase":
            self._case = _Case(attributes)
        elif self._case is None:
            return
        elif name in FAULTS and self._case.fault is None:
            self._case.fault, self._in_fault = attributes, True
        elif name == "skipped":
            self._case.skipped = True

    def characters(self, text: str) -> None:
        if self._case is not None and self._in_fault and self._case.characters < 4 * MAX_CHARS:
            self._case.text.append(text)
            self._case.characters += len(text)

    def end(self, name: str) -> None:
        self._depth -= 1
        if name in FAULTS:
            self._in_fault = False
        if name != "testcase" or self._case is None:
            return
        case, self._case = self._case, None
        if case.fault is not None:
            self.tally.fail(lambda: _failure(case, case.fault or {}))
        elif case.skipped:
            self.tally.skipped += 1
        else:
            self.tally.passed += 1

    def refuse(self, *_: object) -> None:
        raise _NotARunnersFile


def _failure(case: _Case, fault: dict[str, str]) -> Failure:
    owner, name = case.attributes.get("classname", ""), case.attributes.get("name", "?")
    file, line = case.attributes.get("file"), case.attributes.get("line")
    return failure(
        f"{owner}.{name}" if owner else name,
        "".join(case.text),
        message=fault.get("message", ""),
        location=f"{file}:{line}" if file and line else "",
    )
