"""`hutch sessions`: create, inspect and control sessions of the server."""

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.commands.attach import attach, attach_command
from hutch.cli.commands.run import (
    Effort,
    Env,
    Limit,
    MaxCost,
    MaxReplyTokens,
    MaxTokens,
    MaxTurns,
    Net,
    PlainDirectory,
    Secret,
    Temperature,
    Timeout,
    generation_of,
)
from hutch.cli.commands.session_file_prune import prune_command
from hutch.cli.commands.session_options import set_command
from hutch.cli.commands.session_shares import share_command, shares_of, unshare_command
from hutch.cli.directory_copy_consent import may_copy
from hutch.cli.local_session_lookup import is_new, stored_sessions
from hutch.cli.new_session_request_body import expand_home, request_body
from hutch.cli.new_session_starter_files import FileOption, FilesOption, read_starter_files
from hutch.cli.render.session_details import session_details
from hutch.cli.render.session_rows import age, helper_lines, state_of, table
from hutch.cli.run_wait_and_output import AwaitedRun, wait_for
from hutch.cli.sent_input_effect import describe_effect
from hutch.cli.server_address_and_token import uses_no_server
from hutch.cli.server_requests import (
    NONE_YET,
    Json,
    SessionName,
    ask,
    every_session,
    find_session,
    helpers_of,
    short,
)
from hutch.cli.session_option_parsing import parse_resources, parse_variables
from hutch.domain.errors import BadRequest
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.system.terminal_safe_text import one_line

app = typer.Typer(help="Create, watch and end sessions of the server.", no_args_is_help=True)

