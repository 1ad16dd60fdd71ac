"""`hutch test`: the tests of a repository in a jail, or of a session of the server."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from hutch import settings
from hutch.agent.jail_event_conversion import as_event
from hutch.app import configure_logs, jails
from hutch.app.allowed_local_repositories import settings_root
from hutch.app.in_place_sessions_without_agent import in_place_sessions
from hutch.cli.api_client import Client
from hutch.cli.git_author import author
from hutch.cli.jail_of_hutch_test import open_for_tests
from hutch.cli.local_session_client import DELTA
from hutch.cli.progress_of_test_runs import show_tests
from hutch.cli.server_requests import Json, ask, find_session, report_errors
from hutch.cli.session_event_stream import Update, follow
from hutch.cli.session_option_parsing import parse_variables
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.log_entry_audience import WHOLE, entry_json
from hutch.jail.egress import EgressAttempt
from hutch.jail.policy import MAX_TIMEOUT_S, Policy
from hutch.sessions.file_and_command_requests import CancelTests, StartTests, StopWatchingTests
from hutch.sessions.interface import Delta
from hutch.sessions.live_session import LiveSession
from hutch.settings import LoadedSettings

MAX_BLOCKED = 10  # hosts that are named
SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@report_errors
def test_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES]...", help="Only the tests in these files or directories."),
    ] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option("--test", "-t", metavar="NAME", help="Only this test, by its name; may be repeated."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only the tests that failed last time.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Run them again after each change.")] = False,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="SESSION", help="In this session of the server instead.")
    ] = "",
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", metavar="DIR", help="The directory with the repository.")
    ] = Path(),
    net: Annotated[
        list[str] | None,
        typer.Option("--net", metavar="HOST", help="A host that tests may reach; may be repeated."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable in the jail; may be repeated."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Stop the tests after this many seconds.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run the tests of the current repository, or of a session, in a jail.

    The runners are found by the files of the repository, or set with tests.command. Exits with 0 if all tests
    passed, 3 if not, 5 after a limit was hit, 6 if the runner is missing, and 130 after Ctrl-C, which keeps
    the results so far. With --json, prints the event `tests.run` of each run.
    """
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_S:
        raise BadRequest(
            f"--timeout is {timeout:g}. It must be above 0 and at most {MAX_TIMEOUT_S:g} seconds."
        )
    request = StartTests(tuple(files or ()), tuple(tests or ()), failed, timeout, watch)
    if session and env:
        raise BadRequest("--env is for a directory. A session keeps the variables that it was opened with.")
    if session:
        return ask(lambda client: _on_server(client, session, request, as_json=as_json), as_json=as_json)
    return _run_in_process(workspace, request, net or (), parse_variables(env), as_json=as_json)


async def _on_server(client: Client, name: str, request: StartTests, *, as_json: bool) -> int:
    found = await find_session(client, name)
    place = _Served(client, found["id"], request)
    return await show_tests(place, as_json=as_json, repeats=request.watch)


class _Served:
    """Tests in a session of the server."""

    def __init__(self, client: Client, session_id: str, request: StartTests) -> None:
        self._client, self._session_id, self._request = client, session_id, request
        self._path = f"/sessions/{session_id}/tests"
        self._after = 0

    async def begin(self) -> str:
        shown = await self._client.get(f"/sessions/{self._session_id}")
        self._after = int(shown["head"]["seq"])
        request = self._request
        body: dict[str, Any] = {"files": list(request.files), "tests": list(request.tests)}
        body |= {"failed": request.failed, "timeout_s": request.timeout_s, "watch": request.watch}
        return str((await self._client.post(self._path, body))["id"])

    def follow(self) -> AsyncGenerator[Update]:
        return follow(self._client, self._session_id, after=self._after)

    async def cancel(self, id: str) -> None:
        await self._client.post(f"{self._path}/{id}/cancel", {})

    async def stop_watching(self) -> None:
        await self._client.request("DELETE", f"{self._path}/watch")


