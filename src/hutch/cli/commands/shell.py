"""`hutch shell`: a jail for users, on the current directory.

When input and output are terminals, the program inside gets one too; otherwise its standard output
and error are passed through separately.
"""

import asyncio
import hashlib
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hutch import settings
from hutch.app import configure_logs, jails
from hutch.app.allowed_local_repositories import settings_root
from hutch.cli import exit_codes
from hutch.cli.async_stdio import Inlet
from hutch.cli.closed_terminal_watchdog import is_terminal_closed
from hutch.cli.git_author import author
from hutch.cli.jailed_program_input_output import ProgramRequest, on_pipes, on_terminal
from hutch.cli.lent_terminal import OwnTerminal, known_type
from hutch.cli.limit_messages import Hits
from hutch.cli.local_only_notice import say_local
from hutch.cli.session_option_parsing import parse_variables
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.jail.egress import EgressAttempt
from hutch.jail.interface import Exit, OnOutput
from hutch.jail.jail_startup import Jailed
from hutch.jail.policy import PROFILES, Policy
from hutch.jail.shared_terminal import open_terminal
from hutch.system.fast_imports import load_structlog, without_gc

if TYPE_CHECKING:
    from hutch.cli.shell_recording import ShellRecording

DAY_S = 86_400
MIN_SHELL_S = 1.0  # a shell that ended sooner is not restarted
MAX_COUNTED_REFUSALS, MAX_SHOWN_REFUSALS = 1000, 10
ID_PREFIX = "ses_"  # of session ids
SHORT_ID_CHARS = 6  # of session ids in lists
NO_JAIL = "NO JAIL: this runs on your machine with your rights, files and network (--unsafe-no-jail)."
UNSAFE_WORKSPACE = (
    "UNSAFE WORKSPACE: programs in the jail may change this machine or Hutch itself (--unsafe-workspace)."
)
LOUD, QUIET = "\x1b[1;41;97m", "\x1b[0m"


class Unsafe(NamedTuple):
    """The protections that the user switched off."""

    workspace: bool
    no_jail: bool


Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable in the jail; may be repeated."),
]
UnsafeWorkspace = Annotated[
    bool, typer.Option("--unsafe-workspace", help="Allow system and home directories, and Hutch's own.")
]
UnsafeNoJail = Annotated[
    bool, typer.Option("--unsafe-no-jail", help="Run it directly on this machine, without a jail.")
]


def shell_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- CMD...", help="A command, by default a shell; or the id of a session on the server."
        ),
    ] = None,
    session: Annotated[
        str,
        typer.Option(
            "--session", "-s", metavar="SESSION", help="Run it in this session of the server instead."
        ),
    ] = "",
    terminal: Annotated[
        str, typer.Option(metavar="ID", help="With a session: reattach to this terminal of it.")
    ] = "",
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", metavar="DIR", help="The directory to work on, in place.")
    ] = Path(),
    net: Annotated[
        list[str] | None,
        typer.Option("--net", metavar="HOST", help="A host that programs may reach; may be repeated."),
    ] = None,
    env: Env = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="|".join(PROFILES), help="Limits as for agents, for test runs, or for small tools."
        ),
    ] = "agent",
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="Kill everything after this many seconds; by default, no timeout."),
    ] = None,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Record nothing: open no session in the log.")
    ] = False,
    unsafe_workspace: UnsafeWorkspace = False,
    unsafe_no_jail: UnsafeNoJail = False,
) -> int:
    """Open a jailed shell on a directory, or run one command there.

    Programs can change only this directory; the rest of the machine, its network and its secrets are out
    of reach. The exit code is the command's, or 128 plus the signal that ended it; 5 after a limit was
    hit; 126 or 127 when the command could not be started. The log records what was run and printed.

    `hutch shell SESSION` opens a terminal in a session of the server; Ctrl-] detaches.
    `hutch shell -s SESSION -- CMD` runs one command there.
    """
    if timeout is not None and not 0 < timeout <= DAY_S:
        raise BadRequest(f"--timeout is {timeout:g}. It must be more than 0 and at most {DAY_S} (a day).")
    argv = tuple(command or ())
    if env and session:
        raise BadRequest("--env is for a directory. A session keeps the variables that it was opened with.")
    if (there := _in_session(session, argv, terminal, timeout)) is not None:
        return there
    unsafe = Unsafe(workspace=unsafe_workspace, no_jail=unsafe_no_jail)
    variables = parse_variables(env)
    return _run_in_jail(argv, workspace, profile, net or (), variables, timeout, unsafe, has_log=not no_log)


