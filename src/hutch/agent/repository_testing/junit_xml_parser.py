"""JUnit XML, read as a stream.

The file was written inside the jail and is hostile. It is never a tree in memory:
elements are counted as they come. Input that no runner writes and that would cost
much time or memory is refused: a document type, deeply nested elements, thousands
of element names, and a tag or text of more than a few MiB.
"""

from dataclasses import field
from xml.parsers import expat

from hutch.agent.repository_testing.failed_test_message import MAX_CHARS, failure, in_one_line
from hutch.agent.repository_testing.parsed_result_tally import Tally, parsed_line, parsed_number
from hutch.agent.repository_testing.test_results import Counts, Failure, UnreadableReport
from hutch.domain.test_run_events import Outcome
from hutch.system.lazy_dataclass import dataclass

FAULTS = ("failure", "error")
OUTPUTS = ("system-out", "system-err")
SUITES = ("testsuite", "testsuites")
MAX_CLAIMED = 10**9
CHUNK_BYTES = 1 << 16
MAX_DEPTH = 200
MAX_NAMES = 1000
MAX_TOKEN_BYTES = 4 * 1024 * 1024  # the parser rescans an unfinished token with every chunk


@dataclass(slots=True)
class _Case:
    attributes: dict[str, str]
    fault: dict[str, str] | None = None
    skipped: bool = False
    skip_reason: str = ""
    text: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)  # what it printed, where the fault has no text
    characters: int = 0


def junit(data: bytes) -> Counts | None:
    """Counts of `<testcase>` elements; None if it cannot be read. Of the totals that the file claims, only
    failures count that it does not list: then it proves nothing."""
    return _read_or_none(data, _Reader())


def pytest_junit(data: bytes) -> Counts | None:
    """The same as pytest writes it with `junit_family=xunit1`: lines count from 0, tests have node ids."""
    return _read_or_none(data, _Reader(is_pytest=True))


def explain_unreadable(data: bytes) -> str:
    """Why a file cannot be read, as a clause; empty if it can."""
    try:
        _read(data, _Reader())
    except UnreadableReport as error:
        return str(error)
    return ""


def _read_or_none(data: bytes, reader: "_Reader") -> Counts | None:
    try:
        return _read(data, reader)
    except UnreadableReport:
        return None


def _read(data: bytes, reader: "_Reader") -> Counts:
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
                raise UnreadableReport("a tag or text in it is longer than 4 MiB")
        parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise UnreadableReport(f"it is not valid XML ({in_one_line(str(error))})") from None
    return reader.counts()


class _Reader:
    def __init__(self, *, is_pytest: bool = False) -> None:
        self.tally = Tally()
        self._is_pytest = is_pytest
        self._case: _Case | None = None
        self._in_fault = self._in_output = self._in_skip = False
        self._depth = 0
        self._claimed = 0  # failures of one suite
        self._names: set[str] = set()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._names.add(name)
        if self._depth > MAX_DEPTH or len(self._names) > MAX_NAMES:
            raise UnreadableReport("its elements are nested too deep, or have too many names")
        if name in SUITES:
            claimed = sum(parsed_number(attributes.get(each, 0)) for each in ("failures", "errors"))
            self._claimed = max(self._claimed, min(int(claimed) if claimed > 0 else 0, MAX_CLAIMED))
        if name == "testcase":
            self._case = _Case(attributes)
        elif self._case is None:
            return
        elif name in FAULTS and self._case.fault is None:
            self._case.fault, self._in_fault = attributes, True
        elif name == "skipped":
            self._case.skipped, self._in_skip = True, True
            self._case.skip_reason = attributes.get("message", "")
        self._in_output = name in OUTPUTS

    def characters(self, text: str) -> None:
        case = self._case
        if case is not None and self._in_skip and len(case.skip_reason) < MAX_CHARS:
            case.skip_reason += text
        elif case is not None and (self._in_fault or self._in_output) and case.characters < 4 * MAX_CHARS:
            (case.text if self._in_fault else case.output).append(text)
            case.characters += len(text)

    def end(self, name: str) -> None:
        self._depth -= 1
        if name in FAULTS:
            self._in_fault = False
        if name in OUTPUTS:
            self._in_output = False
        if name == "skipped":
            self._in_skip = False
        if name == "testcase" and self._case is not None:
            case, self._case = self._case, None
            self._count(case)

    def _count(self, case: _Case) -> None:
        about = case.attributes
        # ctest reports disabled tests, and some runners errors, only as an attribute.
        is_skipped = case.skipped or about.get("status") in ("disabled", "notrun", "skipped")
        outcome: Outcome = "failed" if case.fault is not None else "skipped" if is_skipped else "passed"
        file, line = about.get("file", ""), parsed_line(about.get("line", ""))
        if self._is_pytest and file:
            line += 1
        self.tally.add(
            outcome,
            _name(about),
            duration_s=parsed_number(about.get("time", 0)),
            file=file,
            line=line,
            selector=_node_id(about, file) if self._is_pytest else "",
            reason=case.skip_reason,
            describe=lambda: _failure(case, case.fault or {}, f"{file}:{line}" if file and line else file),
        )

    def refuse(self, *_: object) -> None:
        raise UnreadableReport("it declares a document type")

    def counts(self) -> Counts:
        if self._claimed and not self.tally.failed:
            self.tally.problem = f"the report claims {self._claimed:,} failures and lists none"
        return self.tally.counts()


def _name(about: dict[str, str]) -> str:
    owner, name = about.get("classname", ""), about.get("name", "?")
    return f"{owner}.{name}" if owner and owner != name else name


def _failure(case: _Case, fault: dict[str, str], location: str) -> Failure:
    text, message = "".join(case.text), fault.get("message", "")
    if not (text.strip() or message.strip()):  # ctest has only what the test printed
        text = "".join(case.output)
    return failure(_name(case.attributes), text, message=message, location=location)


def _node_id(about: dict[str, str], file: str) -> str:
    """The id with which pytest runs a test: `tests/test_a.py::TestAdd::test_zero`."""
    if not file:
        return ""
    module = file.removesuffix(".py").replace("/", ".")
    owner = about.get("classname", "")
    classes = owner[len(module) + 1 :].split(".") if owner.startswith(f"{module}.") else []
    return "::".join([file, *classes, about.get("name", "")])
