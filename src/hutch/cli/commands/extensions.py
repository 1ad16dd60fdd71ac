"""`hutch extensions`: third-party programs that give the agent tools, each in a jail of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hutch import settings
from hutch.agent.extensions.extension_trial import TrialResult, parse_call
from hutch.app.event_log import event_log
from hutch.app.extensions import extension_management
from hutch.domain.errors import BadRequest
from hutch.flows.extensions.extension_management import Entry, ExtensionManagement, entry_json
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.system.terminal_safe_text import one_line, visible

app = typer.Typer(
    help="List, add, try and approve extensions: MCP servers and your own tools.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[str, typer.Argument(metavar="EXTENSION", help="Its name, as listed.")]
Texts = list[str] | None
Result = TypeVar("Result")
SHOWN_FILES = 12
SHOWN_CHARS = 100


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the extensions of the catalogue with their states."""
    entries = _run(lambda management, _: management.list())
    if as_json:
        typer.echo(json.dumps([entry_json(each) for each in entries]))
        return
    for each in entries:
        about = each.problem or (each.manifest.description if each.manifest else "")
        typer.echo(visible(f"{each.name}  {each.state}  {one_line(about, SHOWN_CHARS)}".rstrip()))
    if not entries:
        typer.echo("There are no extensions. See docs/extensions.md for examples.", err=True)


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show the manifest, the tools and the trial of an extension."""
    entry = _run(lambda management, _: management.show(name))
    if as_json:
        typer.echo(json.dumps(entry_json(entry)))
    else:
        _print_entry(entry)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice: a-z, 0-9 and -.")],
    command: Annotated[
        Texts, typer.Argument(metavar="[COMMAND]...", help="The program of an MCP server, after --.")
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="The address of an MCP server instead.")] = "",
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with extension.json and a program instead.")
    ] = None,
    path: Annotated[
        Texts, typer.Option(metavar="DIR", help="A directory of the program; may be repeated.")
    ] = None,
    workspace: Annotated[
        str, typer.Option(metavar="none|read|write", help="Its use of the files of a session.")
    ] = "none",
    net: Annotated[
        Texts, typer.Option(metavar="HOST", help="A host that it may reach; may be repeated.")
    ] = None,
    env: Annotated[Texts, typer.Option(metavar="NAME=VALUE", help="A variable; may be repeated.")] = None,
    secret: Annotated[
        Texts, typer.Option(metavar="NAME", help="A jail secret that it gets as a variable; may be repeated.")
    ] = None,
    header: Annotated[
        Texts, typer.Option(metavar="NAME=VALUE", help="A header for a URL; ${SECRET} names a jail secret.")
    ] = None,
    persona: Annotated[
        Texts, typer.Option(metavar="NAME", help="A persona that gets its tools; may be repeated.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the entry of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Add an extension to the catalogue. Try and approve it before agents can use it."""
    values: dict[str, Any] = {
        "command": command[0] if command else None,
        "args": command[1:] if command else None,
        "url": url or None,
        "folder": str(folder.absolute()) if folder else None,
        "paths": path,
        "workspace": workspace,
        "network": net,
        "env": _pairs(env),
        "secrets": secret,
        "headers": _pairs(header),
        "personas": persona,
    }
    given = {key: value for key, value in values.items() if value}
    if workspace == "none":
        given.pop("workspace")
    _run(lambda management, by: management.add(name, given, by=by, replace=replace))
    if as_json:
        typer.echo(json.dumps({"added": name}))
    else:
        typer.echo(f"{name} is listed. Try it, then approve it: hutch extensions try {name}")


