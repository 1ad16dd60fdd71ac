"""`hutch interviews`: plan, conduct and read interviews on the server."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from hutch.cli.api_client import Client
from hutch.cli.commands.interview_work import COMMANDS
from hutch.cli.commands.scripted_interview_demo import demo_command
from hutch.cli.interview_requests import InterviewName, find_interview, take_step
from hutch.cli.render.interviews import comparison_lines, describe, line, report_lines
from hutch.cli.server_requests import Json, ask, every, short
from hutch.domain.errors import BadRequest
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.validation_messages import describe_with_location
from hutch.system.atomic_file import replace_file
from hutch.system.terminal_safe_text import visible

app = typer.Typer(help="Plan, conduct and read interviews.", no_args_is_help=True, add_completion=False)
app.command("demo")(demo_command)

ROLES = ("candidate", "assessor", "observer")


@app.command()
def new(
    question: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="A question, in this order; may be repeated. ID:LANGUAGE also works."
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A plan in TOML or JSON; options replace its values.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title, which the candidate sees.")] = None,
    minutes: Annotated[int | None, typer.Option(min=1, help="For the whole interview.")] = None,
    company: Annotated[str | None, typer.Option(help="The AI gets it.")] = None,
    role: Annotated[str | None, typer.Option(help="The job; the AI gets it.")] = None,
    unattended: Annotated[
        bool, typer.Option("--unattended", help="No assessor is there: the candidate begins.")
    ] = False,
    without_ai: Annotated[bool, typer.Option("--without-ai", help="The same room without an AI.")] = False,
    help_offers: Annotated[bool, typer.Option("--offer-help", help="Offer help unasked.")] = False,
    extra_time: Annotated[int | None, typer.Option(min=0, max=300, help="More time, in percent.")] = None,
    model: Annotated[str | None, typer.Option(help="The model of the AI.")] = None,
    as_json: Json = False,
) -> int:
    """Plan an interview."""
    values = _read_plan(plan) if plan else {}
    given: dict[str, Any] = {
        "title": title,
        "minutes": minutes,
        "company": company,
        "role": role,
        "attended": False if unattended else None,
        "ai": False if without_ai else None,
        "proactive_help": True if help_offers else None,
        "extra_time_percent": extra_time,
        "model": model,
        "questions": [_question(each) for each in question] if question else None,
    }
    values |= {name: value for name, value in given.items() if value is not None}
    values.setdefault("title", "Interview")
    body = _checked(values)

    async def work(client: Client) -> None:
        made = await client.post("/interviews", body)
        if as_json:
            typer.echo(json.dumps(made))
            return
        typer.echo(f"{made['id']}  {visible(made['title'])}")
        typer.echo(f"Invite the candidate: hutch interviews invite {short(made['id'])}", err=True)

    return ask(work, as_json=as_json)


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        return dict(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except (OSError, ValueError) as error:
        raise BadRequest(f"The plan {path} cannot be read: {error}") from None


def _question(text: str) -> dict[str, str]:
    id, _, language = text.partition(":")
    return {"id": id, "language": language} if language else {"id": id}


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    try:
        return InterviewPlan.model_validate(values).model_dump(mode="json")
    except ValidationError as error:
        raise BadRequest(f"The plan is wrong: {describe_with_location(error.errors()[0])}.") from None


@app.command("list")
def list_(as_json: Json = False) -> int:
    """List your interviews, newest first."""

    async def work(client: Client) -> None:
        found = [each async for each in every(client, "/interviews")]
        for each in found:
            typer.echo(json.dumps(each) if as_json else line(each))
        if not found and not as_json:
            typer.echo("There are no interviews yet. Plan one: hutch interviews new --question ID", err=True)

    return ask(work, as_json=as_json)


@app.command()
def show(interview: InterviewName, as_json: Json = False) -> int:
    """Show an interview: its clock, question and people."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        typer.echo(json.dumps(found) if as_json else describe(found))

    return ask(work, as_json=as_json)


