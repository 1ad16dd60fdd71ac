"""Programs for tests of extensions: servers with the official MCP library, and hostile ones without it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from atexit import register
from functools import cache
from pathlib import Path
from typing import Any

# All that the server side of the library imports.
PACKAGES = (
    *("annotated_types", "anyio", "attr", "attrs", "certifi", "cffi", "click", "cryptography", "h11"),
    *("httpcore2", "httpx2", "idna", "jsonschema", "jsonschema_specifications", "jwt", "mcp", "mcp_types"),
    *("opentelemetry", "pydantic", "pydantic_core", "python_multipart", "referencing", "rpds", "sniffio"),
    *("sse_starlette", "starlette", "truststore", "typing_extensions.py", "typing_inspection", "uvicorn"),
)
OFFICIAL = """
import os, pathlib, sys
sys.path.insert(0, {library!r})
from mcp.server.mcpserver import MCPServer

server = MCPServer("words", version="1.2")

@server.tool()
def count_words(path: str) -> str:
    "Count the words of a file of the workspace."
    return str(len(pathlib.Path("/workspace", path).read_text().split()))

@server.tool()
def write_note(path: str, text: str) -> dict[str, int]:
    "Write a file."
    return {{"written": pathlib.Path("/workspace", path).write_text(text)}}

@server.tool()
def show_environment() -> str:
    "The variables."
    return " ".join(sorted(f"{{k}}={{v}}" for k, v in os.environ.items()))

server.run("stdio")
"""
# Speaks just enough of the protocol. ANSWER is a function of the tool's name and arguments.
RAW = """
import json, os, pathlib, socket, subprocess, sys, time, urllib.request

{code}

def send(message):
    sys.stdout.write(json.dumps(dict(jsonrpc="2.0", **message)) + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if id is None:
        continue
    if method == "initialize":
        send(dict(id=id, result=dict(protocolVersion="2025-11-25", capabilities=dict(tools=dict()),
                                     serverInfo=dict(name="raw", version="1"))))
    elif method == "tools/list":
        send(dict(id=id, result=dict(tools=TOOLS())))
    elif method == "tools/call":
        text = answer(message["params"]["name"], message["params"].get("arguments", dict()))
        send(dict(id=id, result=dict(content=[dict(type="text", text=text)])))
    else:
        send(dict(id=id, error=dict(code=-32601, message="Method not found")))
"""
SIMPLE_TOOL = 'dict(name="go", description="Go.", inputSchema=dict(type="object"))'


def python() -> str:
    """The interpreter, as a jail can see it."""
    return os.path.realpath(sys.executable)


def interpreter_paths() -> list[str]:
    """The directories that a jail needs for it, besides those that every jail has."""
    base = os.path.realpath(sys.base_prefix)
    return [] if base == "/usr" else [base]


@cache
def library() -> Path:
    """A copy of the official library that every user can read, and that no other process changes."""
    place = Path(tempfile.mkdtemp(prefix="hutch-test-mcp-"))
    register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)
    site = Path(sysconfig.get_path("purelib"))
    for name in PACKAGES:
        for found in site.glob(name):
            if found.is_dir():
                shutil.copytree(found, place / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, place / name)
    for found in (*site.glob("*.dist-info"), *site.glob("_cffi_backend*")):
        if found.is_dir():
            shutil.copytree(found, place / found.name, dirs_exist_ok=True)
        else:
            shutil.copy(found, place / found.name)
    subprocess.run([python(), "-m", "compileall", "-q", str(place)], check=True, capture_output=True)
    return place


def official_server(folder: Path) -> dict[str, Any]:
    """The entry of a server that uses the official library."""
    return _entry(folder, OFFICIAL.format(library=str(library())), [str(library())])


def raw_server(folder: Path, code: str, *, tools: str = SIMPLE_TOOL) -> dict[str, Any]:
    """The entry of a server without any library; the code defines `answer(name, arguments)`."""
    listed = code if "def TOOLS" in code else f"TOOLS = lambda: [{tools}]\n{code}"
    return _entry(folder, RAW.format(code=listed), [])


def _entry(folder: Path, source: str, paths: list[str]) -> dict[str, Any]:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)
    program = folder / "server.py"
    program.write_text(source)
    program.chmod(0o644)
    return {
        "command": python(),
        "args": ["-I", str(program)],
        "paths": [str(folder), *paths, *interpreter_paths()],
    }
