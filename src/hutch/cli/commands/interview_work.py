"""`hutch interviews`: the steps of candidates and assessors while an interview runs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from hutch.cli.api_client import Client
from hutch.cli.interview_requests import InterviewName, add_to_record, find_interview, take_step
from hutch.cli.render.interviews import check_line, hidden_test_lines
from hutch.cli.server_requests import Json, ask
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.interview_question import LEVELS
from hutch.system.atomic_file import replace_file

Reason = Annotated[str, typer.Option(help="It stays in the record.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text.")]
Comment = Annotated[str, typer.Option(help="For the report.")]
Limited = Literal["interview", "question"]


def visit_lobby(
    interview: InterviewName,
    agree: Annotated[bool, typer.Option("--agree", help="Agree to the text of the plan.")] = False,
    as_json: Json = False,
) -> int:
    """Enter the lobby and check the system. Only the first candidate to enter can take part."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        visited = await client.post(f"/interviews/{found['id']}/lobby")
        shown = visited["interview"]
        if agree and shown["consent"] and not shown["consented"]:
            shown = visited["interview"] = await client.post(f"/interviews/{found['id']}/consent")
        if as_json:
            typer.echo(json.dumps(visited))
            return
        for each in visited["checks"]:
            typer.echo(check_line(each))
        if shown["consent"] and not shown["consented"]:
            typer.echo(f"\n{shown['consent']}\n")
            typer.echo("Agree to this text with --agree before the interview begins.", err=True)

    return ask(work, as_json=as_json)


def go_to_next(interview: InterviewName, as_json: Json = False) -> int:
    """Go on to the next question. After the last one, the interview ends."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        if found["question"] is None:
            raise Conflict("The interview has not begun.")
        after = found["question"]["number"]
        changed = await client.post(f"/interviews/{found['id']}/next", {"after": after})
        question = changed["question"]
        ended = changed["phase"] == "ended" or question is None
        shown = "The interview is over." if ended else f"Question {question['number']}: {question['title']}"
        typer.echo(json.dumps(changed) if as_json else shown)

    return ask(work, as_json=as_json)


def switch_language(
    interview: InterviewName,
    language: Annotated[str, typer.Argument(metavar="LANGUAGE", help="Such as python or go.")],
    as_json: Json = False,
) -> int:
    """Continue the question in another language. The work in each language stays."""
    return take_step(interview, "language", {"language": language}, as_json=as_json)


def extend(
    interview: InterviewName,
    minutes: Annotated[
        int, typer.Argument(min=1, max=240, metavar="MINUTES", help="The additional minutes.")
    ],
    of: Annotated[str, typer.Option(metavar="interview|question", help="What gets more time.")] = "interview",
    reason: Reason = "",
    as_json: Json = False,
) -> int:
    """Give the candidate more time."""
    if of not in get_args(Limited):
        raise BadRequest(f"--of is interview or question, not {of[:40]!r}.")
    body = {"minutes": minutes, "of": of, "reason": reason}
    return take_step(interview, "extend", body, as_json=as_json)


def level(
    interview: InterviewName,
    level: Annotated[str, typer.Argument(metavar="|".join(LEVELS), help="The new level.")],
    reason: Reason = "",
    as_json: Json = False,
) -> int:
    """Switch how much the AI helps. The candidate is notified."""
    return take_step(interview, "level", {"level": level, "reason": reason}, as_json=as_json)


def answer(
    interview: InterviewName,
    accept: Annotated[bool, typer.Option("--accept/--decline", help="Accept or decline it.")],
    as_json: Json = False,
) -> int:
    """Answer a proposed level, or an offer of help."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        open_ = ("proposals", found["proposal"]), ("offers", found["offer"])
        kind, asked = next(((kind, each) for kind, each in open_ if each), ("", None))
        if asked is None:
            raise Conflict("Nothing is proposed or offered now.")
        path = f"/interviews/{found['id']}/{kind}/{asked['number']}"
        changed = await client.post(path, {"accept": accept})
        what = f"level {asked['level']}" if kind == "proposals" else f"help ({asked['kind']})"
        typer.echo(json.dumps(changed) if as_json else f"{what}: {'accepted' if accept else 'declined'}")

    return ask(work, as_json=as_json)


def note(interview: InterviewName, text: Text, as_json: Json = False) -> int:
    """Write a private note at this moment. The candidate and observers never see it."""
    return add_to_record(interview, "notes", {"text": text}, "noted", as_json=as_json)


def message(
    interview: InterviewName,
    text: Text,
    private: Annotated[bool, typer.Option("--private", help="Not for candidates and observers.")] = False,
    as_json: Json = False,
) -> int:
    """Send a message to everyone in the room."""
    return add_to_record(interview, "messages", {"text": text, "private": private}, "sent", as_json=as_json)


def rate(
    interview: InterviewName,
    question: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="The number of the question.")],
    criterion: Annotated[str, typer.Argument(metavar="CRITERION", help="Of the question's rubric.")],
    points: Annotated[
        int, typer.Argument(metavar="POINTS", min=0, max=5, help="1 to 5; 0 takes a rating back.")
    ],
    comment: Comment = "",
    as_json: Json = False,
) -> int:
    """Rate a criterion of a question's rubric."""
    body = {"number": question, "criterion": criterion, "points": points or None, "comment": comment}
    return add_to_record(interview, "ratings", body, "rated", as_json=as_json)


def set_mark(
    interview: InterviewName,
    question: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="The number of the question.")],
    mark: Annotated[str, typer.Argument(metavar="MARK", help="Such as goal or verification.")],
    points: Annotated[
        int, typer.Argument(metavar="POINTS", min=-1, max=2, help="0 to 2; -1 takes the correction back.")
    ],
    comment: Comment = "",
    as_json: Json = False,
) -> int:
    """Correct a mark that Hutch has computed for the prompts."""
    given = None if points < 0 else points
    body = {"number": question, "mark": mark, "points": given, "comment": comment}
    return add_to_record(interview, "marks", body, "corrected", as_json=as_json)


def run_hidden_tests(interview: InterviewName, as_json: Json = False) -> int:
    """Run the hidden tests on a copy of the work."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        ran = await client.post(f"/interviews/{found['id']}/hidden-tests")
        typer.echo(json.dumps(ran) if as_json else "\n".join(hidden_test_lines(ran)))

    return ask(work, as_json=as_json)


def close(interview: InterviewName, as_json: Json = False) -> int:
    """Close the record of an ended interview. Nothing more is added, also no rating."""
    return take_step(interview, "close", None, as_json=as_json)


def receipt(
    interview: InterviewName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="INTERVIEW.receipt.json")
    ] = None,
) -> int:
    """Write a signed receipt of the interview's log. A record that is changed later contradicts it."""

    async def work(client: Client) -> None:
        found = await find_interview(client, interview)
        made: dict[str, Any] = await client.get(f"/sessions/{found['id']}/receipt")
        path = output or Path(f"{found['id']}.receipt.json")
        try:
            replace_file(path, json.dumps(made).encode(), mode=0o600)
        except OSError as error:
            raise BadRequest(f"{path} cannot be written: {error.strerror}.") from None
        typer.echo(f"wrote {path}", err=True)

    return ask(work)


COMMANDS: Mapping[str, Callable[..., int]] = {
    "lobby": visit_lobby,
    "next": go_to_next,
    "language": switch_language,
    "extend": extend,
    "level": level,
    "answer": answer,
    "note": note,
    "message": message,
    "rate": rate,
    "mark": set_mark,
    "hidden-tests": run_hidden_tests,
    "close": close,
    "receipt": receipt,
}
