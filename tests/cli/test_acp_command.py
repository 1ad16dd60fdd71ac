"""`hutch acp`, driven by the official client library."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from acp import RequestError, spawn_agent_process, text_block

from tests.cli.acp_editor import Editor, opened, started
from tests.cli.project_with_failing_test import FIXES, Project, call, temporary_project
from tests.deadline import DEADLINE_S
from tests.forge.repositories import git
from tests.forked_command import HUTCH, Forked

pytestmark = pytest.mark.anyio
DONE = {"text": "Done.", "times": 20}
ASKS = {"calls": [call("bash", command="git push origin main")]}
PAIR = ("--persona", "pair")
SILENT = {"calls": [call("bash", command="true")]}
SLOW = {"text": "Wait.", "calls": [call("bash", command="sleep 600", timeout_s=600)]}


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        yield made


async def test_an_editor_sees_a_prompt_become_a_change_in_its_own_directory(project: Project) -> None:
    editor = Editor()
    model = project.cassette(
        {"thinking": "A wrong sign.", "calls": [call("bash", command="echo out")]}, *FIXES
    )
    (project.work / "note.txt").write_text("not committed\n")
    async with spawn_agent_process(
        editor, HUTCH, "acp", "--model", model, env=project.environment(), cwd=project.work
    ) as (agent, process):
        hello = await agent.initialize(protocol_version=1)
        assert hello.agent_info is not None and hello.agent_info.name == "hutch"
        new = await agent.new_session(cwd=str(project.work), mcp_servers=[])
        ended = await agent.prompt(session_id=new.session_id, prompt=[text_block("Mend add")])
    assert process.returncode == 0
    assert ended.stop_reason == "end_turn" and ended.usage is not None and ended.usage.input_tokens > 0
    assert (editor.text("agent_thought_chunk"), editor.text()) == ("A wrong sign.", "I see what is wrong.")
    bash, edit = (each for each in editor.updates if each.session_update == "tool_call" and each.raw_input)
    assert (bash.title, bash.kind, edit.kind) == ("bash echo out", "execute", "edit")
    path = str(project.work / "adding.py")
    assert [each.path for each in edit.locations] == [path]
    done = {each.tool_call_id: each for each in editor.calls("completed")}
    assert done[bash.tool_call_id].content[0].content.text == "out\n"
    diff = done[edit.tool_call_id].content[0]
    assert (diff.type, diff.path) == ("diff", path)
    assert "a - b" in diff.old_text and diff.new_text == diff.old_text.replace("a - b", "a + b")
    assert any(each.title.startswith("tests: 1 passed") for each in editor.calls("completed") if each.title)
    assert "+    return a + b" in git(project.work, "diff")
    assert git(project.work, "status", "--porcelain").split() == ["M", "adding.py", "??", "note.txt"]


async def test_an_approval_is_a_permission_request_that_states_its_scope(project: Project) -> None:
    async with opened(project, ASKS, ASKS, DONE, words=PAIR) as session:
        session.editor.answer = "deny"
        assert await session.prompt("Push") == "end_turn"
    (title, options), (_, again) = session.editor.requests
    assert "git push origin main" in title
    assert options[0] == "Allow once" and options[-1] == "Deny" and options == again
    assert options[1].startswith("Allow in this session: ") and "git push" in options[1]
    assert options[2].startswith("Always allow, in all sessions: ")
    assert len(session.editor.calls("failed")) == 2


async def test_a_permission_for_the_session_is_asked_once(project: Project) -> None:
    async with opened(project, ASKS, ASKS, DONE, words=PAIR) as session:
        session.editor.answer = "session"
        await session.prompt("Push")
    assert len(session.editor.requests) == 1


async def test_a_closed_permission_request_denies(project: Project) -> None:
    async with opened(project, ASKS, DONE, words=PAIR) as session:
        session.editor.answer = None
        assert await session.prompt("Push") == "end_turn"
        assert [each.status for each in session.editor.calls("failed")] == ["failed"]


async def test_an_editor_that_cannot_ask_denies(project: Project) -> None:
    async with opened(project, ASKS, DONE, words=PAIR) as session:
        session.editor.cannot_ask = True
        assert await session.prompt("Push") == "end_turn"
        assert [each.status for each in session.editor.calls("failed")] == ["failed"]
        assert "The editor cannot ask you" in session.editor.text("agent_thought_chunk")


async def test_cancel_stops_the_command_and_the_session_goes_on(project: Project) -> None:
    async with opened(project, SLOW, DONE) as session:
        prompt = asyncio.ensure_future(session.prompt("Wait"))
        await session.editor.sees(lambda each: each.session_update == "tool_call")
        await session.agent.cancel(session_id=session.id)
        assert await prompt == "cancelled"
        assert await session.prompt("Go on") == "end_turn"
        assert session.editor.text().endswith("Done.")


async def test_a_session_is_listed_and_loaded_by_a_later_process(project: Project) -> None:
    async with opened(project, *FIXES, DONE) as first:
        await first.prompt("Mend add")
    (project.work / "adding.py").write_text("def add(a, b):\n    return b + a\n")  # by the user
    again = Editor()
    async with started(project, editor=again) as (agent, _):
        listed = await agent.list_sessions(cwd=str(project.work))
        assert [(each.session_id, each.title) for each in listed.sessions] == [(first.id, "Mend add")]
        assert (await agent.list_sessions(cwd=str(project.place))).sessions == []
        await agent.load_session(cwd=str(project.work), session_id=first.id, mcp_servers=[])
        assert again.text("user_message_chunk") == "Mend add"
        shown = [each for each in first.editor.updates if each.session_update != "usage_update"]
        assert again.text() == first.editor.text() and len(again.calls("completed")) <= len(shown)
        diffs = [part for each in again.calls("completed") for part in each.content if part.type == "diff"]
        assert [each.new_text for each in diffs] == ["def add(a, b):\n    return a + b\n"]
        done = await agent.prompt(session_id=first.id, prompt=[text_block("And now?")])
        assert (done.stop_reason, again.text().endswith("Done.")) == ("end_turn", True)
    events = [
        json.loads(line)["event"] for line in project.hutch("log", first.id, "--json").stdout.splitlines()
    ]
    assert [each["prompt"] for each in events if each["type"] == "run.started"] == ["Mend add", "And now?"]
    mine = [each for each in events if each["type"] == "file.changed" and each["by"] != "agent"]
    assert [each["path"] for each in mine] == ["adding.py"]


async def test_a_session_is_open_in_one_process_at_a_time(project: Project) -> None:
    async with opened(project, DONE, DONE) as first:
        await first.prompt("Say it")
        async with started(project, editor=Editor()) as (agent, _):
            await agent.load_session(cwd=str(project.work), session_id=first.id, mcp_servers=[])
            with pytest.raises(RequestError, match="is open in another process"):
                await agent.prompt(session_id=first.id, prompt=[text_block("Me too")])


async def test_sessions_of_other_directories_and_unknown_ones_are_not_loaded(project: Project) -> None:
    other = project.place / "other"
    git(project.place, "clone", "-q", str(project.work), str(other))
    async with opened(project, DONE) as session:
        for place, id in ((str(other), session.id), (str(project.work), "ses_" + "0" * 26)):
            with pytest.raises(RequestError):
                await session.agent.load_session(cwd=place, session_id=id, mcp_servers=[])
        with pytest.raises(RequestError, match="Load it first"):
            await session.agent.prompt(session_id="ses_" + "0" * 26, prompt=[text_block("Hello")])


async def test_directories_that_no_client_may_have_are_refused(project: Project) -> None:
    plain = project.place / "plain"
    plain.mkdir()
    async with started(project, "--model", project.cassette(DONE), editor=Editor()) as (agent, _):
        for place, why in (
            ("/etc", "system"),
            (str(project.place), "home"),
            (str(project.place / "home" / "data"), "Hutch"),
            (str(plain), "--plain-directory"),
            ("work", "absolute"),
            (str(project.place / "missing"), "missing"),
        ):
            with pytest.raises(RequestError, match=why):
                await agent.new_session(cwd=place, mcp_servers=[])
    async with started(project, "--plain-directory", editor=Editor()) as (agent, _):
        await agent.new_session(cwd=str(plain), mcp_servers=[])


async def test_modes_are_personas_and_the_model_is_an_option(project: Project) -> None:
    async with opened(project, DONE) as session:
        new = await session.agent.new_session(cwd=str(project.work), mcp_servers=[])
        assert new.modes is not None and new.modes.current_mode_id == "engineer"
        assert {"engineer", "consultant"} <= {each.id for each in new.modes.available_modes}
        (option,) = new.config_options or ()
        assert (option.category, option.current_value) == ("model", project.cassette(DONE))
        await session.agent.set_session_mode(session_id=session.id, mode_id="consultant")
        await session.prompt("Hello")
        with pytest.raises(RequestError):
            await session.agent.set_session_mode(session_id=session.id, mode_id="nobody")
        with pytest.raises(RequestError, match="There is: model"):
            await session.agent.set_config_option(config_id="colour", session_id=session.id, value="red")
        other = await session.agent.set_config_option(
            config_id="model", session_id=session.id, value="scripted:demo"
        )
        assert other.config_options[0].current_value == "scripted:demo"
    events = [
        json.loads(each)["event"] for each in project.hutch("log", session.id, "--json").stdout.splitlines()
    ]
    assert [each["persona"] for each in events if each["type"] == "run.started"] == ["consultant"]


async def test_questions_are_answered_by_a_choice_or_in_the_chat(project: Project) -> None:
    which = {"calls": [call("ask_user", question="Which one?", choices=["red", "blue"])]}
    why = {"calls": [call("ask_user", question="And why?")]}
    async with opened(project, which, why, DONE) as session:
        session.editor.answer = "choice-1"
        assert await session.prompt("Ask me") == "end_turn"
        assert session.editor.requests == [("Which one?", ["red", "blue", "Answer in the chat"])]
        assert "And why?" in session.editor.text() and "Done." not in session.editor.text()
        assert await session.prompt("Because") == "end_turn"
        assert session.editor.text().endswith("Done.")
    events = [
        json.loads(each)["event"] for each in project.hutch("log", session.id, "--json").stdout.splitlines()
    ]
    assert [each["text"] for each in events if each["type"] == "question.answered"] == ["blue", "Because"]


async def test_a_copy_delivers_a_branch_and_leaves_the_directory_alone(project: Project) -> None:
    async with opened(project, *FIXES, words=("--copy",)) as session:
        assert await session.prompt("Mend add") == "end_turn"
    assert "branch `hutch/add-instead-of-subtracting`" in session.editor.text()
    assert git(project.work, "status", "--porcelain") == ""


async def test_the_end_of_input_stops_the_run(project: Project) -> None:
    async with opened(project, SLOW) as session:
        prompt = asyncio.ensure_future(session.prompt("Wait"))
        await session.editor.sees(lambda each: each.session_update == "tool_call")
    assert session.process.returncode == 0
    prompt.cancel()
    await asyncio.gather(prompt, return_exceptions=True)
    events = [
        json.loads(each)["event"] for each in project.hutch("log", session.id, "--json").stdout.splitlines()
    ]
    assert [each["outcome"] for each in events if each["type"] == "run.ended"] == ["cancelled"]


def test_messages_that_cannot_be_read_are_answered(project: Project) -> None:
    lines = (
        b"nonsense",
        b"[1]",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":3}',
        b'{"a":"' + b"x" * (33 << 20),
    )
    with Forked(
        [HUTCH, "acp"], env=project.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        printed, _ = process.communicate(b"\n".join(lines) + b"\n", timeout=DEADLINE_S)
    codes = [json.loads(line)["error"]["code"] for line in printed.splitlines()]
    assert (process.returncode, codes) == (0, [-32700, -32600, -32700, -32600, -32600])


async def test_without_a_model_the_error_says_what_to_do(project: Project) -> None:
    async with started(project, editor=Editor()) as (agent, _):
        new = await agent.new_session(cwd=str(project.work), mcp_servers=[])
        with pytest.raises(RequestError, match="config set-secret"):
            await agent.prompt(session_id=new.session_id, prompt=[text_block("Hello")])


async def test_an_editor_with_terminals_gets_the_output_of_commands_in_them(project: Project) -> None:
    shows = {"calls": [call("bash", command="echo one; echo two >&2; exit 3")]}
    editor, model = Editor(), project.cassette(shows, SILENT, DONE)
    async with started(project, "--model", model, editor=editor, terminals=True) as (agent, _):
        new = await agent.new_session(cwd=str(project.work), mcp_servers=[])
        await agent.prompt(session_id=new.session_id, prompt=[text_block("Show it")])
    first, silent = (each for each in editor.updates if each.session_update == "tool_call")
    terminal = first.content[0]
    assert (terminal.type, terminal.terminal_id) == ("terminal", first.tool_call_id)
    about = {"terminal_id": first.tool_call_id, "cwd": str(project.work)}
    assert first.field_meta["terminal_info"] == about
    metas = [
        each.field_meta
        for each in editor.updates
        if each.session_update == "tool_call_update" and each.tool_call_id == first.tool_call_id
    ]
    printed = "".join(each["terminal_output"]["data"] for each in metas if "terminal_output" in each)
    assert sorted(printed.split()) == ["one", "two"]
    assert metas[-1]["terminal_exit"] == {
        "terminal_id": first.tool_call_id,
        "exit_code": 3,
        "signal": None,
    }
    (ended,) = (each for each in editor.calls("completed") if each.tool_call_id == silent.tool_call_id)
    assert [each.type for each in ended.content] == ["terminal", "content"]
    assert ended.field_meta["terminal_exit"]["exit_code"] == 0


async def test_helpers_are_the_plan_of_a_session(project: Project) -> None:
    personas = project.place / "home" / "personas"
    personas.mkdir(parents=True, exist_ok=True)
    helper = project.place / "helper.json"
    helper.write_text(json.dumps({"replies": [*FIXES, DONE]}))
    (personas / "fixer.md").write_text(f"---\nmodel: scripted:{helper}\n---\nHelp.\n")
    delegates = {"calls": [call("delegate", tasks=[{"task": "Mend the sign", "persona": "fixer"}])]}
    takes = {"calls": [call("helper_changes", helper="h1", action="merge")]}
    async with opened(project, delegates, takes, DONE, words=("--copy",)) as session:
        await session.prompt("Have it mended")
        plans = [each.entries for each in session.editor.updates if each.session_update == "plan"]
        shown = [(each.status, each.content) for (each,) in plans]
    assert shown[0][0] == "in_progress" and shown[0][1].endswith("starts: Mend the sign")
    assert shown[1][0] == "completed" and "helper h1 ended: done, 1 file +1 -1" in shown[1][1]
    assert shown[-1][1].endswith("; merged")
    again = Editor()
    async with started(project, "--copy", editor=again) as (agent, _):
        listed = await agent.list_sessions(cwd=str(project.work))
        assert [each.session_id for each in listed.sessions] == [session.id]  # the helper is not one of them
        await agent.load_session(cwd=str(project.work), session_id=session.id, mcp_servers=[])
    assert [each.entries for each in again.updates if each.session_update == "plan"][-1] == plans[-1]


async def test_the_commands_of_the_repository_are_offered(project: Project) -> None:
    for path in (".agents/commands/fix.md", ".claude/commands/team/look.md", ".agents/commands/Bad Name.md"):
        (project.work / path).parent.mkdir(parents=True, exist_ok=True)
        (project.work / path).write_text("Do $ARGUMENTS.\n")
    (project.place / "outside").mkdir()
    (project.place / "outside" / "secret.md").write_text("x")
    (project.work / ".agents/commands/linked").symlink_to(project.place / "outside")
    async with opened(project, DONE) as session:
        await session.editor.sees(lambda each: each.session_update == "available_commands_update")
        (offered,) = (
            each.available_commands
            for each in session.editor.updates
            if each.session_update == "available_commands_update"
        )
        assert [each.name for each in offered] == ["fix", "team:look"]
        await session.prompt("/fix it")
    log = project.hutch("log", session.id, "--json").stdout
    assert "Do it." in log


async def test_a_signal_ends_it(project: Project) -> None:
    async with opened(project, DONE) as session:
        os.kill(session.process.pid, signal.SIGTERM)
        assert await asyncio.to_thread(session.process.wait, DEADLINE_S) == 128 + signal.SIGTERM
