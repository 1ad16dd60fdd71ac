"""Runs inside the jail: Python's own unittest, with its results as JUnit XML in the file named by argv.

Standard library only, any Python 3.8 or newer; fed to `python3 -c` as text.
"""

import os
import re
import sys
import traceback
import unittest
from typing import Any, List  # noqa: UP035 (the repository's Python may be an old one)
from xml.sax.saxutils import escape, quoteattr

CASES: List[str] = []  # noqa: UP006


def clean(text: str) -> str:
    # First: without its ESC the rest of a colour code would remain as text.
    text = re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", text)
    return "".join(char for char in text if char >= " " or char in "\n\t")


def note(test: Any, inner: str = "") -> None:
    owner, _, name = test.id().rpartition(".")
    CASES.append(f"<testcase classname={quoteattr(owner)} name={quoteattr(clean(name))}>{inner}</testcase>")


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
        note(test, "<skipped/>")

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


def main() -> None:
    path, arguments = sys.argv[1], sys.argv[2:]
    runner = unittest.TextTestRunner(resultclass=Result)  # type: ignore[arg-type]
    program = unittest.main(module=None, argv=["unittest", *arguments], testRunner=runner, exit=False)
    with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        file.write(f"<testsuite>{''.join(CASES)}</testsuite>")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    sys.path.insert(0, "")
    main()
