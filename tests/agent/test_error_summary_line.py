"""The one line that says why tests did not run."""

import pytest

from hutch.agent.repository_testing.error_summary_line import LINE_CHARS, error_line
from hutch.agent.repository_testing.test_results import NO_PYTEST, NOT_THERE, Counts, Failure, Report


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("\n/usr/bin/python3: No module named pytest\n", "/usr/bin/python3: No module named pytest"),
        (
            "pytest -q\nmake: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n",
            "make: pytest: No such file or directory",
        ),
        ("/bin/bash: line 1: jest: command not found\n", "/bin/bash: line 1: jest: command not found"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 1\nImportError: no yaml here\n',
            "ImportError: no yaml here",
        ),
        ("one\ntwo.\n\n", "two"),
        ("x" * 1000, "x" * (LINE_CHARS - 1) + "…"),
    ],
)
def test_the_line_that_describes_the_error(output: str, line: str) -> None:
    assert error_line(output) == line


def report(**fields: object) -> Report:
    return Report(**{"runner": "r", "command": "c", "counts": None, "exit_code": 1, **fields})  # type: ignore[arg-type]


def test_without_counts_a_reason_has_a_remedy() -> None:
    missing = report(output="/usr/bin/python3: No module named pytest", always_counts=True)
    assert missing.reason == (
        "The tests failed with exit code 1: /usr/bin/python3: No module named pytest. " + NO_PYTEST
    )
    unknown = report(output="/bin/bash: line 1: jest: command not found", exit_code=127)
    assert unknown.reason.endswith(f"jest: command not found. {NOT_THERE}")
    assert report().reason == "The tests failed with exit code 1."
    assert "took too long" in report(timed_out=True, output="error").reason
    failed = Counts(failed=1, failures=(Failure("test_x", "no"),))
    assert report(counts=failed, output="error").reason == report(exit_code=0).reason == ""
    assert missing.data()["reason"] == missing.reason
