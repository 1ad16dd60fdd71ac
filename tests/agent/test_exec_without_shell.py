"""exec: one program, an argument list, no shell; and the list of allowed programs."""

from pathlib import Path

import pytest

from hutch.agent.tool_call_permission_decision import decide
from hutch.agent.tool_call_rules import Policy, parse_rule
from hutch.agent.tools.exec_without_shell import ExecArguments
from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio


async def test_no_character_of_an_argument_is_interpreted(tmp_path: Path) -> None:
    words = ["$(touch x)", "`touch x`", "; touch x", "&& touch x", "> x", "*", "~", "a b", "", "\n"]
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("exec", argv=["printf", "%s|", *words])
        there = await env.use("glob", pattern="*")
    assert result.data["stdout"] == "".join(f"{word}|" for word in words)
    assert there.data["paths"] == ["a"]


async def test_streams_exit_code_directory_and_input(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"sub/a": b""}) as env:
        script = "pwd; cat; echo no >&2; exit 3"
        result = await env.use("exec", argv=["sh", "-c", script], cwd="sub", stdin="in\n")
        quiet = await env.use("exec", argv=["true"])
        killed = await env.use("exec", argv=["sh", "-c", "kill -TERM $$"])
        slow = await env.use("exec", argv=["sleep", "100"], timeout_s=0.2)
        missing = await env.use("exec", argv=["no-such-program"])
        as_text = await env.use("exec", argv='["echo", "from text"]')
    assert result.text == "/workspace/sub\nin\n[stderr]\nno\n[Exit code 3.]"
    assert (quiet.text, killed.text) == ("(no output)", "[It was ended by signal TERM.]")
    assert not slow.ok and "took too long" in slow.text
    assert "no-such-program" in missing.text
    assert as_text.text == "from text"


@pytest.mark.parametrize(
    "argv", [["sh", "-c", "git"], ["/usr/bin/git"], ["./git"], ["Git"], ["git "], ["env", "git"]]
)
async def test_only_listed_programs_run(tmp_path: Path, argv: list[str]) -> None:
    async with open_tool_env(
        tmp_path, {"git": b"#!/bin/sh\ntouch pwned\n"}, allowed_commands=("git", "echo")
    ) as env:
        refused = await env.use("exec", argv=argv)
        allowed = await env.use("exec", argv=["echo", "x"])
        none = await env.use("exec", argv=[])
    assert (refused.ok, refused.data) == (False, {"error": "denied"})
    assert "is not among the allowed commands: git, echo." in refused.text
    assert allowed.text == "x" and not none.ok


@pytest.mark.parametrize(
    ("rule", "argv", "action"),
    [
        ("deny bash git push", ["git", "push"], "deny"),
        ("deny bash git push", ["env", "A=b", "git", "push"], "deny"),
        ("deny bash git push", ["sh", "-c", "git push"], "deny"),
        ("deny exec git push", ["git", "push"], "deny"),
        ("ask exec rm", ["rm", "-rf", "x"], "ask"),
        ("deny bash git push", ["git", "log", "git push"], "allow"),
        ("allow exec git", ["git", "push"], "allow"),
        ("allow bash git", ["git", "push"], "ask"),
    ],
)
async def test_rules_about_commands_hold_for_exec(rule: str, argv: list[str], action: str) -> None:
    policy = Policy((parse_rule(rule),), "ask" if rule.startswith("allow") else "allow")
    assert decide(policy, "exec", ExecArguments(argv=argv)).action == action


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("git status && pytest -q | cat", "deny"),
        ("cd src && git status; echo done", "allow"),
        ("git status $(rm x)", "deny"),
        ("/usr/bin/git status", "allow"),
        ("$x", "ask"),
    ],
)
async def test_the_shell_is_held_to_the_list_as_far_as_its_text_shows(command: str, action: str) -> None:
    decision = Policy(commands=("git", "pytest")).decide("bash", command=command)
    assert decision.action == action and (action == "allow" or "jail.allowed_commands" in decision.rule)
