"""Codex, a real agent of others, works in the jail. Its model is a server of this machine."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project_with_failing_test import lines, temporary_project
from tests.forge.repositories import git

pytestmark = pytest.mark.soak
ROOT = Path(__file__).resolve().parents[2]
COMMAND = "env; sed -i 's/a - b/a + b/' adding.py && echo fixed"
KEY = "sk-provider-" + "k" * 30


@contextmanager
def model_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and the requests that it got. It calls the shell of whoever asks, and is then done."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append({**request, "key": self.headers["Authorization"]})
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for each in reply_to(request):
                self.wfile.write(f"data: {json.dumps(each)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *words: Any) -> None:
            """Nothing to print."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", requests
        finally:
            server.shutdown()
            thread.join()


def reply_to(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if any(each["role"] == "tool" for each in request["messages"]):
        yield part({"content": "The sign is right now."}, "stop")
        return
    names = {each["function"]["name"] for each in request["tools"]}
    (shell,) = names & {"exec_command", "shell_command", "shell"}
    key = "cmd" if shell == "exec_command" else "command"
    function = {"name": shell, "arguments": json.dumps({key: COMMAND})}
    yield part({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    yield part({}, "tool_calls")


def part(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010} if finish else None
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}


def test_the_change_of_codex_is_recorded_metered_and_delivered() -> None:
    script = ROOT / "scripts" / "codex-agent"
    installed = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with temporary_project() as project, model_server() as (address, requests):
        project.place.chmod(0o755)  # jails have another user than root
        shutil.copytree(installed, project.place / "codex")
        settings = project.place / "home" / "config.toml"
        settings.write_text(
            f'[models]\nopenai_compatible_base_url = "{address}"\nprices = ["openai-compatible:m=1/1/1"]\n'
            f'[jail]\ntoolchains = ["{project.place}/codex"]\n'
        )
        words = ("--agent", "codex", "--model", "openai-compatible:m", "--max-cost", "1", "--json")
        ran = project.hutch("run", "Mend add", *words, OPENAI_COMPATIBLE_API_KEY=KEY)
        log = project.hutch("log", "last", "--json").stdout.splitlines()
        branch = lines(ran.stdout)[-1]["change"]["branch"]
        patch = git(project.work, "diff", "main", branch)
    end = lines(ran.stdout)[-1]
    assert (ran.returncode, end["outcome"], end["tests"]["passed"]) == (0, "done", 1), ran.stderr
    assert "+    return a + b" in patch
    assert [each["key"] for each in requests] == [f"Bearer {KEY}"] * 2
    events = [json.loads(each)["event"] for each in log]
    (ended,) = (each for each in events if each["type"] == "run.ended")
    assert (ended["turns"], ended["input_tokens"], ended["cost_usd"]) == (2, 2000, 0.00202)
    (returned,) = (each for each in events if each["type"] == "tool.returned")
    assert "OPENAI_BASE_URL=http://127.0.0.1:" in returned["text"] and "fixed" in returned["text"]
    assert not any(KEY in each for each in log)
