"""`hutch run --agent`: a program of others works in the jail, with the session's model."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.project_with_failing_test import Project, call, lines, temporary_project
from tests.forge.repositories import commit, git

AGENT_PROGRAM = """
import json, os, subprocess, urllib.error, urllib.request

def ask(messages):
    tool = {"name": "sh", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}
    body = {"model": "x", "messages": messages, "tools": [{"type": "function", "function": tool}]}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

messages = [{"role": "user", "content": os.environ["HUTCH_PROMPT"]}]
while True:
    messages.append(ask(messages))
    if not messages[-1].get("tool_calls"):
        break
    for each in messages[-1]["tool_calls"]:
        command = json.loads(each["function"]["arguments"])["cmd"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": each["id"], "content": done.stdout + done.stderr})
"""
LEAVER = """
import os, socket, time, urllib.parse

address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
body = b'{"stream": true, "messages": [{"role": "user", "content": "' + b"x" * 4000 + b'"}]}'
head = "POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer %s\\r\\n"
head += "Content-Length: %d\\r\\n\\r\\n"
while True:  # a limit ends it; a request that is left too early is not counted
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall((head % (os.environ["OPENAI_API_KEY"], len(body))).encode() + body)
        time.sleep(0.5)
"""
AGENT = ("--agent", "python3 agent.py")
FIX = {"text": "The sign.", "calls": [call("sh", cmd="sed -i 's/a - b/a + b/' adding.py && echo fixed")]}
KEY = "sk-ant-" + "k" * 40


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        commit(made.work, {"agent.py": AGENT_PROGRAM, "leaver.py": LEAVER})
        yield made


def events(project: Project) -> list[dict[str, Any]]:
    return [json.loads(each)["event"] for each in project.hutch("log", "last", "--json").stdout.splitlines()]


def test_the_change_of_an_external_agent_is_tested_and_delivered_like_our_own(project: Project) -> None:
    usage = {"usage": {"input": 100, "output": 10}}
    ran = project.run(*AGENT, "--json", replies=({**FIX, **usage}, {"text": "Done.", **usage}))
    end = lines(ran.stdout)[-1]
    assert (ran.returncode, end["outcome"], end["tests"]["passed"]) == (0, "done", 1), ran.stderr
    assert "+    return a + b" in git(project.work, "diff", "main", end["change"]["branch"])
    found = events(project)
    replied = [each for each in found if each["type"] == "model.replied"]
    assert [(each["turn"], each["input_tokens"]) for each in replied] == [(1, 100), (2, 100)]
    (called,), (returned,) = (
        [each for each in found if each["type"] == kind] for kind in ("tool.called", "tool.returned")
    )
    assert (called["tool"], returned["text"], returned["call_id"]) == ("sh", "fixed\n", called["call_id"])
    (ended,) = (each for each in found if each["type"] == "run.ended")
    assert (ended["turns"], ended["input_tokens"], ended["output_tokens"]) == (2, 200, 20)
    (command,) = (each["command"] for each in found if each["type"] == "command.started" and each["by"])
    assert command == "python3 agent.py"


def test_the_key_of_the_provider_is_not_in_the_jail(project: Project) -> None:
    look = {"calls": [call("sh", cmd="env; cat /proc/*/environ")]}
    ran = project.run(*AGENT, replies=(look, {"text": "Done."}), ANTHROPIC_API_KEY=KEY)
    assert ran.returncode == 0, ran.stderr
    (returned,) = (each["text"] for each in events(project) if each["type"] == "tool.returned")
    assert "OPENAI_BASE_URL=http://127.0.0.1:" in returned
    assert KEY not in returned and "[redacted:" not in returned.partition("ANTHROPIC_API_KEY=")[2][:12]


def test_a_limit_stops_the_external_agent(project: Project) -> None:
    ran = project.run(*AGENT, "--max-turns", "2", replies=({"calls": [call("sh", cmd="true")], "times": 50},))
    assert ran.returncode == 5
    assert len([each for each in events(project) if each["type"] == "model.replied"]) == 2


def test_requests_that_the_agent_breaks_off_count_towards_the_limits(project: Project) -> None:
    slow = {"text": "Never read.", "delay_s": 600, "times": 50}
    ran = project.run("--agent", "python3 leaver.py", "--max-turns", "2", replies=(slow,))
    assert ran.returncode == 5, ran.stdout
    replied = [each for each in events(project) if each["type"] == "model.replied"]
    assert [each["turn"] for each in replied] == [1, 2]
    assert all(each["input_tokens"] >= 1000 for each in replied)


def test_an_agent_that_fails_fails_the_run(project: Project) -> None:
    ran = project.run("--agent", "echo broken >&2; exit 3", replies=({"text": "Unused."},))
    assert ran.returncode != 0 and "exit code 3: broken" in ran.stdout
    assert "change.proposed" not in {each["type"] for each in events(project)}


def test_a_known_agent_that_is_not_in_the_jail_is_explained(project: Project) -> None:
    ran = project.run("--agent", "goose", replies=({"text": "Unused."},))
    assert "exit code 127" in ran.stdout and "jail.toolchains" in ran.stdout


def test_an_unknown_agent_is_refused(project: Project) -> None:
    ran = project.hutch("run", "Mend add", "--agent", "codecs")
    assert ran.returncode == 2 and "Known are codex, claude, opencode, goose" in ran.stderr
