"""Paths of Go's test files: `go test` prints only their names, and the package of the test."""

import re
from dataclasses import replace

from hutch.agent.repository_testing.test_results import Case, Counts, Failure

MODULE = re.compile(rb'^module[ \t]+(?:"([^"\s]{1,500})"|([^"\s]{1,500}))', re.MULTILINE)


def with_go_directories(counts: Counts, go_mod: bytes) -> Counts:
    """The results with paths from the directory of this go.mod."""
    found = MODULE.search(go_mod)
    if not found:
        return counts
    module = (found[1] or found[2]).decode(errors="replace")
    directories = {case.name: _directory(case, module) for case in counts.cases}

    def located(failure: Failure) -> Failure:
        return replace(failure, location=_below(directories.get(failure.name, ""), failure.location))

    cases = tuple(case._replace(file=_below(directories[case.name], case.file)) for case in counts.cases)
    return replace(counts, failures=tuple(map(located, counts.failures)), cases=cases)


def _directory(case: Case, module: str) -> str:
    """The directory of a test's package; empty for the module's own, and if it is unknown."""
    package = case.selector.partition(" ")[0]
    return package.removeprefix(f"{module}/") if package.startswith(f"{module}/") else ""


def _below(directory: str, path: str) -> str:
    return f"{directory}/{path}" if directory and path and "/" not in path else path
