"""`hutch sessions`: make sessions of the server, look at them, and tell them what to do."""

import json
import shutil
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.cli.commands.attach import attach, attach_command
from hutch.cli.commands.run import MaxCost, MaxTokens, MaxTurns, Net, PlainDirectory, Timeout
from hutch.cli.commands.session_prune import prune_command
from hutch.cli.commands.session_shares import share_command, shares_of, unshare_command
from hutch.cli.copy_consent import may_copy
from hutch.cli.input_result import acknowledged, newest_snapshot
from hutch.cli.render.delivery import delivery_lines
from hutch.cli.render.session_rows import age, state_of, table
from hutch.cli.run_wait import AwaitedRun, wait_for
from hutch.cli.server_requests import (
    NONE_YET,
    Json,
    SessionName,
    ask,
    every_session,
    find_session,
    short,
)
from hutch.cli.session_options import expand_home, request_body
from hutch.domain.errors import BadRequest
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.system.terminal_text import one_line

app = typer.Typer(help="Make, watch and end sessions of the server.", no_args_is_help=True)

STATES = "queued|starting|idle|running|waiting|paused|parked|ended"
Wait = Annotated[bool, typer.Option("--wait", help="Show what comes of it, and exit by how it ends.")]
Deliver = Annotated[bool, typer.Option("--deliver", help="End a run that changed something in a change.")]


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option(metavar=STATES, help="Only those in this state; may be repeated.")
    ] = None,
    search: Annotated[str, typer.Option(metavar="WORDS", help="Only those with these words.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 20,
    as_json: Json = False,
) -> int:
    """List the sessions that you may see, the newest first."""
    for each in state or ():
        if each not in STATES.split("|"):
            raise BadRequest(f"There is no state {each[:40]!r}; there is {STATES.replace('|', ', ')}.")

    async def work(client: Client) -> None:
        found: list[dict[str, Any]] = []
        async for session in every_session(client, state=state or [], q=search):
            found.append(session)
            if len(found) == limit:
                break
        if as_json:
            for session in found:
                typer.echo(json.dumps(session))
            return
        if not found:
            typer.echo("None fits." if state or search else NONE_YET, err=True)
            return
        for line in table(found, shutil.get_terminal_size().columns):
            typer.echo(line)

    return ask(work, as_json=as_json)


@app.command()
def show(session: SessionName = "last", as_json: Json = False) -> int:
    """Show one session, and what became of its prompts."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        runs = (await client.get(f"/sessions/{found['id']}/runs", limit=20))["items"]
        shares = await shares_of(client, found["id"])
        if as_json:
            typer.echo(json.dumps({**found, "runs": runs, "shares": shares}))
            return
        state = state_of(found) + (f": {found['reason']}" if found["reason"] else "")
        rows = [
            ("session", found["id"]),
            ("state", state),
            ("purpose", found["purpose"]),
            ("role", found["role"]),
            ("expectations", found["expectations"]),
            ("owner", found.get("owner_name") or found["owner"]),
            ("shared with", ", ".join(f"{each['user_name']} ({each['role']})" for each in shares)),
            ("repository", f"{found['repository']} {found['revision']}".strip()),
            ("persona", found["persona"]),
            ("model", found["model"]),
            ("network", ", ".join(found["network"])),
            ("forked from", found["forked_from"]),
            ("delivers", "yes" if found["deliver"] else ""),
            ("age", age(found["created_ms"])),
            ("events", str((found["head"] or {}).get("seq", 0))),
            *_delivery(found),
        ]
        for name, value in rows:
            if value:
                typer.echo(f"{name:<13} {one_line(value, 500)}")
        for run in reversed(runs):
            if run["prompt"]:
                how = run["outcome"] or run["state"]
                typer.echo(f"{age(run['queued_ms']):>5} ago     {how:<13} {one_line(run['prompt'], 90)}")
                if run["reason"]:
                    typer.echo(f"{'':<27} {one_line(run['reason'], 500)}")

    return ask(work, as_json=as_json)


@app.command()
def new(
    prompt: Annotated[
        str, typer.Option("--prompt", "-p", metavar="TEXT", help="What to do first; - reads it from stdin.")
    ] = "",
    repo: Annotated[
        str, typer.Option(metavar="REPO", help="A directory or an address; without, it begins with nothing.")
    ] = "",
    revision: Annotated[str, typer.Option(metavar="REV", help="A branch, a tag or a commit.")] = "",
    purpose: Annotated[str, typer.Option(metavar="TEXT", help="What it is for, in a line.")] = "",
    role: Annotated[str, typer.Option(metavar="TEXT", help="Who the agent is to be in it.")] = "",
    expectations: Annotated[str, typer.Option(metavar="TEXT", help="What is expected of the result.")] = "",
    persona: Annotated[str, typer.Option(metavar="PERSONA", help="Who works on it.")] = "",
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", help="The model that thinks.")] = "",
    net: Net = None,
    deliver: Deliver = False,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    attach_: Annotated[bool, typer.Option("--attach", "-a", help="Watch it at once.")] = False,
    wait: Wait = False,
    plain: PlainDirectory = False,
    as_json: Json = False,
) -> int:
    """Make a session; the server takes it up when there is room."""
    text = _text(prompt)
    if wait and not text:
        raise BadRequest("There is nothing to wait for without --prompt.")
    repo = expand_home(repo)
    new = NewSession(
        prompt=text,
        repository=repo,
        plain_directory=may_copy(repo, plain, asks=not as_json),
        revision=revision,
        purpose=purpose,
        role=role,
        expectations=expectations,
        persona=persona,
        model=model,
        network=tuple(net or ()),
        deliver=deliver,
        limits=RunLimits(max_turns, max_tokens, max_cost, timeout),
    )

    async def work(client: Client) -> int | None:
        made = await client.post("/sessions", request_body(new, is_local=client.address.is_local))
        if wait:
            return await wait_for(client, made["id"], AwaitedRun(delivers=deliver), after=0, as_json=as_json)
        if attach_ and not as_json:
            return await attach(client, made["id"], after=None, as_json=False)
        if as_json:
            typer.echo(json.dumps(made))
        else:
            typer.echo(made["id"])
            typer.echo(f"Watch it: hutch attach {short(made['id'])}", err=True)
        return None

    return ask(work, as_json=as_json)


app.command("attach")(attach_command)
app.command("share")(share_command)
app.command("unshare")(unshare_command)
app.command("prune")(prune_command)


@app.command()
def send(
    session: SessionName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    prompt: Annotated[
        bool, typer.Option("--prompt", help="As a prompt of its own, also while the agent works.")
    ] = False,
    wait: Wait = False,
    as_json: Json = False,
) -> int:
    """Say something to the agent. Who works hears it before the next step; else it is a prompt."""
    said = _text(text)
    if not said.strip():
        raise BadRequest("There is nothing to send. Say something, or - to read it from stdin.")

    async def work(client: Client) -> int | None:
        found = await find_session(client, session)
        before = (found["head"] or {}).get("seq", 0)
        given = await client.give(found["id"], "prompt" if prompt else "message", text=said)
        if wait:
            wanted = AwaitedRun(input=given["seq"], delivers=bool(found.get("deliver")))
            return await wait_for(client, found["id"], wanted, after=before, as_json=as_json)
        if as_json:
            typer.echo(json.dumps(given))
        else:
            typer.echo(await acknowledged(client, found, given))
            typer.echo(f"See what comes of it: hutch attach {short(found['id'])}", err=True)
        return None

    return ask(work, as_json=as_json)


@app.command()
def pause(session: SessionName, as_json: Json = False) -> int:
    """Stop a session where it is, until `resume`."""
    return give(session, "pause", as_json)


@app.command()
def resume(session: SessionName, as_json: Json = False) -> int:
    """Let a session go on that was paused."""
    return give(session, "resume", as_json)


@app.command()
def cancel(session: SessionName, as_json: Json = False) -> int:
    """Stop the run of a session; the session itself goes on."""
    return give(session, "cancel", as_json)


@app.command()
def end(
    session: SessionName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for those who look later.")] = "",
    as_json: Json = False,
) -> int:
    """End a session. Its files can still be read, compared and forked."""
    return give(session, "end", as_json, reason=reason)


@app.command()
def fork(
    session: SessionName,
    snapshot: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="From this snapshot; without, from now.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a new session with the files of another."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        made = await client.post(f"/sessions/{found['id']}/fork", {"snapshot": snapshot})
        if as_json:
            typer.echo(json.dumps(made))
        else:
            typer.echo(made["id"])
            typer.echo(f"Watch it: hutch attach {short(made['id'])}", err=True)

    return ask(work, as_json=as_json)


@app.command()
def rm(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="Which; as for show.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """End sessions and delete their files. Their logs stay."""

    async def work(client: Client) -> int | None:
        found = [await find_session(client, name) for name in dict.fromkeys(sessions)]
        if not yes:
            if not sys.stdin.isatty():
                raise BadRequest("This deletes files. Say --yes when nobody is there to be asked.")
            for each in found:
                typer.echo(f"{short(each['id'])}  {state_of(each):<8}  {one_line(each['purpose'], 60)}")
            if not typer.confirm("Delete these with their files?"):
                return exit_codes.NO
        for each in found:
            await client.delete(f"/sessions/{each['id']}")
            typer.echo(json.dumps({"removed": each["id"]}) if as_json else f"{each['id']} is removed.")
        return None

    return ask(work, as_json=as_json)


def _delivery(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the last delivery ended; what only reviews has nothing that could be delivered once more."""
    told = session.get("delivered")
    lines = delivery_lines(told["run_id"], told) if told else []
    return lines if session["deliver"] else lines[:1]


def give(session: str, kind: str, as_json: bool, **fields: Any) -> int:
    """Give an input to a session, and tell what came of it."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        newest = await newest_snapshot(client, found["id"]) if kind == "undo" else None
        given = await client.give(found["id"], kind, **fields)
        if as_json:
            now = await client.get(f"/sessions/{found['id']}")
            typer.echo(json.dumps({**given, "session": found["id"], "state": now["state"]}))
        else:
            typer.echo(await acknowledged(client, found, given, newest=newest))

    return ask(work, as_json=as_json)


def _text(given: str) -> str:
    return sys.stdin.read() if given == "-" else given
