"""Requirements files of pip, with the files that they include."""

import re
import shlex
from collections.abc import Iterable
from typing import Any

from hutch.domain.dependency_plan import SetupStep
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles, folder_of, join, within
from hutch.environment.detection.detected_install_steps import CACHE, Finding, in_folder, unique
from hutch.environment.detection.editable_install_without_build import link_command
from hutch.environment.detection.manifest_parsing import hosts_of

INCLUDED = re.compile(r"^[ \t]*(-r|--requirement|-c|--constraint)[ =]?[ \t]*(\S+)", re.M)
LOCAL = re.compile(r"^\s*(-e|--editable|\.{1,2}(/|\s|\[|$)|/|file:)")
MAX_REQUIREMENT_CHARS = 500
MAX_REQUIREMENTS = 500
MAX_FILES = 30
PREFERRED = re.compile(r"requirements([-_.]?(dev|test|tests|testing|ci|all))?\.txt")


def split_requirements(wanted: Iterable[str]) -> tuple[list[str], list[str]]:
    """The requirements that can be given to an installer, and those that cannot: local paths, options."""
    usable: list[str] = []
    refused: list[str] = []
    for each in list(wanted)[:MAX_REQUIREMENTS]:
        text = each.strip()
        is_plain = re.match(r"[A-Za-z0-9]", text) and text.isprintable() and len(text) < MAX_REQUIREMENT_CHARS
        local = re.search(r"@\s*(file:|\.|/)", text)
        (usable if is_plain and not local else refused).append(text[:100])
    return list(dict.fromkeys(usable)), refused


def requirements_finding(
    files: RepositoryFiles, folder: str, listed: list[str], document: dict[str, Any]
) -> Finding:
    """The step that installs the requirements files of a directory into `.venv`."""
    chosen = [name for name in listed if PREFERRED.fullmatch(name.rpartition("/")[2])] or listed[:1]
    not_used = [name for name in listed if name not in chosen]
    constraints: list[str] = []
    inputs = _closure(files, chosen, constraints)
    local = [
        line.strip()
        for path in inputs
        for line in files.text(path).splitlines()
        if LOCAL.match(line) and line.strip()
    ]
    python = ".venv/bin/python -m pip install"
    shown = [_relative(folder, name) for name in chosen]
    if local:
        everything = " ".join(
            shlex.quote(_relative(folder, name)) for name in inputs if name not in constraints
        )
        pattern = r"^[[:space:]]*(-e|--editable|-r|--requirement|-c|--constraint|\.|/|file:)"
        gathered = f"{CACHE}/requirements.txt"
        more = "".join(f" -c {shlex.quote(_relative(folder, name))}" for name in constraints)
        command = (
            f"python3 -m venv .venv && mkdir -p {CACHE} && "
            f"{{ grep -hvE {shlex.quote(pattern)} {everything} > {gathered} || true; }} && "
            f"{python} -r {gathered}{more}"
        )
    else:
        command = f"python3 -m venv .venv && {python} " + " ".join(
            f"-r {shlex.quote(name)}" for name in shown
        )
    source = chosen[0]
    steps = [SetupStep(in_folder(folder, command), source, "pip")]
    if link := link_command(files, folder, document, folder):
        steps.append(SetupStep(in_folder(folder, link), within(folder, "pyproject.toml")))
        inputs = [*inputs, within(folder, "pyproject.toml")]
    notes = [f"{name}: not installed; name it in environment.setup if the tests need it" for name in not_used]
    notes += [f"{source}: '{line[:100]}' is local, and not installed in the build" for line in local[:10]]
    return Finding(
        steps=tuple(steps),
        inputs=unique(inputs),
        variables={
            "PIP_CACHE_DIR": f"{CACHE}/pip",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
        },
        hosts=unique(host for path in inputs for host in hosts_of(files.text(path))),
        notes=tuple(notes),
    )


def _closure(files: RepositoryFiles, chosen: list[str], constraints: list[str]) -> list[str]:
    """The files and those that they include; constraints are collected apart."""
    found: list[str] = []
    waiting = list(chosen)
    while waiting and len(found) < MAX_FILES:
        path = waiting.pop(0)
        if path in found or path not in files:
            continue
        found.append(path)
        for option, name in INCLUDED.findall(files.text(path)):
            other = join(folder_of(path), name)
            if other is None or other not in files:
                continue
            if option in ("-c", "--constraint"):
                constraints.append(other)
            waiting.append(other)
    return found


def _relative(folder: str, path: str) -> str:
    return (
        path.removeprefix(f"{folder}/")
        if folder and path.startswith(f"{folder}/")
        else (path if not folder else "../" * (folder.count("/") + 1) + path)
    )
