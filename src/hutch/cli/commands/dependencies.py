"""`hutch environment`: the dependencies that are installed for sessions of a repository."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch.app.repository_dependencies import environments_of
from hutch.cli import exit_codes
from hutch.cli.dependency_setup_confirmation import shown_plan
from hutch.cli.render.byte_size import byte_size
from hutch.cli.render.session_rows import age
from hutch.cli.server_requests import Json, report_errors
from hutch.cli.temporary_repository_workspace import (
    RepositoryPlace,
    load_settings,
    on_repository,
    run_shell,
    say,
)
from hutch.domain.errors import BadRequest
from hutch.environment.layers.layer_store import BuildFailure, Layer, LayerUse
from hutch.environment.plan_description import Row, describe_plan
from hutch.system.terminal_safe_text import printable

app = typer.Typer(
    help="Show, install and remove the dependencies of repositories.",
    no_args_is_help=True,
    add_completion=False,
)
KEY_CHARS = 12
IS_ALLOWED = "is allowed, but"  # the reason has its own way out
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accept the set-up without asking.")]


@app.command()
@report_errors
@on_repository
async def show(place: RepositoryPlace, *, as_json: Json = False) -> None:
    """Show how the dependencies of a repository are installed, and why.

    Also names the tools that it asks for and that jails lack, and the reason why the last build failed.
    """
    prepared, store = place.prepared, place.environments.store
    plan, key = prepared.plan, prepared.key
    layer = next((each for each in await asyncio.to_thread(store.layers) if each.key == key), None)
    failure = await asyncio.to_thread(store.failure, key)
    is_accepted = await place.environments.may_run(place.owner, place.record, prepared)
    if as_json:
        _print_json(
            {
                **asdict(plan),
                "variables": dict(plan.variables),
                "session_variables": dict(plan.session_variables),
                "layer": key,
                "accepted": is_accepted,
                "built": asdict(layer) if layer else None,
                "failure": asdict(failure) if failure else None,
                "missing_tools": prepared.missing_tools,
            }
        )
        return
    rows = describe_plan(plan, await place.allowed_hosts())
    for line in shown_plan([*rows, *(Row("tool", text) for text in prepared.missing_tools)]):
        typer.echo(line)
    if plan.steps:
        state = f"installed, {byte_size(layer.bytes)}" if layer else "not installed yet"
        accepted = "" if is_accepted else "; not accepted yet: hutch environment build"
        typer.echo(f"layer {key[:KEY_CHARS]}: {state}{accepted}")
    if layer and layer.dropped:
        typer.echo(printable(_left_out(layer)))
    for reason in layer.failed if layer else ():
        typer.echo(f"A command of the set-up failed. {printable(reason)} Try again: hutch environment build")
    if failure:
        typer.echo(f"The last build failed {age(failure.at_ms)} ago. {printable(failure.reason)}")
        typer.echo(f"All of its output: hutch environment log {key[:KEY_CHARS]}")


@app.command()
@report_errors
@on_repository
async def build(place: RepositoryPlace, *, yes: Yes = False, as_json: Json = False) -> int:
    """Install the dependencies of a repository for its next sessions.

    Prints the output of the commands. Later sessions and `hutch test` at the same lock files
    use the result.
    """
    if not place.prepared.plan.steps:
        return _nothing(as_json)
    await place.accept(yes=yes, asks=not as_json)
    echo = (lambda line: None) if as_json else (lambda line: typer.echo(printable(line), err=True))
    made = await place.environments.build(place.owner, place.record, echo)
    assert made is not None
    if isinstance(made, BuildFailure):
        return _failed(made, as_json)
    if as_json:
        _print_json(asdict(made))
        return 0
    typer.echo(_summary(made))
    if made.dropped:
        say(_left_out(made))
    for reason in made.failed:
        say(f"warning: {reason} `hutch environment build` tries again.")
    return 0


@app.command()
@report_errors
@on_repository
async def shell(
    place: RepositoryPlace,
    *,
    yes: Yes = False,
    command: Annotated[
        str, typer.Option("--command", "-c", metavar="CMD", help="Run this command instead of a shell.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
) -> int:
    """Open a shell in a copy of a repository. It has the dependencies as in a session.

    The copy is removed afterwards.
    """
    if place.prepared.plan.steps:
        await place.accept(yes=yes, asks=not as_json)
    provided = await place.environments.provide(place.owner, place.record, on_line=say)
    for warning in provided.warnings:
        say(warning)
    return await run_shell(place.loaded, provided.record, command)


@app.command("list")
@report_errors
def list_(as_json: Json = False) -> None:
    """List installed dependencies, with their sizes and last use."""
    uses = environments_of(load_settings()).store.uses()
    if not uses and not as_json:
        typer.echo("Nothing is installed. Install: hutch environment build DIR", err=True)
    for use in uses:
        if as_json:
            _print_json({**asdict(use.layer), "used_ms": use.used_ms, "workspaces": use.workspaces})
        else:
            typer.echo(_row(use))


@app.command()
@report_errors
def rm(
    layers: Annotated[
        list[str] | None, typer.Argument(metavar="LAYER...", help="Keys, or their first characters.")
    ] = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="Remove everything that no workspace uses.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove installed dependencies that no workspace uses."""
    if bool(layers) == unused:
        raise BadRequest("Name the layers to remove, or give --unused. `hutch environment list` shows all.")
    store = environments_of(load_settings()).store
    found = [store.resolve(prefix) for prefix in layers or ()]
    if unused:
        found = [use.layer for use in store.uses() if not use.workspaces]
    for layer in found:
        store.remove(layer.key)
        if as_json:
            _print_json({"removed": layer.key, "bytes": layer.bytes})
        else:
            typer.echo(f"removed {layer.key[:KEY_CHARS]}, {byte_size(layer.bytes)}")