def _in_session(session: str, argv: tuple[str, ...], terminal: str, timeout_s: float | None) -> int | None:
    """Run in a session and return the exit code; None when the arguments name no session."""
    if not session and not (argv and _may_be_session(argv[0])):
        return None
    from hutch.cli.commands.session_shell import is_session, session_shell

    if not session:
        if len(argv) > 1 and not argv[0].startswith(ID_PREFIX):
            return None
        if not is_session(argv[0]):
            return None
        session, argv = argv[0], argv[1:]
    if not argv:
        return session_shell(session, terminal)
    if terminal:
        raise BadRequest("A single command does not use a terminal. Omit --terminal or the command.")
    from hutch.cli.commands.command_in_session import session_command

    return session_command(session, argv, timeout_s)


def _run_in_jail(
    argv: tuple[str, ...],
    workspace: Path,
    profile: str,
    net: Sequence[str],
    variables: tuple[tuple[str, str], ...],
    timeout_s: float | None,
    unsafe: Unsafe,
    *,
    has_log: bool,
) -> int:
    """Run in a jail on a directory of this machine."""
    _open_closed_stdio()
    say_local("shell")
    if not workspace.is_dir():
        wrong = "is not a directory" if workspace.exists() else "does not exist"
        raise NotFound(f"The workspace '{workspace}' {wrong}. Create it first, or choose another: -w DIR.")
    loaded = settings.load(repo=settings_root(settings.find_paths(), workspace))
    configure_logs(loaded, quiet=True)
    for sentence in loaded.refused:
        _say(f"warning: {sentence}")
    policy = jails.jail_policy(loaded.settings, profile_name=profile, network=net, variables=variables)
    # Scripts name their interpreter by the path under which it was installed.
    policy = replace(policy, also_at=(os.path.abspath(workspace), str(workspace.resolve())))  # noqa: PTH100
    own = OwnTerminal() if OwnTerminal.is_there() else None
    env = {"TERM": known_type(settings.terminal_type()), **author()}
    request = ProgramRequest(argv, env, timeout_s)
    if unsafe.workspace:
        _warn(UNSAFE_WORKSPACE)
    if unsafe.no_jail:
        _warn(NO_JAIL)
    elif own is not None and not argv:
        _say(_banner(workspace.resolve(), policy, has_log=has_log))
    return asyncio.run(_run(request, workspace, policy, own, unsafe, loaded, has_log=has_log))


async def _run(
    request: ProgramRequest,
    workspace: Path,
    policy: Policy,
    own: OwnTerminal | None,
    unsafe: Unsafe,
    loaded: settings.LoadedSettings,
    *,
    has_log: bool,
) -> int:
    refused: Counter[str] = Counter()
    recording: ShellRecording | None = None

    def note(attempt: EgressAttempt) -> None:
        if recording is not None:
            recording.note_egress(attempt)
        if not attempt.allowed and len(refused) < MAX_COUNTED_REFUSALS:
            refused[f"{attempt.host}:{attempt.port}: {attempt.reason}"] += 1

    with ended_by(signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT) as ended:
        try:
            async with AsyncExitStack() as stack:
                loading = asyncio.ensure_future(_load_recording()) if has_log else None
                opening = jails.open_jail(
                    workspace,
                    policy,
                    outside=jails.egress_options(loaded.settings, note),
                    unsafe_workspace=unsafe.workspace,
                    unsafe_no_jail=unsafe.no_jail,
                )
                jail = await stack.enter_async_context(opening)
                if loading is not None:
                    record_shell = await loading
                    recording = await stack.enter_async_context(record_shell(loaded, workspace, jail, _say))
                linked = await jail.linked_outside()
                if linked and (not request.argv or _is_first_warning(workspace)):
                    _say(
                        f"{linked} files here are hard links to files elsewhere, which commands can change; "
                        "docs/security.md explains how to avoid this"
                    )
                hits = Hits(jail, loaded.settings)
                program = Program(jail, request, recording)
                exit_ = await (_at_terminal(program, own, hits) if own else program.on_pipes())
                await jail.find_growth()
                sentences = hits.since_last(exit_)
        except asyncio.CancelledError:
            if not ended:
                raise
            return 128 + ended[0]
        finally:
            for reason, times in refused.most_common(MAX_SHOWN_REFUSALS):
                _say(f"blocked connection to {reason}" + (f" ({times} times)" if times > 1 else ""))
    code = exit_.code if exit_.code is not None else 128 + (exit_.signal or 0)
    for sentence in sentences:
        _say(sentence)
    if own and not request.argv and exit_.signal:
        _say("The jail is closed; you are back on this machine.")
    # A command may have recovered from a limit, and a shell outlives the programs it starts.
    return exit_codes.LIMIT_REACHED if code and hits.any and (request.argv or exit_.signal) else code


