"""`hutch rerun`: run a recorded session again from a point, and compare what came of it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hutch.cli.commands.run import Json, ModelName, PersonaName
from hutch.cli.run_lifecycle import RunFollower, open_and
from hutch.cli.session_client import SessionClient
from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.session import Rerun
from hutch.system.terminal_safe_text import one_line


def rerun_command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or 'last'.")],
    event: Annotated[
        int,
        typer.Option("--from", metavar="EVENT", min=1, help="The event to start from, by its number."),
    ] = 1,
    model: ModelName = None,
    persona: PersonaName = None,
    prompt: Annotated[
        str, typer.Option("--prompt", "-p", metavar="TEXT", help="Another prompt, from that point on.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Run a recorded session again from an event, with another model or prompt, and compare.

    The rerun is a fork with the files and the conversation of that moment. It delivers nothing.
    `hutch log SESSION` lists the events.
    """
    asked = Rerun(event=event, model=model or "", persona=persona or "", prompt=prompt)

    async def work(sessions: SessionClient) -> int:
        found = await sessions.find_session(session)
        again = await sessions.rerun(found["id"], asked)
        following = RunFollower(sessions, again, as_json=as_json)
        following.names_model = bool(model)
        code = await following.run()
        compared = await sessions.compare(found["id"], again["id"])
        if as_json:
            typer.echo(json.dumps({"type": "comparison", **compared}))
        else:
            for line in comparison_lines(compared):
                typer.echo(line)
        return code

    return open_and(work, "anywhere", as_json)


def comparison_lines(compared: Mapping[str, Any]) -> list[str]:
    """The two runs as a table."""

    def cells(run: Mapping[str, Any]) -> list[str]:
        cost_usd = run["cost_usd"]
        return [
            one_line(str(run["model"]), 40),
            one_line(str(run["persona"]), 20),
            one_line(str(run["outcome"]).replace("_", " ") or "not ended", 20),
            one_line(str(run["tests"]) or "-", 30),
            f"{run['files']} files +{run['added']} -{run['deleted']}",
            str(run["turns"]),
            f"{run['tokens']:,}",
            "?" if cost_usd is None else dollars(float(cost_usd)),
            f"{run['duration_s']:.1f} s",
        ]

    names = ("model", "persona", "outcome", "tests", "changes", "turns", "tokens", "cost", "model time")
    columns = [
        ["", *names],
        *(([head, *cells(compared[key])]) for key, head in (("original", "original"), ("rerun", "rerun"))),
    ]
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