@app.command()
@report_errors
def log(
    layer: Annotated[str, typer.Argument(metavar="LAYER", help="A key, or its first characters.")],
    as_json: Json = False,
) -> None:
    """Print the output of a set-up. Also while it runs, or after it failed."""
    lines = environments_of(load_settings()).store.read_log(layer)
    if as_json:
        _print_json({"lines": lines})
    else:
        for line in lines:
            typer.echo(printable(line))


def _nothing(as_json: bool) -> int:
    if as_json:
        _print_json(None)
    else:
        typer.echo("Nothing to install was found. Write it in .hutch/config.toml: environment.setup.")
    return 0


def _failed(failure: BuildFailure, as_json: bool) -> int:
    if as_json:
        _print_json({"failed": failure.reason, "output": failure.last_lines, "denied": failure.denied})
    else:
        say(failure.reason)
        for host in failure.denied:
            say(f"not reached: {printable(host)}")
        if any(IS_ALLOWED not in host for host in failure.denied):
            say("To allow a host, add it to environment.registries in your settings.")
    return exit_codes.NO


def _summary(layer: Layer) -> str:
    roots = ", ".join(printable(root) for root in layer.roots[:8])
    return f"layer {layer.key[:KEY_CHARS]}: {byte_size(layer.bytes)} in {layer.files} files ({roots})"


def _left_out(layer: Layer) -> str:
    return (
        f"The set-up also made these, which the layer leaves out: {', '.join(layer.dropped)}. If tests need "
        "them, name them in environment.outputs."
    )


def _row(use: LayerUse) -> str:
    layer = use.layer
    count = len(use.workspaces)
    users = f"{count} workspace{'s' * (count != 1)}" if count else "unused"
    return "  ".join(
        (
            layer.key[:KEY_CHARS],
            f"{byte_size(layer.bytes):>10}",
            f"used {age(use.used_ms)} ago",
            users,
            printable(layer.repository),
        )
    )


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))