def _is_first_warning(workspace: Path) -> bool:
    """True if single commands have not yet warned about the hard links of this directory."""
    name = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()[:24]
    marker = settings.find_paths().state / "hard-links" / name
    try:
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # it cannot be remembered
        return True
    return True


async def _load_recording() -> "Callable[..., AbstractAsyncContextManager[ShellRecording]]":
    """Import the parts of a session, which takes longer than the start of the jail."""
    load_structlog()  # before the thread: other modules may need what structlog must not find

    def load() -> "Callable[..., AbstractAsyncContextManager[ShellRecording]]":
        with without_gc():
            from hutch.cli.shell_recording import record_shell

        return record_shell

    return await asyncio.to_thread(load)


class Program(NamedTuple):
    """A program in the jail, and the session that records it, if any."""

    jail: Jailed
    request: ProgramRequest
    recording: "ShellRecording | None"

    async def on_pipes(self) -> Exit:
        return await self._run(partial(on_pipes, self.jail, self.request))

    async def on_terminal(self, own: OwnTerminal, keys: Inlet) -> Exit:
        jail, request = self.jail, self.request
        if self.recording is not None and not request.argv:  # the session's terminal records itself
            return await on_terminal(
                jail, request, own, keys, self.recording.open_terminal(own.size(), request.env)
            )
        opening = open_terminal(jail, request.words, size=own.size(), env=request.env)
        return await self._run(partial(on_terminal, jail, request, own, keys, opening))

    async def _run(self, start: Callable[[OnOutput | None], Awaitable[Exit]]) -> Exit:
        if self.recording is None:
            return await start(None)
        async with self.recording.command(self.request.words, self.jail.workspace) as command:
            try:
                command.exit = await start(command.add)
            except LimitReached:
                command.timed_out = True
                raise
            return command.exit


async def _at_terminal(program: Program, own: OwnTerminal, hits: Hits) -> Exit:
    """Run a program on the user's terminal.

    When a limit kills everything in the jail, start a new shell: keys meant for the jail must not reach the
    shell outside.
    """
    keys = Inlet(0)
    while True:
        began = time.monotonic()
        showing = asyncio.create_task(hits.show())
        try:
            exit_ = await program.on_terminal(own, keys)
        finally:
            showing.cancel()
        sentences = hits.since_last(exit_)
        for number, sentence in enumerate(sentences):
            typer.echo(("\n" if not number else "") + f"hutch: {sentence}", err=True)
        is_ended = exit_.signal == signal.SIGKILL and hits.any
        if program.request.argv or not is_ended or time.monotonic() - began < MIN_SHELL_S:
            return exit_
        _say("Every program in the jail was killed. You are in a new shell in the same jail.")
        hits.reset()


def _may_be_session(word: str) -> bool:
    """A cheap check that rules out the names of most programs."""
    return word.startswith(ID_PREFIX) or (len(word) == SHORT_ID_CHARS and word.isalnum())


def _open_closed_stdio() -> None:
    """Open descriptors 0, 1 and 2 if the parent closed them, so that no other file gets these numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _banner(workspace: Path, policy: Policy, *, has_log: bool) -> str:
    limits = policy.limits
    network = f"only {', '.join(policy.network)}" if policy.network else "none"
    return (
        f"jailed in {workspace}; network: {network}; limits: {readable_size(limits.memory_bytes)} memory, "
        f"{limits.processes} processes, {readable_size(limits.workspace_growth_bytes)} growth"
        f"{'; recorded: hutch log last' if has_log else '; not recorded'}"
    )


def _warn(text: str) -> None:
    _say(f"{LOUD} {text} {QUIET}" if os.isatty(2) else f"WARNING: {text}")


def _say(sentence: str) -> None:
    if not is_terminal_closed(2):  # writing to a closed terminal fails
        typer.echo(f"hutch: {sentence}", err=True)
