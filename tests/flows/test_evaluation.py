"""Tasks read from files, and graded in a real jail."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions, list_files
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.redaction import Redactor
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.case_file import BUILTIN_FILE, load_cases
from hutch.flows.evaluation.grading import Grade, choose_runner, grade
from hutch.flows.repository_sentence_for_followers import describe_structure
from tests.agent.run_setups import ToolEnv, open_tool_env

TEST = (
    "import unittest\n\nfrom adding import add\n\n\nclass Adding(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
)
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
PLAIN: dict[str, Any] = {"name": "add", "prompt": "Mend it.", "files": {"adding.py": WRONG}}
TASK = EvalCase.model_validate(PLAIN | {"hidden_tests": {"test_adding.py": TEST}})
PATCH = """\
diff --git a/test_adding.py b/test_adding.py
--- a/test_adding.py
+++ b/test_adding.py
@@ -6,3 +6,10 @@
 class Adding(unittest.TestCase):
     def test_add(self):
         self.assertEqual(add(2, 3), 5)
+
+    def test_zero(self):
+        self.assertEqual(add(0, 0), 0)
+
+    @unittest.skip("later")
+    def test_later(self):
+        pass
"""
NAMES = ("test_adding.Adding.test_add", "test_adding.Adding.test_zero")
anyio = pytest.mark.anyio


async def graded(home: Path, task: EvalCase, *steps: tuple[str, dict[str, Any]], **files: str) -> Grade:
    """Start a case, make these tool calls, and grade the result."""
    start = {name: text.encode() for name, text in (task.files | files).items()}
    async with open_tool_env(home, start) as env:
        return await _graded(env, task, steps)


async def _graded(env: ToolEnv, task: EvalCase, steps: tuple[tuple[str, dict[str, Any]], ...]) -> Grade:
    workspace = env.context.workspace
    first = await workspace.snapshot("first")
    runner = await choose_runner(workspace, task)
    for tool, given in steps:
        result = await env.use(tool, **given)
        assert result.ok, result.text
    return await grade(workspace, env.context.jail, task, runner, first.id)


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


FIX = ("edit_file", {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]})


@anyio
async def test_the_hidden_tests_decide(tmp_path: Path) -> None:
    undone = await graded(tmp_path / "undone", TASK)
    done = await graded(tmp_path / "done", TASK, FIX)
    assert (undone.passed, undone.reason.splitlines()[0], undone.tests[0]["failed"]) == (False, "1 failed", 1)
    assert (done.passed, done.reason, done.tests[0]["passed"]) == (True, "1 passed", 1)


@anyio
async def test_a_grade_shows_no_secret_that_tests_print(tmp_path: Path) -> None:
    secret = "kept-in-the-vault-0123456789"
    loud = TEST.replace("self.assertEqual(", f"self.fail('x' * 1980 + {secret!r})  # (")
    task = EvalCase.model_validate(PLAIN | {"hidden_tests": {"test_adding.py": loud}})
    async with open_tool_env(tmp_path, {"adding.py": WRONG.encode()}) as env:
        workspace = env.context.workspace
        first = await workspace.snapshot("first")
        runner = await choose_runner(workspace, task)
        clean = Redactor([secret]).redact
        found = await grade(workspace, env.context.jail, task, runner, first.id, clean=clean)
    assert not found.passed and "xxx" in found.reason
    assert "kept-in" not in found.reason and "kept-in" not in str(found.tests)


@anyio
async def test_the_command_of_tests_is_redacted_before_it_is_cut(tmp_path: Path) -> None:
    secret = "kept-in-the-vault-0123456789"
    async with open_tool_env(tmp_path, {"a.py": b""}) as env:
        env.context = replace(
            env.context,
            suite_options=SuiteOptions(command=f"run {'x' * 80} {secret}"),
            redactor=Redactor([secret]),
        )
        first, listed = await env.context.workspace.snapshot("first"), await list_files(env.context.workspace)
        result = await describe_structure(env.context, first, listed)
    assert result.endswith(f"; tests: run {'x' * 80} [redacted:secre.")


@anyio
async def test_nothing_is_written_before_the_grade(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"adding.py": WRONG.encode()}) as env:
        runner = await choose_runner(env.context.workspace, TASK)
        page = await env.context.workspace.entries(recursive=True)
        assert runner.name == "unittest"
        assert [entry.path for entry in page.entries] == ["adding.py"]


@anyio
@pytest.mark.parametrize(
    "step",
    [
        write("package.json", json.dumps({"scripts": {"test": "true"}})),
        write("test_adding.py", "import unittest\n"),
        ("bash", {"command": "echo keep > other; ln -s other test_adding.py"}),
        ("bash", {"command": "mkdir -p test_adding.py/deep"}),
    ],
    ids=["another runner", "another test", "a link", "a directory"],
)
async def test_what_the_agent_leaves_does_not_decide(
    tmp_path: Path, step: tuple[str, dict[str, Any]]
) -> None:
    assert not (await graded(tmp_path / "undone", TASK, step)).passed
    assert (await graded(tmp_path / "done", TASK, step, FIX)).passed


@anyio
async def test_a_patch_of_tests_goes_on_the_tests_as_they_were(tmp_path: Path) -> None:
    task = EvalCase.model_validate(PLAIN | {"test_patch": PATCH, "must_pass": NAMES})
    gone = ("bash", {"command": "echo 'import unittest' > test_adding.py"})
    files = {"test_adding.py": TEST}
    assert (await graded(tmp_path / "done", task, gone, FIX, **files)).passed
    assert not (await graded(tmp_path / "undone", task, gone, **files)).passed


@anyio
async def test_a_named_test_that_is_skipped_or_not_there_has_not_passed(tmp_path: Path) -> None:
    for place, name in (("skipped", "test_later"), ("not there", "test_never")):
        task = EvalCase.model_validate(
            PLAIN | {"test_patch": PATCH, "must_pass": [*NAMES, f"test_adding.Adding.{name}"]}
        )
        result = await graded(tmp_path / place, task, FIX, **{"test_adding.py": TEST})
        assert not result.passed, place
        if place == "skipped":
            assert result.reason == "1 of the tests that must pass did not run."


@anyio
async def test_tests_that_cannot_be_put_in_place_are_not_passed(tmp_path: Path) -> None:
    task = EvalCase.model_validate(PLAIN | {"hidden_tests": {"tests/test_adding.py": TEST}})
    result = await graded(tmp_path, task, FIX, write("tests", "a file"))
    assert not result.passed
    assert result.reason.startswith("The hidden tests cannot be written: ")


@anyio
@pytest.mark.parametrize("task", load_cases(BUILTIN_FILE), ids=lambda task: task.name)
async def test_no_task_of_the_own_set_is_solved_before_it_begins(tmp_path: Path, task: EvalCase) -> None:
    result = await graded(tmp_path, task)
    assert not result.passed
    assert result.tests and result.tests[0]["failed"] > 0


def test_a_set_in_the_format_of_swe_bench_never_reveals_the_solution(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    item = {
        "instance_id": "a__b-1",
        "repo": "a/b",
        "base_commit": "c" * 40,
        "problem_statement": "It fails.",
        "hints_text": "SOLUTION",
        "patch": "SOLUTION",
        "test_patch": PATCH,
        "FAIL_TO_PASS": json.dumps(["x::y"]),
        "PASS_TO_PASS": ["x::z"],
        "version": "1.0",
    }
    file = tmp_path / "set.jsonl"
    lines = [item, item | {"instance_id": "2", "repo": "here"}]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    far, near = load_cases(file, repos="https://git.example/{repo}.git")
    assert (far.name, far.prompt, far.repo) == ("a__b-1", "It fails.", "https://git.example/a/b.git")
    assert (far.revision, far.test_patch, far.must_pass) == ("c" * 40, PATCH, ("x::y", "x::z"))
    assert near.repo == str(tmp_path / "here")
    assert "SOLUTION" not in far.model_dump_json()


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"files": {}}, "give either files, repo or rerun to start with"),
        ({"repo": "x"}, "give either files, repo or rerun to start with"),
        ({"revision": "main"}, "a revision needs a repo"),
        ({"files": {"../x": ""}}, "'../x' is not a path inside the workspace"),
        ({"hidden_tests": {"/etc/x": ""}}, "'/etc/x' is not a path inside the workspace"),
        ({"hidden_tests": {}}, "no test decides whether it is done"),
        ({"promt": "x"}, "wrong at promt"),
        ({"name": "a\x1b[2J"}, "characters that cannot be shown"),
        ({"cassette": {"replies": [{"txt": ""}]}}, "wrong at cassette"),
        ({"limits": {"turns": 0}}, "wrong at limits.turns"),
        ({"test_patch": "no patch"}, "task add is wrong"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, change: dict[str, Any], output: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps([json.loads(TASK.model_dump_json(exclude_defaults=True)) | change]))
    with pytest.raises(BadRequest) as caught:
        load_cases(file)
    assert output in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "output"),
    [
        ("set.yaml", "tasks: [", "cannot be read"),
        ("set.yaml", "one: two", "is not a set of tasks"),
        ("set.yaml", "[]", "There are no tasks"),
        ("set.yaml", "- 1", "task 1 is not an object"),
        ("set.jsonl", "{}\n{", "line 2 is not JSON"),
        ("set.json", "[" * 100_000, "cannot be read"),
    ],
)
def test_a_file_that_is_no_set_is_refused_with_a_reason(
    tmp_path: Path, name: str, text: str, output: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadRequest, match=output):
        load_cases(tmp_path / name)


def test_names_are_distinct_and_a_set_must_exist(tmp_path: Path) -> None:
    one = json.loads(TASK.model_dump_json(exclude_defaults=True))
    (tmp_path / "set.json").write_text(json.dumps({"tasks": [one, one]}))
    with pytest.raises(BadRequest, match="more than one task named 'add'"):
        load_cases(tmp_path / "set.json")
    with pytest.raises(NotFound, match="There is no file"):
        load_cases(tmp_path / "none.yaml")
    with pytest.raises(BadRequest, match=r"is a directory\. Name a set of tasks"):
        load_cases(tmp_path)
    with pytest.raises(BadRequest, match="no place for a repository's name"):
        load_cases(BUILTIN_FILE, repos="https://git.example/")
