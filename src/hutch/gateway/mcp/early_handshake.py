"""Answers the first message of a client before the MCP library is loaded.

Loading the library, and opening a jail, takes most of the time until a client gets its first answer.
The answers to `initialize` and `server/discover` depend on neither, so they are made here; so does the
list of tools, which `scripts/mcp_tool_list.py` generates. The library gets the same messages later, and
its answers are dropped. Anything unusual is left to the library.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hutch

NAME = "hutch"
TOOL_LIST = Path(__file__).with_name("tool_list.json")
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
MAX_BYTES = 64 * 1024  # of a first message that is answered here
MAX_ID_CHARS = 200
NOT_SERVED = -32000  # the code of an error that the server defines
CAPABILITIES = {"tools": {"listChanged": False}}


class Greeting(NamedTuple):
    """The answer to a first message, and the id of that message."""

    id: str | int
    answer: bytes


def instructions(directory: str, jail_path: str, network: Sequence[str]) -> str:
    """The text that a client shows to its model."""
    reachable = f"only {', '.join(network)}" if network else "none"
    return (
        f"Tools on the directory {directory}, which commands find at {jail_path}. They run in a jail: "
        f"nothing else of the machine can be read or changed. Network: {reachable}. Paths are relative to "
        "the directory. bash keeps its directory and variables from call to call. Changes are made in place; "
        "the state before each is kept."
    )


class NextMessages:
    """The messages that clients send after `initialize`, while the library is loaded: that they are ready,
    and a request for the tools."""

    def __init__(self) -> None:
        self.is_over = False  # everything else is left to the library
        self.has_rest = False  # of the bytes that were added last, something follows what is answered
        self._received = b""
        self._is_ready = False

    def add(self, data: bytes) -> Greeting | None:
        """Add received bytes; returns the answer to the request for the tools."""
        self._received += data
        *lines, self._received = self._received.split(b"\n")
        self.has_rest = bool(self._received)
        for number, line in enumerate(lines, 1):
            message = _parse(line)
            if message == READY and not self._is_ready:
                self._is_ready = True
                continue
            self.is_over, self.has_rest = True, self.has_rest or number < len(lines)
            return _listed(message) if self._is_ready else None
        self.is_over = len(self._received) > MAX_BYTES
        return None


def _listed(message: Any) -> Greeting | None:
    """The answer to `tools/list`; None if it is another request, or has parameters."""
    if not isinstance(message, dict) or not _is_id(message.get("id")):
        return None
    id_: str | int = message["id"]
    if {**message, "params": message.get("params", {})} != {
        **{"jsonrpc": "2.0", "method": "tools/list"},
        **{"id": id_, "params": {}},
    }:
        return None
    answer = {"jsonrpc": "2.0", "id": id_, "result": {"tools": json.loads(TOOL_LIST.read_bytes())}}
    return Greeting(id_, json.dumps(answer).encode() + b"\n")


def _parse(line: bytes) -> Any:
    """A message; None if it cannot be read."""
    try:
        return json.loads(line.decode()) if len(line) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        return None


def greet(line: bytes, text: str) -> Greeting | None:
    """The answer to a client's first message; None if the library must answer it."""
    message = _parse(line)
    if not isinstance(message, dict) or set(message) != {"jsonrpc", "id", "method", "params"}:
        return None
    id_, params = message["id"], message["params"]
    if message["jsonrpc"] != "2.0" or not _is_id(id_) or not isinstance(params, dict):
        return None
    result = None
    if message["method"] == "initialize":
        result = _initialized(params, text)
    elif message["method"] == "server/discover":
        result = _discovered(params, text)
    if result is None:
        return None
    return Greeting(id_, json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode() + b"\n")


def refuse(line: bytes, reason: str) -> Greeting | None:
    """The error that answers a request when nothing can be served; None if the line is no request."""
    message = _parse(line)
    if not isinstance(message, dict) or "method" not in message or not _is_id(message.get("id")):
        return None
    error = {"code": NOT_SERVED, "message": reason}
    return Greeting(
        message["id"],
        json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode() + b"\n",
    )


def _initialized(params: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """The result of the handshake of the older protocols."""
    if set(params) != {"protocolVersion", "capabilities", "clientInfo"}:
        return None
    version = params["protocolVersion"]
    if not isinstance(version, str) or not _are_of_client(params["clientInfo"], params["capabilities"]):
        return None
    return {
        "protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": _server_info(),
        "instructions": text,
    }


def _discovered(params: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """The description of a server in the stateless protocol."""
    meta = params.get("_meta")
    names = {f"{META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
    if set(params) != {"_meta"} or not isinstance(meta, dict) or set(meta) != names:
        return None
    if meta[f"{META}protocolVersion"] != STATELESS_VERSION:
        return None
    if not _are_of_client(meta[f"{META}clientInfo"], meta[f"{META}clientCapabilities"]):
        return None
    return {
        "supportedVersions": [STATELESS_VERSION],
        "capabilities": CAPABILITIES,
        "instructions": text,
        "resultType": "complete",
        "cacheScope": "private",
        "ttlMs": 0,
        "_meta": {f"{META}serverInfo": _server_info()},
    }


def _server_info() -> dict[str, str]:
    return {"name": NAME, "version": hutch.__version__}


def _are_of_client(info: Any, capabilities: Any) -> bool:
    """True if a client describes itself as usual."""
    if not isinstance(info, dict) or not isinstance(capabilities, dict):
        return False
    is_named = {"name", "version"} <= set(info) <= {"name", "version", "title", "description", "websiteUrl"}
    values = [*info.values(), *capabilities.values()]
    return is_named and all(isinstance(each, str) for each in info.values()) and _are_plain(values)


def _are_plain(values: Sequence[Any]) -> bool:
    """True if these are texts without surrogates, or objects of flags and empty objects."""
    for value in values:
        if isinstance(value, dict):
            if not all(isinstance(each, bool) or each == {} for each in value.values()):
                return False
        elif not isinstance(value, str) or any(0xD800 <= ord(char) <= 0xDFFF for char in value):
            return False
    return True


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
