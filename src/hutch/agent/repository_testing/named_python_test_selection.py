"""Selects single tests of Python's runners, exactly: by their names in results, or by file."""

import re
from collections.abc import Sequence

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.system.lazy_dataclass import dataclass

# A name as results have it: modules up to the first one that is named like a test file, and what is in it.
DOTTED = re.compile(
    r"(?P<file>(?:\w+\.)*?(?:test_\w+|\w+_test))\.(?P<rest>\w+(?:\.\w+)*)(?P<parameters>\[.*\])?"
)


@dataclass(frozen=True, slots=True)
class KnownCase:
    """A test of an earlier run."""

    suite: str
    name: str
    file: str = ""
    selector: str = ""

    @property
    def id(self) -> str:
        return self.selector or self.name


def select_pytest(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    found = [_node_id(name) for name in [*(case.id for case in cases), *named]]
    ids = [id for id in found if "::" in id]
    words = [id.rpartition(".")[2] for id in found if "::" not in id]
    for word in words:
        if not re.fullmatch(r"[\w.\[\]-]+", word):
            raise BadRequest(f"{echo(word)} is no name for pytest. Use `file.py::name`.")
    return [*files, *ids, *(["-k", " or ".join(words)] if words else [])]


def _node_id(name: str) -> str:
    """The id of `tests.test_add.TestAdd.test_zero` for pytest; the name itself if it names no file."""
    found = DOTTED.fullmatch(name)
    if "::" in name or found is None:
        return name
    file, rest = found["file"].replace(".", "/"), found["rest"].replace(".", "::")
    return f"{file}.py::{rest}{found['parameters'] or ''}"


def select_unittest(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    names = [*(case.name for case in cases), *named]
    return [
        *runner.all_tests,
        *(f"--only-test={name}" for name in names),
        *(f"--only-file={file}" for file in files),
    ]
