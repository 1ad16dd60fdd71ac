"""The answers that are made before the MCP library is loaded, compared with the library's own."""

import json
import subprocess
from typing import Any

import pytest

from hutch.gateway.mcp.early_handshake import (
    HANDSHAKE_VERSIONS,
    META,
    STATELESS_VERSION,
    NextMessages,
    greet,
)
from tests.forked_command import Forked, run
from tests.gateway.mcp_server import TIMEOUT_S, Place

CLIENT = {"name": "editor", "version": "1", "title": "An editor"}
CAN = {"roots": {"listChanged": True}, "elicitation": {"form": {}}, "sampling": {}}
ENVELOPE = {
    f"{META}protocolVersion": STATELESS_VERSION,
    f"{META}clientInfo": CLIENT,
    f"{META}clientCapabilities": CAN,
}


def initialize(version: str = HANDSHAKE_VERSIONS[-1], **more: Any) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": CAN, "clientInfo": CLIENT, **more}


def message(method: str, params: Any, **more: Any) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}).encode() + b"\n"
    )


def answers(place: Place, *lines: bytes) -> list[dict[str, Any]]:
    served = run(
        place.argv(),
        env=place.environment(),
        input=b"".join(lines),
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    assert served.returncode == 0
    return [json.loads(line) for line in served.stdout.splitlines()]


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, STATELESS_VERSION, "1999-01-01"])
def test_a_handshake_is_answered_as_by_the_library(place: Place, version: str) -> None:
    early = message("initialize", initialize(version))
    late = message("initialize", initialize(version, _meta={}))
    assert greet(early, "") is not None and greet(late, "") is None
    assert answers(place, early) == answers(place, late)


def test_a_question_about_the_server_is_answered_as_by_the_library(place: Place) -> None:
    early = message("server/discover", {"_meta": ENVELOPE})
    late = message("server/discover", {"_meta": {**ENVELOPE, "progressToken": 1}})
    assert greet(early, "") is not None and greet(late, "") is None
    assert answers(place, early) == answers(place, late)


def test_a_first_message_is_answered_once_and_the_next_ones_work(place: Place) -> None:
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    found = answers(place, message("initialize", initialize()), ready, message("tools/list", {}, id=8))
    assert [each["id"] for each in found] == [7, 8]
    assert "bash" in [tool["name"] for tool in found[1]["result"]["tools"]]


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_tools_are_listed_as_by_the_library(place: Place, version: str) -> None:
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    early, late = message("tools/list", {}, id=8), message("tools/list", {"_meta": {}}, id=8)
    following = NextMessages(), NextMessages()
    assert [
        each.add(ready + line) is not None for each, line in zip(following, (early, late), strict=True)
    ] == [
        True,
        False,
    ]
    begun = message("initialize", initialize(version)) + ready
    assert answers(place, begun + early) == answers(place, begun + late)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {"cursor": "x"}}\n',
        b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}\n',
        b'{"jsonrpc": "2.0", "id": [8], "method": "tools/list"}\n',
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {}}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\n",
    ],
)
def test_other_messages_are_left_to_the_library(line: bytes) -> None:
    following = NextMessages()
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    assert (following.add(ready), following.is_over) == (None, False)
    assert (following.add(line), following.is_over) == (None, True)
    unready = NextMessages()
    assert (unready.add(message("tools/list", {})), unready.is_over) == (None, True)
    endless = NextMessages()
    assert (endless.add(b"x" * 100_000), endless.is_over) == (None, True)


def test_a_client_need_not_wait_for_the_first_answer(place: Place) -> None:
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    sent = message("initialize", initialize()) + ready + message("tools/list", {}, id=8)
    pipe = subprocess.PIPE
    with Forked(place.argv(), env=place.environment(), stdin=pipe, stdout=pipe) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(sent)
        server.stdin.flush()  # and it stays open
        assert [json.loads(server.stdout.readline())["id"] for _ in range(2)] == [7, 8]


def test_a_client_that_only_greets_opens_no_session(place: Place) -> None:
    assert len(answers(place, message("initialize", initialize()))) == 1
    assert place.hutch("log", "--json") == ""


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"\xff",
        b"[" * 50_000,
        message("ping", {}),
        message("tools/list", {"_meta": ENVELOPE}),
        message("initialize", []),
        message("initialize", {}),
        message("initialize", initialize(), id=None),
        message("initialize", initialize(), id=1.5),
        message("initialize", initialize(), id=True),
        message("initialize", initialize(), id="x" * 1000),
        message("initialize", initialize(), more=1),
        message("initialize", initialize(clientInfo={"name": "editor"})),
        message("initialize", initialize(clientInfo={"name": "\ud800", "version": "1"})),
        message("initialize", initialize(capabilities={"roots": 3})),
        message("initialize", initialize(protocolVersion=3)),
        message("initialize", initialize(protocolVersion="x" * 100_000)),
        message("server/discover", {}),
        message("server/discover", {"_meta": {**ENVELOPE, f"{META}protocolVersion": "2030-01-01"}}),
    ],
)
def test_anything_unusual_is_left_to_the_library(line: bytes) -> None:
    assert greet(line, "") is None