@app.command("try")
def try_(
    name: Name,
    call: Annotated[
        Texts, typer.Option(metavar="TOOL=JSON", help="Call a tool in the trial; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an extension in its jail on samples, and show what it touches."""
    calls = [parse_call(each) for each in call or ()]

    async def work(management: ExtensionManagement, _: str) -> tuple[TrialResult, Entry]:
        return await management.try_(name, calls), await management.show(name)

    result, entry = _run(work)
    replies = [
        {"call": each.tool, "ok": reply.ok, "text": reply.text}
        for each, reply in zip(calls, result.replies, strict=False)
    ]
    if as_json:
        about = {**entry_json(entry), "activity": dict(result.trial.activity), "replies": replies}
        typer.echo(json.dumps(about))
        return
    _print_entry(Entry(entry.name, entry.state, entry.problem, entry.manifest, result.trial))
    for each in replies:
        typer.echo(visible(f"reply of {each['call']} ({'ok' if each['ok'] else 'error'}): {each['text']}"))
    typer.echo(f"If this is what it should do: hutch extensions approve {name}", err=True)


@app.command()
def approve(name: Name, as_json: Json = False) -> None:
    """Approve what its trial has shown. Any change afterwards makes it unusable again."""
    approval = _run(lambda management, by: management.approve(name, by=by))
    tools = len(approval.trial.tools)
    if as_json:
        typer.echo(json.dumps({"approved": name, "tools": tools, "program": approval.trial.program}))
    else:
        typer.echo(f"{name} is approved. Its tools: {tools}.")


@app.command()
def withdraw(name: Name, as_json: Json = False) -> None:
    """Withdraw an approval. The extension stays in the catalogue."""
    _run(lambda management, by: management.withdraw(name, by=by))
    typer.echo(json.dumps({"withdrawn": name}) if as_json else f"The approval of {name} is withdrawn.")


@app.command("rm")
def remove(name: Name, as_json: Json = False) -> None:
    """Remove an extension from the catalogue, with its approval."""
    _run(lambda management, by: management.remove(name, by=by))
    typer.echo(json.dumps({"removed": name}) if as_json else f"The extension {name} is removed.")


def _run(work: Callable[[ExtensionManagement, str], Awaitable[Result]]) -> Result:
    """Do some work on this machine's installation, as its first owner."""

    async def run() -> Result:
        async with _management() as (management, by):
            return await work(management, by)

    return asyncio.run(run())


@asynccontextmanager
async def _management() -> AsyncIterator[tuple[ExtensionManagement, str]]:
    loaded = settings.load()
    async with event_log(loaded) as log:
        owner = await Accounts(log).ensure_owner(await asyncio.to_thread(system_user))
        yield extension_management(loaded, log), owner.id


def _pairs(given: Texts) -> dict[str, str]:
    pairs = {}
    for each in given or ():
        name, found, value = each.partition("=")
        if not found:
            raise BadRequest(f"'{each[:80]}' should be NAME=VALUE.")
        pairs[name] = value
    return pairs


def _print_entry(entry: Entry) -> None:
    about = entry_json(entry)
    typer.echo(visible(f"{entry.name}: {entry.state}. {entry.problem or about['description']}".rstrip()))
    for label, value in (
        ("runs", " ".join(about["command"]) or about["url"]),
        ("server", about["server"]),
        ("files of the session", about["workspace"]),
        ("directories", ", ".join(about["paths"])),
        ("network", ", ".join(about["network"]) or "none"),
        ("variables", ", ".join([*about["variables"], *about["secrets"]])),
        ("personas", ", ".join(about["personas"])),
    ):
        if value:
            typer.echo(visible(f"  {label}: {value}"))
    for tool in about["tools"]:
        problem = f" (left out: {tool['problem']})" if tool["problem"] else ""
        typer.echo(visible(f"  tool {tool['full_name']}: {one_line(tool['description'], 300)}{problem}"))
    _print_activity(about["activity"], about["paths"])


def _print_activity(activity: Mapping[str, Any], own: Sequence[str]) -> None:
    """Print the record of a trial. Files that the program has brought are only counted."""
    is_own = tuple(f"{path}/" for path in own)
    others = [each for each in activity["files_read"] if not each.startswith(is_own)]
    if count := len(activity["files_read"]) - len(others):
        typer.echo(f"  read {count} files of its own directories")
    hosts = [f"{each['host']} ({'allowed' if each['allowed'] else 'refused'})" for each in activity["hosts"]]
    for label, items in (
        ("read", others),
        ("wrote", activity["files_written"]),
        ("asked for", hosts),
        ("ran", activity["processes"]),
        ("not seen", activity["unseen"]),
    ):
        for item in items[:SHOWN_FILES]:
            typer.echo(visible(f"  {label} {item}"))
        if len(items) > SHOWN_FILES:
            typer.echo(f"  {label} {len(items) - SHOWN_FILES} more; --json lists all")
