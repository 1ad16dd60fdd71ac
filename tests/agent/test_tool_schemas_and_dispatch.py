"""The descriptions of tools for models, and the errors for invalid calls."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hutch.agent.persona import built_in, load_persona
from hutch.agent.system_prompt import repository_notes, system_prompt
from hutch.agent.tools.builtin import TOOLS, built_in_tools
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.tool_schemas_and_dispatch import MAX_CHARS, Toolbox
from hutch.domain.events import FileChanged, ToolReturned
from hutch.domain.redaction import Redactor
from hutch.edit.file_operation_types import FileChange
from hutch.flows.run_execution.agent_work_and_tests import begin
from tests.agent.run_setups import SetupOptions, call, entries, open_setup, open_tool_env, replies
from tests.deadline import DEADLINE_S

MAX_TOKENS = 3000
CHARS_PER_TOKEN = 3.3  # JSON and prose take 3.5 to 4.5: fewer are assumed, to be on the safe side


def specs_json(toolbox: Toolbox) -> str:
    return json.dumps(
        [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in toolbox.specs
        ]
    )


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(built_in()))
async def test_prompt_and_tools_take_few_tokens(name: str, tmp_path: Path) -> None:
    persona = load_persona(name, known_tools=built_in_tools().names)
    async with open_tool_env(tmp_path, {"a.py": b""}) as env:
        notes = await repository_notes(env.context.workspace)
        system = system_prompt(
            persona, env.context.workspace, jail_path="/workspace", network=(), notes=notes
        )
    tokens = len(system + specs_json(Toolbox(TOOLS).only(persona.tools))) / CHARS_PER_TOKEN
    assert 300 < tokens < MAX_TOKENS


def test_the_schemas_are_exact_and_small() -> None:
    schemas = {spec.name: spec.parameters for spec in Toolbox(TOOLS).specs}
    assert tuple(schemas) == built_in_tools().names
    assert schemas["bash"] == {
        "type": "object",
        "additionalProperties": False,
        "required": ["command"],
        "properties": {
            "command": {"type": "string"},
            "timeout_s": {"type": "number"},
            "yield_s": {"type": "number"},
        },
    }
    assert set(schemas["edit_file"]["properties"]["edits"]["items"]["properties"]) == {
        *("old", "new", "replace_all", "start_line", "end_line", "insert_line")
    }
    text = json.dumps({**schemas, "finish": None})  # which has a title of its own
    assert [word for word in ("$ref", "$defs", '"title"', "anyOf", '"null"', "default") if word in text] == []
    for name, schema in schemas.items():
        assert schema["additionalProperties"] is False, name
    required = {name: sorted(schema.get("required", [])) for name, schema in schemas.items()}
    assert required == {
        "read_file": ["path"],
        "write_file": ["content", "path"],
        "edit_file": ["edits", "path"],
        "apply_patch": ["patch"],
        "list_directory": [],
        "glob": ["pattern"],
        "grep": ["pattern"],
        "search_code": ["query"],
        "outline": [],
        "bash": ["command"],
        "bash_output": ["id"],
        "bash_kill": ["id"],
        "exec": ["argv"],
        "run_tests": [],
        "debug": ["action"],
        "terminal_read": [],
        "terminal_type": ["id"],
        "skill": ["name"],
        "delegate": ["tasks"],
        "helper_changes": ["action", "helper"],
        "ask_user": ["question"],
        "finish": ["title"],
    }


@pytest.mark.parametrize(
    ("tool", "text", "words"),
    [
        (
            "read_file",
            "{}",
            "`path` is missing. It takes {path: text, start_line?: whole number, end_line?: whole number}.",
        ),
        ("read_file", '{"file": "x"}', "`path` is missing; `file` is unknown"),
        ("read_file", '{"path": "x", "startline": 3}', "(did you mean `start_line`?)"),
        ("read_file", '{"path": 7}', "`path` is 7: it must be text."),
        ("read_file", '{"path": "x", "start_line": 0}', "`start_line` is 0: it must be at least 1."),
        ("bash", '{"command": "x", "timeout_s": 601}', "`timeout_s` is 601: it must be at most 600"),
        ("bash", '{"command": ["ls"]}', '`command` is ["ls"]: it must be text.'),
        ("edit_file", '{"path": "x", "edits": []}', "`edits` is []: it must have at least 1 parts."),
        ("edit_file", '{"path": "x", "edits": [{"old": "a"}]}', "`edits.0.new` is missing"),
        ("edit_file", '{"path": "x", "edits": "[]"}', "`edits` is []: it must have at least 1 parts."),
        (
            "grep",
            '{"pattern": "x", "output": "all"}',
            "`output` is \"all\": it must be 'content'",
        ),
        ("edit_file", '{"path": "x", "edits": "a"}', '`edits` is "a": it must be a list.'),
        ("edit_file", '{"path": "x", "edits": "{}"}', '`edits` is "{}": it must be a list.'),
        (
            "edit_file",
            '{"path": "x"}',
            "edits: [{old?: text, new: text, replace_all?: true|false, start_line?:",
        ),
        ("grep", '{"pattern": 1}', 'output?: "content"|"files"|"count"'),
        (
            "bash_kill",
            '{"id": "bg_1", "signal": "STOPP"}',
            '`signal` is "STOPP": it is not a signal. Give TERM,',
        ),
        ("bash", "{", "bash: the arguments are not JSON"),
        ("bash", '["ls"]', "bash: the arguments are a list. Send one JSON object."),
        ("bash", "null", "the arguments are a null"),
        ("bash", "[" * 100_000, "bash: the arguments are nested too deep"),
        ("read_file", '{"path": "\\ud800"}', "half of a character"),
        (
            "edit_file",
            '{"path": "x", "edits": [{"insert_line": 0, "new": "\\udcff"}]}',
            "half of a character",
        ),
        (
            "raed_file",
            "{}",
            "There is no tool 'raed_file'. Did you mean read_file? Available tools: read_file,",
        ),
        ("x" * 10_000, "{}", "There is no tool 'xxx"),
    ],
)
def test_the_error_in_a_call_is_named(tool: str, text: str, words: str) -> None:
    result = Toolbox(TOOLS).parse(tool, text)
    assert isinstance(result, ToolResult) and not result.ok
    assert words in result.text
    assert len(result.text) < 1000


def test_no_error_message_comes_from_a_library() -> None:
    toolbox, refused = Toolbox(TOOLS), 0
    for tool in TOOLS:
        whole: dict[str, Any] = dict.fromkeys(tool.arguments.model_fields, "x")
        for name in (*whole, "unknown"):
            for wrong in (None, True, -1, 1.5, "", "x", "x" * 100_000, [], [1], {"a": 1}, [{}], [{"x": 1}]):
                result = toolbox.parse(tool.name, json.dumps({**whole, name: wrong}))
                if isinstance(result, ToolResult):
                    refused += 1
                    for libraries in ("should", "required", "permitted", "Input", "Value error", "type="):
                        assert libraries not in result.text, result.text
    assert refused > 100


def test_no_arguments_are_an_empty_object() -> None:
    for text in ("", " ", "{}"):
        assert isinstance(Toolbox(TOOLS).parse("run_tests", text), Arguments)


class Nothing(Arguments):
    pass


@dataclass
class Meeting:
    """Waits for two concurrent calls: alone it would wait for ever."""

    barrier: asyncio.Barrier
    name: ClassVar[str] = "meet"
    description: ClassVar[str] = "Meet."
    arguments: ClassVar[type[Arguments]] = Nothing
    parallel: ClassVar[bool] = True

    async def __call__(self, args: Nothing, context: Context) -> ToolResult:
        await self.barrier.wait()
        return ToolResult("met")


class Long:
    name: ClassVar[str] = "long"
    description: ClassVar[str] = "Say much."
    arguments: ClassVar[type[Arguments]] = Nothing
    parallel: ClassVar[bool] = False

    async def __call__(self, args: Nothing, context: Context) -> ToolResult:
        return ToolResult("first\n" + "\udcff" * MAX_CHARS + "\nlast")


@pytest.mark.anyio
async def test_reading_tools_run_concurrently_and_return_in_order(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("meet"), call("meet"), call("meet"), call("long")]}, {"text": "Done."})
    async with open_setup(tmp_path, SetupOptions({"a": b"x"}, cassette)) as setup:
        setup = replace(setup, toolbox=Toolbox([Meeting(asyncio.Barrier(3)), Long()]))
        async with asyncio.timeout(DEADLINE_S):
            finished = await begin(setup, "run_1", "Meet.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert finished.ended.outcome == "done"
    assert [each.type for each in log if each.type.startswith("tool.")] == [
        *["tool.called"] * 3,
        *["tool.returned"] * 3,
        *("tool.called", "tool.returned"),
    ]
    returned = [each for each in log if isinstance(each, ToolReturned)]
    assert [each.call_id for each in returned] == ["call_0_0", "call_0_1", "call_0_2", "call_0_3"]
    # Too long, and with lone surrogates: both are fixed before the model sees it.
    assert len(returned[-1].text) < MAX_CHARS + 100
    assert returned[-1].text.startswith("first\n\\xff") and returned[-1].text.endswith("\\xff\nlast")
    assert "72,011 characters omitted" in returned[-1].text


SECRET = "correct-horse-battery"


class Leaky:
    name: ClassVar[str] = "leak"
    description: ClassVar[str] = "Tell a secret in every way there is."
    arguments: ClassVar[type[Arguments]] = Nothing
    parallel: ClassVar[bool] = False

    async def __call__(self, args: Nothing, context: Context) -> ToolResult:
        data = {
            "text": SECRET,
            "nested": [{"deep": ("x", f"a {SECRET} b"), SECRET: 1}],
            "name": "caf\udce9",
            "pair": "\ud83d\ude00",
            "half": "\ud83d",
            "number": 7,
            "none": None,
        }
        changes = (FileChange(f"{SECRET}\udcff", "moved", None, None, f"caf\udce9/{SECRET}"),)
        return ToolResult(SECRET, data=data, changes=changes)


@pytest.mark.anyio
async def test_a_changed_file_whose_name_is_not_utf_8_is_logged(tmp_path: Path) -> None:
    patch = '--- /dev/null\n+++ "b/caf\\351"\n@@ -0,0 +1 @@\n+x\n'
    cassette = replies({"calls": [call("apply_patch", patch=patch)]}, {"text": "Done."})
    async with open_setup(tmp_path, SetupOptions({"a": b"x"}, cassette)) as setup:
        finished = await begin(setup, "run_1", "Go.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert finished.ended.outcome == "done"
    assert [each.path for each in log if isinstance(each, FileChanged)] == ["caf\ufffd"]


@pytest.mark.anyio
async def test_data_and_changes_are_as_clean_as_the_text(tmp_path: Path) -> None:
    toolbox = Toolbox([Leaky()], Redactor([SECRET]))
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        args = toolbox.parse("leak", "{}")
        assert isinstance(args, Arguments)
        result = await toolbox.use("leak", args, env.context)
    mark = "[redacted:secret]"
    assert result == ToolResult(
        mark,
        data={
            "text": mark,
            "nested": [{"deep": ["x", f"a {mark} b"], mark: 1}],
            "name": "caf\\xe9",
            "pair": "\U0001f600",
            "half": "\\ud83d",
            "number": 7,
            "none": None,
        },
        changes=(FileChange(f"{mark}\\xff", "moved", None, None, f"caf\\xe9/{mark}"),),
    )
    wrong = toolbox.parse("leak", json.dumps({SECRET: 1}))
    assert isinstance(wrong, ToolResult) and SECRET not in wrong.text and mark in wrong.text


def test_no_half_of_a_secret_is_left_where_a_wrong_argument_is_cut() -> None:
    key = "sk-ant-" + "K3y" * 12
    toolbox = Toolbox(TOOLS, Redactor())
    for padding in range(40, 200, 5):
        for args in (
            {"command": ["x" * padding + " " + key + " " + "y" * 300]},
            {"x" * padding + " " + key: 1},
        ):
            result = toolbox.parse("bash", json.dumps(args))
            assert isinstance(result, ToolResult) and "K3y" not in result.text
