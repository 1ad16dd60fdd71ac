"""`hutch hooks`: hooks of a repository run in sessions only after somebody has trusted them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project_with_failing_test import Project, call, lines, temporary_project
from tests.forge.repositories import commit

BLOCK = {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo frozen >&2; exit 2"}]}]
}
REPLIES = ({"calls": [call("bash", command="echo ran")]}, {"text": "done"})


def events_of(printed: str) -> list[dict[str, Any]]:
    return [each["event"] for each in lines(printed) if each["type"] == "event"]


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as found:
        commit(found.work, {".claude/settings.json": json.dumps({"hooks": BLOCK})}, "hooks")
        yield found


def result_of_bash(project: Project) -> tuple[str, str]:
    events = events_of(project.run("--json", replies=REPLIES).stdout)
    returned = next(each for each in events if each["type"] == "tool.returned")
    return returned["text"], "\n".join(each.get("message", "") for each in events)


@pytest.mark.long
def test_hooks_of_a_repository_run_only_after_trust(project: Project) -> None:
    text, messages = result_of_bash(project)
    assert text.strip() == "ran" and "nobody has trusted them: echo frozen" in messages
    assert "not trusted" in project.hutch("hooks", "list").stdout
    refused = project.hutch("hooks", "trust")
    assert refused.returncode == 2 and "echo frozen" in refused.stderr
    assert "until they change" in project.hutch("hooks", "trust", "--yes").stdout
    text, messages = result_of_bash(project)
    assert "frozen" in text and "blocks this" in text and "nobody" not in messages
    changed = json.dumps({"hooks": BLOCK}).replace("frozen", "changed")
    commit(project.work, {".claude/settings.json": changed}, "other hooks")
    text, messages = result_of_bash(project)
    assert text.strip() == "ran" and "nobody has trusted them: echo changed" in messages
    assert project.hutch("hooks", "withdraw").returncode == 2
    project.hutch("hooks", "trust", "--yes")
    assert "no longer" in project.hutch("hooks", "withdraw").stdout


def test_hooks_of_the_owner_need_no_trust(project: Project) -> None:
    own = Path(project.place, "home", "hooks.json")
    own.write_text(json.dumps({"hooks": BLOCK}).replace("frozen", "my own"))
    listed = json.loads(project.hutch("hooks", "list", "--json").stdout)
    assert [each["state"] for each in listed] == ["own", "not trusted"]
    assert "my own" in result_of_bash(project)[0]


def test_a_directory_without_git_is_refused_in_words_of_this_command(project: Project) -> None:
    plain = Path(project.place, "plain")
    plain.mkdir()
    refused = project.hutch("hooks", "trust", str(plain))
    assert refused.returncode == 2
    assert "is not a git repository. Name one" in refused.stderr and "copied" not in refused.stderr
