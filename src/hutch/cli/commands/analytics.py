"""`hutch analytics`: reports of the server on outcomes, spend, reliability and latency."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.render.event_line import utc_time
from hutch.cli.server_requests import Json, SessionName, ask, find_session
from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.errors import BadRequest
from hutch.system.terminal_safe_text import visible

app = typer.Typer(no_args_is_help=True, help="Show outcomes, spend, reliability and latency.")
GROUPS = ("all", "model", "user", "repository", "persona", "session", "task")
STEPS = ("minute", "hour", "day")
BAR_CHARS = 40
By = Annotated[str, typer.Option("--by", metavar="|".join(GROUPS), help="What each row counts.")]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="The start: 2026-03-01, or an age such as 7d.")
]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="The end; now if it is not given.")]
StepOption = Annotated[
    str, typer.Option("--step", metavar="|".join(STEPS), help="The time between two points of the chart.")
]
Repository = Annotated[str, typer.Option("--repo", metavar="REPOSITORY", help="Only of this repository.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


@app.command("outcomes")
def outcomes_command(
    by: By = "all",
    since: Since = "",
    until: Until = "",
    step: StepOption = "day",
    repository: Repository = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> int:
    """Show the outcomes of sessions, and their cost."""
    return _report("outcomes", by, since, until, step, repository, as_csv=as_csv, as_json=as_json)


@app.command("spend")
def spend_command(
    by: By = "model",
    since: Since = "",
    until: Until = "",
    step: StepOption = "day",
    repository: Repository = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> int:
    """Show cost and tokens, and the expected cost of this month."""
    return _report("spend", by, since, until, step, repository, as_csv=as_csv, as_json=as_json)


@app.command("reliability")
def reliability_command(
    by: By = "all",
    since: Since = "",
    until: Until = "",
    step: StepOption = "day",
    repository: Repository = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> int:
    """Show how runs ended, and errors of tools and providers."""
    return _report("reliability", by, since, until, step, repository, as_csv=as_csv, as_json=as_json)


@app.command("latency")
def latency_command(
    since: Since = "",
    until: Until = "",
    step: StepOption = "day",
    repository: Repository = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> int:
    """Show how long models, tools, jails and changes take."""
    return _report("latency", "all", since, until, step, repository, as_csv=as_csv, as_json=as_json)


@app.command("waterfall")
def waterfall_command(session: SessionName, as_csv: Csv = False, as_json: Json = False) -> int:
    """Show the time that each part of a session took."""

    async def show(client: Client) -> None:
        found = await find_session(client, session)
        path = f"/analytics/sessions/{found['id']}/waterfall"
        if as_csv:
            answer = await client.request("GET", path, headers={"Accept": "text/csv"})
            typer.echo(answer.text, nl=False)
            return
        waterfall = await client.get(path)
        typer.echo(json.dumps(waterfall) if as_json else _bars(waterfall["spans"]))

    return ask(show, as_json=as_json)


@app.command("budgets")
def budgets_command(as_json: Json = False) -> int:
    """List the budgets of each month, and what was spent."""

    async def show(client: Client) -> None:
        found = await client.get("/analytics/budgets")
        if as_json:
            typer.echo(json.dumps(found))
        elif not found:
            typer.echo("There are no budgets. Set one: hutch analytics set-budget 100", err=True)
        for each in [] if as_json else found:
            of = f"{each['scope']} {each.get('name', each['target'])}".strip()
            spent, limit = dollars(each["spent_usd"]), dollars(each["limit_usd"])
            typer.echo(f"{each['id']}  {visible(of)}  {spent} of {limit} ({each['percent']} %)")

    return ask(show, as_json=as_json)


@app.command("set-budget")
def set_budget_command(
    dollars_per_month: Annotated[
        float, typer.Argument(metavar="DOLLARS", help="The maximum cost per month.")
    ],
    user: Annotated[str, typer.Option("--user", help="Only what this user spends.")] = "",
    repository: Repository = "",
    as_json: Json = False,
) -> int:
    """Limit the cost of each month, or change the limit."""
    if user and repository:
        raise BadRequest("A budget is of a user or of a repository, not of both.")
    scope = "user" if user else "repository" if repository else "installation"
    body = {"scope": scope, "target": user or repository, "limit_usd": dollars_per_month}

    async def do(client: Client) -> None:
        made = await client.post("/analytics/budgets", body)
        limit = dollars(made["limit_usd"])
        typer.echo(json.dumps(made) if as_json else f"{made['id']}: at most {limit} per month.")

    return ask(do, as_json=as_json)


@app.command("remove-budget")
def remove_budget_command(
    budget: Annotated[str, typer.Argument(metavar="BUDGET", help="Its id.")], as_json: Json = False
) -> int:
    """Remove a budget."""

    async def do(client: Client) -> None:
        await client.delete(f"/analytics/budgets/{budget}")

    return ask(do, as_json=as_json)


@app.command("alerts")
def alerts_command(as_json: Json = False) -> int:
    """List the newest alerts."""

    async def show(client: Client) -> None:
        found = await client.get("/analytics/alerts")
        if as_json:
            typer.echo(json.dumps(found))
        for each in [] if as_json else reversed(found):
            typer.echo(f"{utc_time(each['at_ms'])}  {each['kind']:<12} {visible(each['text'])}")

    return ask(show, as_json=as_json)


def _report(
    name: str,
    by: str,
    since: str,
    until: str,
    step: str,
    repository: str,
    *,
    as_csv: bool,
    as_json: bool,
) -> int:
    for option, value, known in (("--by", by, GROUPS), ("--step", step, STEPS)):
        if value not in known:
            raise BadRequest(f"{option} {value[:40]!r} is not one of {', '.join(known)}.")
    which = {"since": since, "until": until, "repository": repository}
    options = {"group": by, "step": step, **{key: value for key, value in which.items() if value}}

    async def show(client: Client) -> None:
        path = f"/analytics/reports/{name}"
        if as_csv:
            answer = await client.request("GET", f"{path}.csv", params=options)
            typer.echo(answer.text, nl=False)
            return
        report = await client.get(path, **options)
        typer.echo(json.dumps(report) if as_json else _table(by, report))

    return ask(show, as_json=as_json)


def _table(by: str, report: Mapping[str, Any]) -> str:
    columns = report["columns"]
    if not report["rows"]:
        return "Nothing was recorded in this time."
    rows = [["" if by == "all" else by, *(column["title"] for column in columns)]]
    rows += [
        [visible(str(row["label"]))[:60] or "(unknown)", *_cells(columns, row["values"])]
        for row in report["rows"]
    ]
    if len(report["rows"]) > 1 and report["name"] != "latency":
        rows.append(["total", *_cells(columns, report["total"])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            (f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True)))
        )
        for row in rows
    ]
    if found := report.get("funnel"):
        counts = (
            found["tasks"],
            found["tasks_with_session"],
            found["tasks_with_change"],
            found["tasks_merged"],
        )
        lines += ["", "Tasks: {}, with a session: {}, with a change: {}, merged: {}.".format(*counts)]
    if found := report.get("forecast"):
        spent, expected = dollars(found["spent_usd"]), dollars(found["expected_usd"])
        lines += ["", f"{found['month']}: {spent} so far, {expected} expected at its end."]
    if report["behind"]:
        lines += [f"{report['behind']:,} of the newest events are not counted yet."]
    return "\n".join(lines)


def _cells(columns: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> list[str]:
    return [_cell(column["unit"], values[column["name"]]) for column in columns]


def _cell(unit: str, value: float | None) -> str:
    if value is None:
        return "-"
    if unit == "usd":
        return f"${value:,.4f}"
    if unit == "share":
        return f"{value:.1%}"
    return f"{value:,.3f}s" if unit == "s" else f"{value:,}"


def _bars(spans: Sequence[Mapping[str, Any]]) -> str:
    """Each span as a line, with a bar that shows where it lies in the session."""
    if not spans:
        return "Nothing has ended in this session yet."
    begin = min(span["start_ms"] for span in spans)
    width_ms = max(1, max(span["end_ms"] for span in spans) - begin)
    lines = []
    for span in spans:
        start = (span["start_ms"] - begin) * BAR_CHARS // width_ms
        end = max(start + 1, (span["end_ms"] - begin) * BAR_CHARS // width_ms)
        bar = " " * start + "#" * (end - start)
        name = visible(f"{'  ' * span['depth']}{span['kind']} {span['name']}".rstrip())[:40]
        cost = "" if span["cost_usd"] is None else f"  {dollars(span['cost_usd'])}"
        mark = "" if span["ok"] else "  failed"
        took_s = (span["end_ms"] - span["start_ms"]) / 1000
        lines.append(f"{name:<40}  {bar:<{BAR_CHARS}}  {took_s:9.3f}s{cost}{mark}")
    return "\n".join(lines)
