"""Runs inside the jail: Python's own unittest, with its results as JUnit XML in the file named by argv.

Standard library only, any Python 3.8 or newer; fed to `python3 -c` as text.
"""

import inspect
import os
import re
import sys
import time
import traceback
import unittest
from typing import Any, Dict, List  # noqa: UP035 (the repository's Python may be an old one)
from xml.sax.saxutils import escape, quoteattr

CASES: List[str] = []  # noqa: UP006
BEGAN: Dict[str, float] = {}  # noqa: UP006


def clean(text: str) -> str:
    # First: without its ESC the rest of a colour code would remain as text.
    text = re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", text)
    return "".join(char for char in text if char >= " " or char in "\n\t")


def place(test: Any) -> str:
    """The attributes that say where a test is, as far as Python knows."""
    method = getattr(type(test), getattr(test, "_testMethodName", ""), None)
    code = getattr(inspect.unwrap(method), "__code__", None) if method is not None else None
    if code is None:
        return ""
    file = os.path.relpath(code.co_filename)
    return (
        ""
        if file.startswith("..")
        else f" file={quoteattr(clean(file))} line={quoteattr(str(code.co_firstlineno))}"
    )


def note(test: Any, inner: str = "") -> None:
    owner, _, name = test.id().rpartition(".")
    took = time.perf_counter() - BEGAN.pop(test.id(), time.perf_counter())
    about = f"classname={quoteattr(owner)} name={quoteattr(clean(name))} time={quoteattr(f'{took:.6f}')}"
    CASES.append(f"<testcase {about}{place(test)}>{inner}</testcase>")


def bounded(message: str) -> str:
    """The message, or its first words: Hutch would not recognise half of a secret at a cut."""
    if len(message) <= 100_000:
        return message
    return f"{message[:2000].rpartition(' ')[0]} ... ({len(message):,} characters in all)"


def fault(test: Any, error: Any, kind: str) -> None:
    """Note a failure with its traceback, without the frames of unittest itself."""
    ends = traceback.format_exception_only(error[0], error[1])
    steps = traceback.extract_tb(error[2])
    frames = [step for step in steps if os.path.basename(os.path.dirname(step[0])) != "unittest"]  # noqa: PTH119, PTH120
    message = quoteattr(bounded(clean("".join(ends))))
    text = escape(clean("".join(traceback.format_list(frames))))
    note(test, f"<{kind} message={message}>{text}</{kind}>")


class Result(unittest.TextTestResult):
    def startTest(self, test: Any) -> None:
        BEGAN[test.id()] = time.perf_counter()
        super().startTest(test)

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        note(test)

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        fault(test, err, "failure")

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        fault(test, err, "error")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        note(test, f"<skipped message={quoteattr(bounded(clean(str(reason))))}/>")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        super().addExpectedFailure(test, err)
        note(test)

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        note(test, '<failure message="it was expected to fail, and passed"/>')

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            fault(subtest, err, "failure")


def flatten(suite: Any) -> Any:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from flatten(each)
        else:
            yield each


def is_below(name: str, above: str) -> bool:
    return name == above or name.startswith(f"{above}.")


def source(test: Any) -> str:
    """The file of a test, from here."""
    file = getattr(sys.modules.get(type(test).__module__), "__file__", None)
    return os.path.relpath(file) if file else ""


def select(tests: List[Any], names: List[str], files: List[str]) -> List[Any]:  # noqa: UP006
    """The tests with these names, or in these classes, modules, files and directories. A part of a name
    counts only if no test has the whole one. A module that cannot be imported is one failing test."""
    chosen = set()
    ids = [test.id() for test in tests]
    broken = [each.partition("._FailedTest.")[2] for each in ids]
    for name in names:
        found = {at for at, each in enumerate(ids) if is_below(each, name)}
        found |= {at for at, each in enumerate(broken) if each and is_below(name, each)}
        chosen |= found or {at for at, each in enumerate(ids) if each.endswith(f".{name}")}
    for file in map(os.path.normpath, files):
        for at, test in enumerate(tests):
            failed = broken[at].replace(".", "/") + ".py" if broken[at] else ""
            own = source(test)
            is_there = own == file or own.startswith(f"{file}/")
            if is_there or (failed and (file == failed or file.endswith(f"/{failed}"))):
                chosen.add(at)
    return [tests[at] for at in sorted(chosen)]


class Program(unittest.TestProgram):
    names: List[str] = []  # noqa: UP006, RUF012
    files: List[str] = []  # noqa: UP006, RUF012

    test: Any

    def runTests(self) -> None:
        if self.names or self.files:
            self.test = unittest.TestSuite(select(list(flatten(self.test)), self.names, self.files))
        super().runTests()


def main() -> None:
    path, arguments = sys.argv[1], sys.argv[2:]
    for option, values in (("--only-test=", Program.names), ("--only-file=", Program.files)):
        values += [each[len(option) :] for each in arguments if each.startswith(option)]
    arguments = [each for each in arguments if not each.startswith("--only-")]
    runner = unittest.TextTestRunner(resultclass=Result)  # type: ignore[arg-type]
    try:
        program = Program(module=None, argv=["unittest", *arguments], testRunner=runner, exit=False)
    finally:  # also after an interrupt
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            file.write(f"<testsuite>{''.join(CASES)}</testsuite>")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    sys.path.insert(0, "")
    main()
