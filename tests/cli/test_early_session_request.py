"""The request for a session, sent before the client is loaded, and done once whatever answer comes."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from hutch.cli.api_client import Client
from hutch.cli.early_session_request import EarlyRequest, send_early
from hutch.cli.server_address_and_token import local_address
from hutch.cli.session_client import ServedSessions
from hutch.domain.errors import BadRequest
from hutch.domain.session import NewSession
from hutch.settings import Paths
from hutch.system.server_announcement_and_discovery import announced
from tests.cli.test_api_client import Answer, answering, problem

pytestmark = pytest.mark.anyio
NEW_SESSION = NewSession(prompt="Look.")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("HUTCH_HOME", str(tmp_path))
    monkeypatch.delenv("HUTCH_SERVER", raising=False)
    found = Paths.of({"HUTCH_HOME": str(tmp_path)})
    for directory in (found.keys, found.state):
        directory.mkdir(parents=True)
    return found


@contextmanager
def a_server(paths: Paths, answer: Callable[[int], Answer]) -> Iterator[list[dict[str, str]]]:
    """A local server with this response; yields the headers of its requests."""
    with (
        answering(answer) as (url, came),
        paths.server_lock.open("w") as lock,
        announced(paths.server_files, url, token="secret"),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield came


async def create(paths: Paths, early: EarlyRequest | None) -> dict[str, object]:
    async with Client(partial(local_address, paths)) as client:
        return await ServedSessions(client, early).create(NEW_SESSION)


@pytest.mark.parametrize("any_server", [True, False])
async def test_the_answer_to_an_early_request_is_the_session(paths: Paths, any_server: bool) -> None:
    with a_server(paths, lambda number: (201, {"id": "ses_1"}, {})) as came:
        early = send_early(NEW_SESSION, any_server=any_server)
        assert early is not None
        assert await create(paths, early) == {"id": "ses_1"}
    (headers,) = came
    assert headers["authorization"] == "Bearer secret"
    assert headers["idempotency-key"] == early.key


@pytest.mark.parametrize(
    "first", [None, (503, {}, {}), (201, {}, {"content-length": "x"})], ids=["cut", "busy", "malformed"]
)
async def test_an_unanswered_early_request_is_retried_with_its_key(paths: Paths, first: Answer) -> None:
    with a_server(paths, lambda number: first if number == 1 else (201, {"id": "ses_1"}, {})) as came:
        assert await create(paths, send_early(NEW_SESSION, any_server=False)) == {"id": "ses_1"}
    sent = [
        {name: each[name] for name in ("idempotency-key", "content-length", "content-type")} for each in came
    ]
    assert len(sent) == 2
    assert sent[0] == sent[1]


async def test_an_error_in_answer_to_an_early_request_is_raised(paths: Paths) -> None:
    with (
        a_server(paths, lambda number: problem(400, "bad_request")),
        pytest.raises(BadRequest),
    ):
        await create(paths, send_early(NEW_SESSION, any_server=False))


async def test_nothing_is_sent_early_without_a_local_server(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send_early(NEW_SESSION, any_server=False) is None
    with a_server(paths, lambda number: (201, {"id": "ses_1"}, {})) as came:
        monkeypatch.setenv("HUTCH_SERVER", "http://127.0.0.1:1")  # another was named
        assert send_early(NEW_SESSION, any_server=True) is None
        missing = NewSession(prompt="Look.", repository="missing")  # the client says what is wrong
        assert send_early(missing, any_server=False) is None
    assert came == []