def _run_in_process(
    workspace: Path,
    request: StartTests,
    net: Sequence[str],
    variables: tuple[tuple[str, str], ...],
    *,
    as_json: bool,
) -> int:
    """Run in a jail on a directory of this machine."""
    if not workspace.is_dir():
        wrong = "is not a directory" if workspace.exists() else "does not exist"
        raise NotFound(f"The workspace '{workspace}' {wrong}. Choose another: -w DIR.")
    loaded = settings.load(repo=settings_root(settings.find_paths(), workspace))
    configure_logs(loaded, quiet=True)
    for sentence in loaded.refused:
        typer.echo(f"hutch: warning: {sentence}", err=True)
    real = workspace.resolve()
    policy = jails.jail_policy(loaded.settings, network=net, variables=variables)
    # Scripts name their interpreter by the path under which it was installed.
    policy = replace(policy, also_at=(os.path.abspath(workspace), str(real)))  # noqa: PTH100
    policy = replace(policy, environment=(*policy.environment, *author().items()))
    return asyncio.run(
        _ended_by_signal(_in_jail(loaded, real, policy, _relative(request, real), as_json=as_json))
    )


async def _ended_by_signal(work: Coroutine[Any, Any, int]) -> int:
    with ended_by(*SIGNALS) as ended:
        try:
            return await work
        except asyncio.CancelledError:
            if not ended:
                raise
            return 128 + ended[0]


async def _in_jail(
    loaded: LoadedSettings, real: Path, policy: Policy, request: StartTests, *, as_json: bool
) -> int:
    live: LiveSession | None = None

    def report(attempt: EgressAttempt) -> None:
        if live is not None:
            live.recorder.report(as_event(attempt))
        if not attempt.allowed:
            blocked[f"{attempt.host}:{attempt.port}"] = attempt.reason

    blocked: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        outside = jails.egress_options(loaded.settings, report)
        jail, copy = await stack.enter_async_context(
            open_for_tests(loaded, real, policy, outside, watch=request.watch)
        )
        opening = in_place_sessions(loaded).open(real, jail, purpose=f"tests in {real}", copy=copy)
        live = await stack.enter_async_context(opening)
        place = _Local(live, (await live.sessions.get(live.id)).owner, request)
        code = await show_tests(place, as_json=as_json, repeats=request.watch)
        for host, reason in islice(blocked.items(), MAX_BLOCKED):
            typer.echo(f"hutch: blocked connection to {host}: {reason}", err=True)
        return code


def _relative(request: StartTests, root: Path) -> StartTests:
    """The same with files relative to the workspace: users name them relative to where they are."""
    files = []
    for file in request.files:
        path = Path(os.path.abspath(file))  # noqa: PTH100 (a link in it is one of the repository)
        files.append(str(path.relative_to(root)) if path.is_relative_to(root) else file)
    return replace(request, files=tuple(files))


class _Local:
    """Tests in a session of this process."""

    def __init__(self, live: LiveSession, by: str, request: StartTests) -> None:
        self._live, self._by, self._request = live, by, request
        self._after = 0

    async def begin(self) -> str:
        self._after = (await self._live.log.head(self._live.id)).seq
        return str(await self._live.call(self._request, by=self._by))

    async def follow(self) -> AsyncGenerator[Update]:
        channels = self._live.dependencies.channels
        async with aclosing(channels.follow(self._live.id, WHOLE, after=self._after)) as updates:
            async for update in updates:
                if isinstance(update, Delta):
                    yield Update(delta={name: getattr(update, name) for name in DELTA})
                else:
                    yield Update(entry=orjson.loads(entry_json(update)))

    async def cancel(self, id: str) -> None:
        await self._live.call(CancelTests(id), by=self._by)

    async def stop_watching(self) -> None:
        await self._live.call(StopWatchingTests(), by=self._by)