STATES = "queued|starting|idle|running|waiting|paused|parked|ended"
Wait = Annotated[bool, typer.Option("--wait", help="Show the run, and exit with the code of its outcome.")]
Repository = Annotated[
    str,
    typer.Option(
        "--repo",
        metavar="REPO",
        help="A directory, or the address of a repository; by default none: the workspace is empty.",
    ),
]
Purpose = Annotated[
    str, typer.Option(metavar="TEXT", help="A title for lists; by default the beginning of the prompt.")
]
Role = Annotated[str, typer.Option(metavar="TEXT", help="The role that the agent takes.")]
Company = Annotated[
    str, typer.Option(metavar="TEXT", help="The company that the work is for; the agent sees it.")
]
Expectations = Annotated[
    str, typer.Option(metavar="TEXT", help="The result that you expect; the agent sees it.")
]
Deliver = Annotated[
    bool, typer.Option("--deliver", help="Deliver the work of each run as a branch or pull request.")
]


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option(metavar=STATES, help="Only sessions in this state; may be repeated.")
    ] = None,
    search: Annotated[
        str, typer.Option(metavar="WORDS", help="Only sessions that contain these words.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The maximum number of sessions.")] = 20,
    interviews: Annotated[
        bool, typer.Option("--interviews", help="Also the rooms and workspaces of interviews.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List the sessions that you can view, newest first.

    Without a server, list all sessions of this machine, also those of `hutch run`.
    """
    for each in state or ():
        if each not in STATES.split("|"):
            raise BadRequest(f"There is no state {each[:40]!r}. Choose one of {STATES.replace('|', ', ')}.")

    def print_(found: list[dict[str, Any]]) -> None:
        if as_json:
            for session in found:
                typer.echo(json.dumps(session))
            return
        if not found:
            typer.echo("No session matches." if state or search else NONE_YET, err=True)
            return
        for line in table(found, shutil.get_terminal_size().columns):
            typer.echo(line)

    async def work(client: Client) -> None:
        found: list[dict[str, Any]] = []
        async for session in every_session(client, state=state or [], q=search, interviews=interviews):
            found.append(session)
            if len(found) == limit:
                break
        print_(found)

    if uses_no_server(loaded := settings.load()) and not is_new(loaded):
        stored = asyncio.run(
            stored_sessions(loaded, states=state or (), text=search, limit=limit, interviews=interviews)
        )
        if stored or state or search:
            print_(stored)
            return exit_codes.OK
    return ask(work, as_json=as_json)


@app.command()
def show(session: SessionName = "last", as_json: Json = False) -> int:
    """Show a session and the outcome of its runs."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        runs = (await client.get(f"/sessions/{found['id']}/runs", limit=20))["items"]
        shares = await shares_of(client, found["id"])
        helpers = await helpers_of(client, found["id"])
        if as_json:
            typer.echo(json.dumps({**found, "runs": runs, "shares": shares, "helpers": helpers}))
            return
        for name, value in session_details(found, shares):
            if value:
                typer.echo(f"{name:<14} {one_line(value, 500)}")
        for run in reversed(runs):
            if run["prompt"]:
                how = run["outcome"] or run["state"]
                typer.echo(f"{age(run['queued_ms']):>5} ago      {how:<13} {one_line(run['prompt'], 90)}")
                if run["reason"]:
                    typer.echo(f"{'':<28} {one_line(run['reason'], 500)}")
        if helpers:
            typer.echo("helpers")
            for line in helper_lines([found, *helpers]):
                typer.echo(line)

    return ask(work, as_json=as_json)


@app.command()
def new(
    prompt: Annotated[
        str, typer.Option("--prompt", "-p", metavar="TEXT", help="The first prompt; - reads it from stdin.")
    ] = "",
    repo: Repository = "",
    file: FileOption = None,
    files: FilesOption = None,
    revision: Annotated[str, typer.Option(metavar="REV", help="A branch, a tag or a commit.")] = "",
    purpose: Purpose = "",
    role: Role = "",
    company: Company = "",
    expectations: Expectations = "",
    persona: Annotated[str, typer.Option(metavar="PERSONA", help="The persona of the agent.")] = "",
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", help="The model to use.")] = "",
    net: Net = None,
    env: Env = None,
    secret: Secret = None,
    deliver: Deliver = False,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    temperature: Temperature = None,
    max_reply_tokens: MaxReplyTokens = None,
    effort: Effort = None,
    limit: Limit = None,
    attach_: Annotated[bool, typer.Option("--attach", "-a", help="Attach to it immediately.")] = False,
    wait: Wait = False,
    plain: PlainDirectory = False,
    as_json: Json = False,
) -> int:
    """Create a session; the server starts it when it has capacity."""
    text = _text(prompt)
    if wait and not text:
        raise BadRequest("--wait needs --prompt: without a prompt there is no run to wait for.")
    repo = expand_home(repo)
    new = NewSession(
        prompt=text,
        repository=repo,
        files=read_starter_files(file, files, repository=repo),
        plain_directory=may_copy(repo, plain, asks=not as_json),
        revision=revision,
        purpose=purpose,
        role=role,
        company=company,
        expectations=expectations,
        persona=persona,
        model=model,
        network=tuple(net or ()),
        variables=parse_variables(env),
        secrets=tuple(secret or ()),
        deliver=deliver,
        limits=RunLimits(max_turns, max_tokens, max_cost, timeout),
        resources=parse_resources(limit),
        generation=generation_of(temperature, max_reply_tokens, effort),
    )
    return _create(new, waits=wait, attaches=attach_ and not as_json, as_json=as_json)


def _create(new: NewSession, *, waits: bool, attaches: bool, as_json: bool) -> int:
    async def work(client: Client) -> int | None:
        made = await client.post("/sessions", request_body(new, is_local=client.address.is_local))
        if waits:
            run = AwaitedRun(delivers=new.deliver)
            return await wait_for(client, made["id"], run, after=0, as_json=as_json)
        if attaches:
            return await attach(client, made["id"], after=None, as_json=False)
        _print_made(made, as_json)
        return None

    return ask(work, as_json=as_json)


def _print_made(made: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made))
    else:
        typer.echo(made["id"])
        typer.echo(f"Watch it: hutch attach {short(made['id'])}", err=True)


app.command("attach")(attach_command)
app.command("set")(set_command)
app.command("share")(share_command)
app.command("unshare")(unshare_command)
app.command("prune")(prune_command)


@app.command()
def send(
    session: SessionName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads it from standard input.")],
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Start a new run with it, after the present one.")
    ] = False,
    wait: Wait = False,
    as_json: Json = False,
) -> int:
    """Send a message to the agent. A running agent reads it before its next step; else it starts a run."""
    message = _text(text)
    if not message.strip():
        raise BadRequest("The message is empty. Write a text, or - to read it from standard input.")

    async def work(client: Client) -> int | None:
        found = await find_session(client, session)
        before = (found["head"] or {}).get("seq", 0)
        accepted = await client.give(found["id"], "prompt" if prompt else "message", text=message)
        if wait:
            run = AwaitedRun(input=accepted["seq"], delivers=bool(found.get("deliver")))
            return await wait_for(client, found["id"], run, after=before, as_json=as_json)
        if as_json:
            typer.echo(json.dumps(accepted))
        else:
            typer.echo(await describe_effect(client, found, accepted))
            typer.echo(f"Watch it: hutch attach {short(found['id'])}", err=True)
        return None

    return ask(work, as_json=as_json)


