"""`hutch interviews demo`: a whole interview with a candidate, an AI and an assessor, to watch.

It runs on a server of its own in a new directory, with a scripted model and real jails. Nothing of it is
kept, unless a directory is given.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.app.server import open_server
from hutch.domain.current_actor_and_author import AGENT, author_of
from hutch.domain.errors import HutchError, Unavailable
from hutch.domain.events import Event, InterviewSealed, SessionEnded, StruggleMeasured, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.domain.inputs import Prompt
from hutch.domain.interview import Interview
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.interview_question import Question
from hutch.domain.user import Caller, scopes_of
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.flows.interview_questions.question_bank_lookup import find_questions
from hutch.flows.interviews import (
    interview_conduct,
    interview_planning_and_invitations,
    level_and_help_decisions,
    lobby_and_presence,
    notes_messages_and_ratings,
)
from hutch.flows.interviews.interview_event_sentences import event_sentence
from hutch.flows.interviews.interview_record_export import export_interview
from hutch.flows.interviews.interview_report import make_report
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.report_content import report_content
from hutch.flows.interviews.report_page import report_page
from hutch.flows.sessions import give
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.sessions.file_and_command_requests import StartTests, WaitForTests, WriteFile
from hutch.store.interview_record_bundle import verify_bundle
from hutch.store.sessions import Sessions

TIMEOUT_S = 120.0
POLL_S = 0.1


def demo_command(
    pause: Annotated[
        float, typer.Option(min=0, max=30, help="Seconds between two steps, to read along.")
    ] = 1.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Put the record and the report here.")
    ] = None,
) -> int:
    """Watch a whole scripted interview, with real jails and tests."""
    with tempfile.TemporaryDirectory(prefix="hutch-interview-demo-") as home:
        asyncio.run(_demo(Path(home), pause, keep))
    return 0


async def _demo(home: Path, pause_s: float, keep: Path | None) -> None:
    questions = _questions()
    script = home / "ai.json"
    script.write_text(json.dumps({"replies": _replies(questions[0])}))
    loaded = settings.load({"model": f"scripted:{script}"}, environ={"HUTCH_HOME": str(home / "hutch")})
    configure_logs(loaded, quiet=True)
    async with open_server(loaded) as server:
        stage = await Stage.open(server.interviews, Accounts(server.rows), pause_s)
        server.log.listeners.append(stage.show)
        interview = await stage.play(questions)
        bundle = home / "interview.zip"
        await export_interview(server.interviews, stage.assessor, interview.id, bundle)
        report = await make_report(server.interviews, stage.assessor, interview.id)
        page = report_page(report["title"], report_content(report), "")
    verified = await asyncio.to_thread(verify_bundle, bundle)
    if not verified.ok:
        raise Unavailable(f"The record does not verify: {verified.problem}")
    events = sum(report.events for report in verified.records)
    typer.echo(f"\nThe record verifies: {len(verified.records)} logs, {events} events, sealed.")
    if keep is not None:
        await asyncio.to_thread(_keep, keep, bundle, page)
        typer.echo(f"Kept in {keep}: interview.zip (hutch verify), report.html")


def _keep(directory: Path, bundle: Path, page: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(bundle, directory / "interview.zip")
    (directory / "report.html").write_text(page)


def _questions() -> list[Question]:
    """Two questions that come with Hutch and have wrong solutions in Python."""
    found = [
        each.question
        for each in find_questions(())
        if each.question and "python" in each.question.languages
        if each.question.variant("python").wrong_solutions
    ]
    if not found:
        raise Unavailable("No question with a wrong solution in Python comes with this Hutch.")
    return found[:2]


def _replies(question: Question) -> list[dict[str, object]]:
    """The replies of the scripted AI: a hint first, then the solution."""
    reads = [{"tool": "read_file", "args": {"path": path}} for path in question.variant("python").solution]
    writes = [
        {"tool": "write_file", "args": {"path": path, "content": file.content.decode()}}
        for path, file in question.variant("python").solution.items()
    ]
    hint = "Look at the first failing test: what does it expect, and what does your function return there?"
    return [
        {"text": hint},
        {"calls": reads},
        {"calls": writes},
        {"text": "I wrote a solution. Run the tests, and read it before you accept it."},
        {"text": "Done.", "times": 50},
    ]


class Stage:
    """The people of the demo, and their actions."""

    def __init__(
        self, interviews: InterviewServices, assessor: Caller, candidate: Caller, pause_s: float
    ) -> None:
        self.interviews, self.assessor, self.candidate = interviews, assessor, candidate
        self._room = ""
        self._pause_s, self._began = pause_s, time.monotonic()
        self._names = {assessor.user.id: "Ana (assessor)", candidate.user.id: "Carl (candidate)", AGENT: "AI"}

    @classmethod
    async def open(cls, interviews: InterviewServices, accounts: Accounts, pause_s: float) -> "Stage":
        owner = await accounts.ensure_owner("Ana")
        candidate = await accounts.add_user("Carl", "candidate", LOCAL)
        return cls(
            interviews,
            Caller(owner, scopes_of("owner"), "local", "demo"),
            Caller(candidate, scopes_of("candidate"), "local", "demo"),
            pause_s,
        )

    def show(self, session_id: SessionId, events: Sequence[Event | UnknownEvent]) -> None:
        """Print events as they are recorded."""
        for event in events:
            is_noise = isinstance(event, StruggleMeasured) or (
                isinstance(event, SessionEnded) and session_id != self._room
            )
            sentence = "" if is_noise else event_sentence(event)
            if sentence:
                who = self._names.get(author_of(event), "Hutch")
                typer.echo(f"{time.monotonic() - self._began:6.1f} s  {who:<17} {sentence}")

    async def play(self, questions: Sequence[Question]) -> Interview:
        """The whole interview."""
        interview = await self._prepare(questions)
        await self._struggle(interview, questions[0])
        await self._get_help(interview)
        if len(questions) > 1:
            interview = await self._second_question(interview, questions[1])
        return await self._finish(interview, questions)

    async def _prepare(self, questions: Sequence[Question]) -> Interview:
        interviews = self.interviews
        plan = InterviewPlan.model_validate(
            {
                "title": "Backend engineer",
                "questions": [{"id": each.id, "language": "python"} for each in questions],
                "company": "Acme",
                "role": "backend engineer",
                "expectations": "Working code, and questions that show thought.",
                "consent": "This interview is recorded. Assessors read all of it.",
            }
        )
        interview = await interview_planning_and_invitations.plan_interview(interviews, self.assessor, plan)
        self._room = interview.id
        accounts = Accounts(interviews.services.rows)
        await accounts.shares.set(interview.id, self.candidate.user.id, "candidate", created_by="")
        await self._wait()
        await lobby_and_presence.check_lobby(interviews, self.candidate, interview.id)
        await lobby_and_presence.agree(interviews, self.candidate, interview.id)
        await self._wait()
        interview = await interview_conduct.begin(interviews, self.assessor, interview.id)
        await self._ready(interview.workspace)
        return interview

    async def _struggle(self, interview: Interview, question: Question) -> None:
        wrong = next(iter(question.variant("python").wrong_solutions.values()))
        await self._write(interview.workspace, wrong)
        await self._test(interview.workspace)
        await self._ask(interview.workspace, "Why does my first test fail? Please only give me a hint.")
        await self._test(interview.workspace)

    async def _get_help(self, interview: Interview) -> None:
        interviews = self.interviews
        await notes_messages_and_ratings.write_note(
            interviews, self.assessor, interview.id, "Asked for a hint before a solution. Good."
        )
        await self._wait()
        await level_and_help_decisions.set_level(interviews, self.assessor, interview.id, "copilot")
        await self._ask(interview.workspace, "It still fails. Write a solution in linear time, please.")
        await self._test(interview.workspace)

    async def _second_question(self, interview: Interview, question: Question) -> Interview:
        interviews = self.interviews
        interview = await interview_conduct.next_question(interviews, self.candidate, interview.id, after=1)
        await self._ready(interview.workspace)
        await self._wait()
        await interview_conduct.pause(interviews, self.assessor, interview.id, "a question from me")
        await notes_messages_and_ratings.send_message(
            interviews, self.assessor, interview.id, "How would you test this?"
        )
        await notes_messages_and_ratings.send_message(
            interviews, self.candidate, interview.id, "First the empty input, then one of each kind."
        )
        await interview_conduct.resume(interviews, self.assessor, interview.id)
        await self._write(interview.workspace, question.variant("python").solution)
        await self._test(interview.workspace)
        return interview

    async def _finish(self, interview: Interview, questions: Sequence[Question]) -> Interview:
        interviews = self.interviews
        await interview_conduct.next_question(interviews, self.candidate, interview.id, after=len(questions))
        async with asyncio.timeout(TIMEOUT_S):
            async for entry in interviews.services.log.follow(interview.id):
                if isinstance(entry.event, InterviewSealed):
                    break
        criterion = questions[0].rubric[0].name
        await notes_messages_and_ratings.rate(
            interviews, self.assessor, interview.id, number=1, criterion=criterion, points=4
        )
        return await interview_conduct.close(interviews, self.assessor, interview.id)

    async def _write(self, workspace: str, files: StarterFiles) -> None:
        for path, file in files.items():
            request = WriteFile(path, file.content)
            await self.interviews.services.host.call(SessionId(workspace), request, by=self.candidate.user.id)
        await self._wait()

    async def _test(self, workspace: str) -> None:
        host, by = self.interviews.services.host, self.candidate.user.id
        run = await host.call(SessionId(workspace), StartTests(), by=by)
        await host.call(SessionId(workspace), WaitForTests(run, TIMEOUT_S), by=by)
        await self._wait()

    async def _ask(self, workspace: str, text: str) -> None:
        services = self.interviews.services
        await give(services, self.candidate, workspace, Prompt(text=text))
        await self._ready(workspace)
        await self._wait()

    async def _ready(self, workspace: str) -> None:
        """Wait until the workspace is there and nothing runs in it."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                session = await Sessions(self.interviews.services.rows).get(workspace)
                if session.state in ("idle", "parked"):
                    return
                if session.state == "ended":
                    raise HutchError(f"The workspace ended: {session.reason}")
                await asyncio.sleep(POLL_S)

    async def _wait(self) -> None:
        await asyncio.sleep(self._pause_s)
