"""The plan of an environment, from the files of a repository.

Nothing is run. The plan names every file that decides the result: the build sees these
files and no others, so that a branch cannot put anything into the environment that its
key does not cover.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan
from hutch.environment.detection import (
    go_rust_java_ruby_projects,
    node_projects,
    python_projects,
    setup_files_of_other_tools,
)
from hutch.environment.detection.bounded_repository_reader import MAX_ENTRIES, RepositoryFiles
from hutch.environment.detection.detected_install_steps import MAX_INPUTS, MAX_PROJECTS, Finding, unique
from hutch.environment.detection.requested_tool_versions import requested_tools

MAX_NOTES = 100
FINDERS = (
    python_projects.find,
    node_projects.find,
    go_rust_java_ruby_projects.find_go,
    go_rust_java_ruby_projects.find_cargo,
    go_rust_java_ruby_projects.find_maven,
    go_rust_java_ruby_projects.find_bundler,
)


def detect(root: Path) -> EnvironmentPlan:
    """The plan for a directory."""
    with RepositoryFiles.at(root) as files:
        found = list(islice(_projects(files), MAX_PROJECTS + 1))
        left_out, found = found[MAX_PROJECTS:], found[:MAX_PROJECTS]
        managers = unique(step.manager for each in found for step in each.steps if step.manager)
        found += setup_files_of_other_tools.find(files, managers)
        notes = [note for each in found for note in each.notes]
        tools = requested_tools(files)
        if left_out:
            notes.append(f"More than {MAX_PROJECTS} projects were found; name others in environment.setup")
        if not files.is_complete:
            notes.append(f"Only the first {MAX_ENTRIES} files and directories were looked at")
        inputs = unique(path for each in found for path in each.inputs)
    if len(inputs) > MAX_INPUTS:
        return EnvironmentPlan(
            tools=tools,
            notes=(f"{len(inputs)} files decide the environment; {MAX_INPUTS} is the maximum", *notes)[
                :MAX_NOTES
            ],
        )
    return EnvironmentPlan(
        steps=tuple(step for each in found for step in each.steps),
        inputs=tuple(sorted(inputs)),
        variables=_merged(each.variables for each in found),
        session_variables=_merged(each.session_variables for each in found),
        path=unique(path for each in found for path in each.path),
        hosts=unique(host for each in found for host in each.hosts),
        tools=tools,
        notes=unique(notes)[:MAX_NOTES],
    )


def _projects(files: RepositoryFiles) -> Iterator[Finding]:
    for find in FINDERS:
        yield from find(files)


def _merged(tables: Iterator[Mapping[str, str]]) -> dict[str, str]:
    """All variables; the first finding that sets one decides, which is that of the root."""
    merged: dict[str, str] = {}
    for table in tables:
        merged = {**table, **merged}
    return dict(sorted(merged.items()))