@app.command()
def pause(session: SessionName, as_json: Json = False) -> int:
    """Pause a session until `resume`."""
    return give(session, "pause", as_json)


@app.command()
def resume(session: SessionName, as_json: Json = False) -> int:
    """Resume a paused session."""
    return give(session, "resume", as_json)


@app.command()
def cancel(session: SessionName, as_json: Json = False) -> int:
    """Cancel the run of a session; the session itself continues."""
    return give(session, "cancel", as_json)


@app.command()
def end(
    session: SessionName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown with the session.")] = "",
    as_json: Json = False,
) -> int:
    """End a session. Its files can still be read, compared and forked."""
    return give(session, "end", as_json, reason=reason)


@app.command()
def fork(
    session: SessionName,
    snapshot: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Fork from this snapshot; by default from the current files."),
    ] = None,
    with_conversation: Annotated[
        bool,
        typer.Option("--with-conversation", help="The agent continues with the conversation up to then."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Create a new session with the files of another."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        options = {"snapshot": snapshot, "conversation": with_conversation}
        _print_made(await client.post(f"/sessions/{found['id']}/fork", options), as_json)

    return ask(work, as_json=as_json)


@app.command()
def rm(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="Session ids, as for show.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> int:
    """End sessions and delete their files. Their logs stay."""

    async def work(client: Client) -> int | None:
        found = [await find_session(client, name) for name in dict.fromkeys(sessions)]
        if not yes:
            if not sys.stdin.isatty():
                raise BadRequest("This deletes files, and there is no terminal to confirm it. Use --yes.")
            for each in found:
                typer.echo(f"{short(each['id'])}  {state_of(each):<8}  {one_line(each['purpose'], 60)}")
            if not typer.confirm("Delete these sessions and their files?"):
                return exit_codes.NO
        for each in found:
            await client.delete(f"/sessions/{each['id']}")
            typer.echo(json.dumps({"removed": each["id"]}) if as_json else f"{each['id']} is removed.")
        return None

    return ask(work, as_json=as_json)


def give(session: str, kind: str, as_json: bool, **fields: Any) -> int:
    """Send an input to a session and print its effect."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        accepted = await client.give(found["id"], kind, **fields)
        if as_json:
            now = await client.get(f"/sessions/{found['id']}")
            typer.echo(json.dumps({**accepted, "session": found["id"], "state": now["state"]}))
        else:
            typer.echo(await describe_effect(client, found, accepted))

    return ask(work, as_json=as_json)


def _text(argument: str) -> str:
    return sys.stdin.read() if argument == "-" else argument
