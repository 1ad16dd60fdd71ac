"""Reads cases from a file: a list in YAML or JSON, or lines of JSON in the format of SWE-bench."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, NotFound
from hutch.edit.atomic_apply import read_operations
from hutch.flows.evaluation.case_definition import EvalCase

MAX_BYTES = 256 * 1024 * 1024
BUILTIN = "builtin"
BUILTIN_FILE = Path(__file__).with_name("builtin.yaml")
REPOS = "https://github.com/{repo}"


def load_cases(path: Path, *, repos: str = REPOS) -> list[EvalCase]:
    """The cases of a file, each validated; an error names its position."""
    if "{repo}" not in repos:
        raise BadRequest(f"'{repos}' has no place for a repository's name. Put {{repo}} there.")
    text = _text(path)
    items = _lines(text, path) if path.suffix == ".jsonl" else _listed(text, path)
    cases = [_case(item, number, path, repos) for number, item in enumerate(items, start=1)]
    if not cases:
        raise BadRequest(f"There are no tasks in {path}.")
    twice = [name for name, times in Counter(case.name for case in cases).items() if times > 1]
    if twice:
        raise BadRequest(f"{path} has more than one task named '{twice[0]}'. Give each its own name.")
    return cases


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise BadRequest(f"{path} is a directory. Name a set of tasks: a YAML, JSON or JSON Lines file.")
        if path.stat().st_size > MAX_BYTES:
            raise BadRequest(f"{path} is over {MAX_BYTES // 2**20} MiB. Split it.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}. Name a set of tasks, or '{BUILTIN}'.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}.") from None


def _lines(text: str, path: Path) -> list[Any]:
    items = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                items.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise BadRequest(f"{path} line {number} is not JSON: {error}.") from None
    return items


def _listed(text: str, path: Path) -> list[Any]:
    try:
        value = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadRequest(f"{path} cannot be read: {error}.") from None
    if isinstance(value, dict) and set(value) == {"tasks"}:
        value = value["tasks"]
    if not isinstance(value, list):
        raise BadRequest(f"{path} is not a set of tasks: write a list, or `tasks:` with a list.")
    return value


def _case(item: Any, number: int, path: Path, repos: str) -> EvalCase:
    if not isinstance(item, dict):
        raise BadRequest(f"{path}: task {number} is not an object with a name and a prompt.")
    name = item.get("name") or item.get("instance_id") or number
    try:
        fields = _from_swe_bench(item, path, repos) if "instance_id" in item else _beside(item, path)
        case = EvalCase.model_validate(fields)
        if case.test_patch:
            read_operations(case.test_patch)
    except ValidationError as error:
        first = error.errors()[0]
        problem = validation_messages.describe(first)
        at = f" at {place}" if (place := validation_messages.location(first)) else ""
        raise BadRequest(f"{path}: task {name} is wrong{at}: {problem}.") from None
    except BadRequest as error:
        raise BadRequest(f"{path}: task {name} is wrong: {error}") from None
    return case


def _beside(item: dict[str, Any], path: Path) -> dict[str, Any]:
    """Paths in a file of cases are relative to that file."""
    found = dict(item)
    if isinstance(found.get("cassette"), str):
        found["cassette"] = str(path.parent.resolve() / found["cassette"])
    if isinstance(found.get("repo"), str):
        found["repo"] = _local(found["repo"], path) or found["repo"]
    return found


def _from_swe_bench(item: dict[str, Any], path: Path, repos: str) -> dict[str, Any]:
    """Take only the required fields; above all not `patch`, which is the solution, nor `hints_text`."""
    repo = str(item.get("repo", ""))
    if not (local := _local(repo, path)) and "://" not in repo:
        repo = repos.replace("{repo}", repo)
    own = ("test_command", "test_timeout_s", "limits", "persona", "model", "cassette")
    more = _beside({key: item[key] for key in own if key in item}, path)
    return {
        "name": item["instance_id"],
        "prompt": item.get("problem_statement", ""),
        "repo": local or repo,
        "revision": item.get("base_commit"),
        "test_patch": item.get("test_patch") or "",
        "must_pass": [*_names(item, "FAIL_TO_PASS"), *_names(item, "PASS_TO_PASS")],
        **more,
    }


def _names(item: dict[str, Any], key: str) -> list[Any]:
    """A list, which the data set stores as text."""
    value = item.get(key) or []
    try:
        names = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise BadRequest(f"{key} is not a list of tests.")
    return names


def _local(repo: str, path: Path) -> str | None:
    place = (path.parent / repo).resolve()
    return str(place) if repo and "://" not in repo and place.is_dir() else None