@app.command()
def invite(
    interview: InterviewName,
    role: Annotated[
        str, typer.Option(metavar="|".join(ROLES), help="The role in the interview.")
    ] = "candidate",
    days: Annotated[int, typer.Option(min=1, max=90, help="After which the link stops working.")] = 14,
    as_json: Json = False,
) -> int:
    """Print a link by which one person joins the interview."""
    if role not in ROLES:
        raise BadRequest(f"There is no role {role[:40]!r}. Choose one of {', '.join(ROLES)}.")

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        made = await client.post(f"/interviews/{found['id']}/invitations", {"role": role, "days": days})
        typer.echo(json.dumps(made) if as_json else made["url"])

    return ask(work, as_json=as_json)


@app.command()
def begin(interview: InterviewName, as_json: Json = False) -> int:
    """Begin an interview whose candidate is in the lobby."""
    return take_step(interview, "begin", None, as_json=as_json)


@app.command()
def pause(
    interview: InterviewName,
    reason: Annotated[str, typer.Option(help="The candidate sees it.")] = "",
    as_json: Json = False,
) -> int:
    """Stop the clock and the work, until it continues."""
    return take_step(interview, "pause", {"reason": reason}, as_json=as_json)


@app.command()
def resume(interview: InterviewName, as_json: Json = False) -> int:
    """Continue after a pause."""
    return take_step(interview, "resume", None, as_json=as_json)


@app.command()
def end(
    interview: InterviewName,
    reason: Annotated[str, typer.Option(help="It stays in the record.")] = "",
    as_json: Json = False,
) -> int:
    """End an interview."""
    return take_step(interview, "end", {"reason": reason}, as_json=as_json)


@app.command()
def erase(
    interview: InterviewName,
    reason: Annotated[str, typer.Option(help="It stays in the record.")] = "",
    as_json: Json = False,
) -> int:
    """Erase the content of an ended interview. The proof stays."""
    return take_step(interview, "erase", {"reason": reason}, as_json=as_json)


@app.command()
def report(
    interview: InterviewName,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page.")] = None,
    pdf: Annotated[Path | None, typer.Option("--pdf", metavar="FILE", help="Write it as a PDF.")] = None,
    as_json: Json = False,
) -> int:
    """Show what was done in an interview, for its assessors."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        for path, name in ((html, "report.html"), (pdf, "report.pdf")):
            if path is not None:
                answered = await client.request("GET", f"/interviews/{found['id']}/{name}")
                _write(path, answered.content)
        if html is not None or pdf is not None:
            return
        made = await client.get(f"/interviews/{found['id']}/report")
        typer.echo(json.dumps(made) if as_json else "\n".join(report_lines(made)))

    return ask(work, as_json=as_json)


@app.command()
def compare(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The id of a question.")],
    as_json: Json = False,
) -> int:
    """Compare candidates on one question by what they did. There is no total."""

    async def work(client: Client) -> None:
        rows = await client.get("/interview-comparison", question=question)
        typer.echo(json.dumps(rows) if as_json else "\n".join(comparison_lines(rows)))
        if not rows and not as_json:
            typer.echo(f"No interview with the question {question[:60]!r} has ended.", err=True)

    return ask(work, as_json=as_json)


@app.command()
def export(
    interview: InterviewName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="INTERVIEW.zip")
    ] = None,
) -> int:
    """Write the record of an interview: all its logs in one file. `hutch verify` checks it offline."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        record = await client.request("GET", f"/interviews/{found['id']}/record")
        _write(output or Path(f"{found['id']}.zip"), record.content)

    return ask(work)


def _write(path: Path, content: bytes) -> None:
    try:
        replace_file(path, content, mode=0o600)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}.") from None
    typer.echo(f"wrote {path}", err=True)


for name, command in COMMANDS.items():
    app.command(name)(command)
