"""`hutch shell`: a jail for people, on the directory they are in.

With a terminal on both ends the program inside gets one too; otherwise its
output is passed through as it comes, standard output and error apart.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hutch import app, settings
from hutch.app import jails
from hutch.cli import exit_codes
from hutch.cli.descriptor_io import Inlet
from hutch.cli.git_author import author
from hutch.cli.hangup import is_gone
from hutch.cli.jailed_program import ProgramRequest, on_terminal, plainly
from hutch.cli.limit_messages import Hits
from hutch.cli.signals import ended_by
from hutch.cli.user_terminal import OwnTerminal, known_type
from hutch.domain.errors import BadRequest, NotFound
from hutch.jail.egress import EgressAttempt
from hutch.jail.interface import Exit
from hutch.jail.jail import Jailed
from hutch.jail.limits.limit_hits import size
from hutch.jail.policy import PROFILES, Policy

DAY_S = 86_400
SHORT_S = 1.0  # a shell that lived no longer is not tried again
MOST_NOTED, MOST_REFUSALS = 1000, 10
WHOLE_ID = "ses_"  # how ids of sessions begin
SHORT_ID = 6  # letters by which lists name a session
NO_JAIL = "NO JAIL: this runs on your machine with your rights, files and network (--unsafe-no-jail)."
UNSAFE_WORKSPACE = (
    "UNSAFE WORKSPACE: what runs in the jail may change this machine or Hutch itself (--unsafe-workspace)."
)
LOUD, QUIET = "\x1b[1;41;97m", "\x1b[0m"


class Unsafe(NamedTuple):
    """What the user wants to do without."""

    workspace: bool
    no_jail: bool


def shell_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- CMD...", help="A command; without it, a shell. Or a session of the server, by its id."
        ),
    ] = None,
    session: Annotated[
        str,
        typer.Option("--session", "-s", metavar="SESSION", help="In this session of the server instead."),
    ] = "",
    terminal: Annotated[
        str, typer.Option(metavar="ID", help="With a session: come back to this terminal of it.")
    ] = "",
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", metavar="DIR", help="The directory to work on, in place.")
    ] = Path(),
    net: Annotated[
        list[str] | None,
        typer.Option("--net", metavar="HOST", help="A host that may be reached; again for more."),
    ] = None,
    profile: Annotated[str, typer.Option(metavar="|".join(PROFILES), help="Which limits apply.")] = "agent",
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Seconds until everything is killed; as long as it takes when not given."
        ),
    ] = None,
    unsafe_workspace: Annotated[
        bool,
        typer.Option("--unsafe-workspace", help="Also on the system, a home, or where Hutch itself is."),
    ] = False,
    unsafe_no_jail: Annotated[
        bool, typer.Option("--unsafe-no-jail", help="Run it on this machine, without any walls.")
    ] = False,
) -> int:
    """Open a jailed shell on a directory, or run one command there.

    Only the directory can be changed; nothing else of this machine, its network and its secrets is in
    reach. The exit code is the command's, or 128 and the signal that ended it; 5 when it was a limit,
    126 or 127 when it could not be started.

    `hutch shell SESSION` opens a terminal of a session of the server, which Ctrl-] leaves;
    `hutch shell -s SESSION -- CMD` runs one command there.
    """
    if timeout is not None and not 0 < timeout <= DAY_S:
        raise BadRequest(f"--timeout is {timeout:g}. Give more than 0 and at most {DAY_S}, which is a day.")
    argv = tuple(command or ())
    if (there := _in_session(session, argv, terminal, timeout)) is not None:
        return there
    unsafe = Unsafe(workspace=unsafe_workspace, no_jail=unsafe_no_jail)
    return _here(argv, workspace, profile, net or (), timeout, unsafe)


def _in_session(session: str, argv: tuple[str, ...], terminal: str, timeout_s: float | None) -> int | None:
    """The exit code of what was done in a session; None when none is meant."""
    if not session and not (argv and _may_be_session(argv[0])):
        return None
    from hutch.cli.commands.session_shell import is_session, session_shell

    if not session:
        if len(argv) > 1 and not argv[0].startswith(WHOLE_ID):
            return None
        if not is_session(argv[0]):
            return None
        session, argv = argv[0], argv[1:]
    if not argv:
        return session_shell(session, terminal)
    if terminal:
        raise BadRequest("A command runs in no terminal. Leave --terminal out, or the command.")
    from hutch.cli.commands.session_command import session_command

    return session_command(session, argv, timeout_s)


def _here(
    argv: tuple[str, ...],
    workspace: Path,
    profile: str,
    net: Sequence[str],
    timeout_s: float | None,
    unsafe: Unsafe,
) -> int:
    """A jail of this machine, on a directory."""
    _fill_ends()
    if not workspace.is_dir():
        wrong = "is not a directory" if workspace.exists() else "is not there"
        raise NotFound(f"The workspace '{workspace}' {wrong}. Make it first, or name another: -w DIR.")
    loaded = settings.load(repo=workspace)
    app.configure_logs(loaded)
    for sentence in loaded.refused:
        _say(f"warning: {sentence}")
    policy = jails.jail_policy(loaded.settings, profile_name=profile, network=net)
    # Scripts name their interpreter by the path that they were installed under.
    policy = replace(policy, also_at=(os.path.abspath(workspace), str(workspace.resolve())))  # noqa: PTH100
    own = OwnTerminal() if OwnTerminal.is_there() else None
    env = {"TERM": known_type(settings.terminal_type()), **author()}
    wish = ProgramRequest(argv, env, timeout_s)
    if unsafe.workspace:
        _warn(UNSAFE_WORKSPACE)
    if unsafe.no_jail:
        _warn(NO_JAIL)
    elif own is not None and not argv:
        _say(_banner(workspace.resolve(), policy))
    return asyncio.run(_run(wish, workspace, policy, own, unsafe, loaded.settings))


async def _run(
    wish: ProgramRequest,
    workspace: Path,
    policy: Policy,
    own: OwnTerminal | None,
    unsafe: Unsafe,
    chosen: settings.Settings,
) -> int:
    refused: Counter[str] = Counter()

    def note(attempt: EgressAttempt) -> None:
        if not attempt.allowed and len(refused) < MOST_NOTED:
            refused[f"{attempt.host}:{attempt.port}: {attempt.reason}"] += 1

    with ended_by(signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT) as ended:
        try:
            async with jails.open_jail(
                workspace,
                policy,
                outside=jails.way_out(chosen, note),
                unsafe_workspace=unsafe.workspace,
                unsafe_no_jail=unsafe.no_jail,
            ) as jail:
                if linked := await jail.linked_outside():
                    _say(
                        f"{linked} files here are hard links of files elsewhere, which commands can change: "
                        "docs/security.md tells how to avoid it"
                    )
                hits = Hits(jail, chosen)
                exit_ = await (_at_terminal(jail, wish, own, hits) if own else plainly(jail, wish))
                sentences = hits.since_last(exit_)
        except asyncio.CancelledError:
            if not ended:
                raise
            return 128 + ended[0]
        finally:
            for reason, times in refused.most_common(MOST_REFUSALS):
                _say(f"no way out to {reason}" + (f" ({times} times)" if times > 1 else ""))
    code = exit_.code if exit_.code is not None else 128 + (exit_.signal or 0)
    for sentence in sentences:
        _say(sentence)
    if own and not wish.argv and exit_.signal:
        _say("The jail is closed; you are back on this machine.")
    # A command may have coped with it, and a shell outlives what it starts.
    return exit_codes.LIMIT_REACHED if code and hits.any and (wish.argv or exit_.signal) else code


async def _at_terminal(jail: Jailed, wish: ProgramRequest, own: OwnTerminal, hits: Hits) -> Exit:
    """A program on the user's terminal. When a limit ends a shell with all that ran in the jail, there is a
    new one: nobody shall type on for this machine what was meant for the jail."""
    keys = Inlet(0)
    while True:
        began = time.monotonic()
        showing = asyncio.create_task(hits.show())
        try:
            exit_ = await on_terminal(jail, wish, own, keys)
        finally:
            showing.cancel()
        sentences = hits.since_last(exit_)
        for number, sentence in enumerate(sentences):
            typer.echo(("\n" if not number else "") + f"hutch: {sentence}", err=True)
        is_ended = exit_.signal == signal.SIGKILL and hits.any
        if wish.argv or not is_ended or time.monotonic() - began < SHORT_S:
            return exit_
        _say("All that ran in the jail was ended. It is still the same jail, with a new shell.")
        hits.begin_anew()


def _may_be_session(word: str) -> bool:
    """Whether it is worth a closer look; most programs are called otherwise."""
    return word.startswith(WHOLE_ID) or (len(word) == SHORT_ID and word.isalnum())


def _fill_ends() -> None:
    """Whoever started us may have closed 0, 1 or 2: nothing else of ours must come to lie there."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _banner(workspace: Path, policy: Policy) -> str:
    limits = policy.limits
    network = f"only {', '.join(policy.network)}" if policy.network else "none"
    return (
        f"jailed in {workspace}; network: {network}; limits: {size(limits.memory_bytes)} memory, "
        f"{limits.processes} processes, {size(limits.workspace_growth_bytes)} growth"
    )


def _warn(text: str) -> None:
    _say(f"{LOUD} {text} {QUIET}" if os.isatty(2) else f"WARNING: {text}")


def _say(sentence: str) -> None:
    if not is_gone(2):  # as a terminal that vanished: to write there fails
        typer.echo(f"hutch: {sentence}", err=True)
