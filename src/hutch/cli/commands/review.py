"""`hutch review`: have an agent review a change or a pull request."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.app.change_and_delivery_contexts import change_context
from hutch.cli import exit_codes
from hutch.cli.api_client import FAMILIES
from hutch.cli.commands.run import MaxCost, MaxTokens, MaxTurns, Timeout
from hutch.cli.local_session_client import LocalSessions
from hutch.cli.new_session_request_body import model_name
from hutch.cli.render.run_output import JsonView, PlainView
from hutch.cli.run_lifecycle import RunFollower
from hutch.cli.run_wait_and_output import AwaitedRun
from hutch.domain.errors import HutchError, Unavailable
from hutch.domain.ids import SessionId
from hutch.domain.no_model_messages import BY_FIELD, no_model_message, no_model_on_server_message
from hutch.domain.review import Remark, Review
from hutch.domain.run_limits import RunLimits
from hutch.flows.reviews import reviewing_agent
from hutch.flows.reviews.agent_review_publication import find_existing_review
from hutch.flows.reviews.review_subject import find_change_at, find_subject
from hutch.flows.run_and_log_lookup import read_log
from hutch.store.comments_and_reviews import Reviews
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import visible


def review_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CHANGE", help="A change's id or branch, 'last', or a pull request's address."
        ),
    ] = "last",
    instructions: Annotated[
        str, typer.Option("--focus", metavar="TEXT", help="What the review should focus on.")
    ] = "",
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="The model to use.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Review this commit of a pull request again.")
    ] = False,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> int:
    """Have an agent review a change in a jail: it runs the tests, and leaves comments and a verdict.

    It edits nothing. The findings are stored with the change (`hutch changes comments`), or posted as
    a review of the pull request. Exits with 3 when the review requests changes.
    """
    limits = RunLimits(turns=max_turns, tokens=max_tokens, cost_usd=max_cost, timeout_s=timeout)
    options = ReviewOptions(instructions, model or "", limits, again)
    try:
        return asyncio.run(_review(target, options, as_json=as_json))
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    instructions: str
    model: str
    limits: RunLimits
    again: bool


async def _review(target: str, options: ReviewOptions, *, as_json: bool) -> int:
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    async with LocalSessions.opened(loaded) as sessions:
        local = sessions.local
        changes = change_context(loaded, local.log, local.log)
        ours = await find_change_at(changes, target) if "://" in target else None
        repository, subject = await find_subject(changes, ours.id if ours else target)
        if subject.pull_url and not options.again:
            before = await find_existing_review(changes, subject)
            if before is not None:
                note = f"Already reviewed at {before.commit[:12]}. Use --again to review it once more."
                return _print_review(before, [], as_json, note)
        session = await reviewing_agent.submit(
            local.services,
            local.caller,
            repository=repository,
            commit=subject.commit,
            target=subject.change_id or subject.pull_url,
            instructions=options.instructions,
            model=model_name(options.model, True),
            limits=options.limits,
        )
        return await ReviewFollower(sessions, await sessions.get(session.id), as_json=as_json).run()


class ReviewFollower(RunFollower):
    sessions: LocalSessions
    warns = False

    def __init__(self, sessions: LocalSessions, session: dict[str, Any], *, as_json: bool) -> None:
        super().__init__(sessions, session, as_json=as_json)
        self.awaited = AwaitedReview()

    async def _end(self, view: JsonView | PlainView) -> int:
        local, run_id = self.sessions.local, str(self._story.ended.get("run_id"))
        await self.sessions.settle(run_id)
        if self._story.outcome == "failed":
            reason = str(self._story.ended.get("reason"))
            if reason == no_model_on_server_message(BY_FIELD):
                raise Unavailable(no_model_message())
            raise FAMILIES.get(str(self._story.ended.get("code")), Unavailable)(reason)
        delivery = self._story.delivery or {}
        if delivery.get("outcome") == "failed":
            raise FAMILIES.get(str(delivery.get("code")), Unavailable)(str(delivery.get("reason")))
        review = await Reviews(local.services.rows).of_run(run_id)
        await self.sessions.give(self.id, "end", reason="")
        if review is None:  # it ended without a verdict
            return exit_codes.OUTCOMES.get(self._story.outcome, exit_codes.UNAVAILABLE)
        entries = await read_log(local.log, SessionId(self.id))
        return _print_review(review, reviewing_agent.remarks_in(entries, run_id), self._as_json)

    async def _interrupted(self, view: JsonView | PlainView) -> int:
        if (
            self._story.outcome in reviewing_agent.FINISHED
        ):  # finish publishing a review that others may already see
            await self._wait_for_end()
            return await self._end(view)
        await self._stop()
        sys.stderr.write("hutch: stopped; no review was written.\n")
        return exit_codes.INTERRUPTED


class AwaitedReview(AwaitedRun):
    """Waits for the end of a review: its verdict, or the reason why there is none."""

    def ended(self, event: Mapping[str, Any]) -> int | None:
        kind, outcome = event.get("type"), str(event.get("outcome"))
        if kind in ("review.submitted", "delivery.ended"):
            return exit_codes.OK
        if kind == "run.ended" and outcome not in reviewing_agent.FINISHED:
            return exit_codes.OUTCOMES.get(outcome, exit_codes.UNAVAILABLE)
        return exit_codes.OUTCOMES["cancelled"] if kind == "session.ended" else None


def _print_review(review: Review, remarks: list[Remark], as_json: bool, note: str = "") -> int:
    if as_json:
        row = {"type": "review", **asdict(review), "comments": [asdict(each) for each in remarks]}
        typer.echo(json.dumps(row | ({"note": note} if note else {})))
    else:
        typer.echo("")
        for remark in remarks:
            typer.echo(visible(f"{remark.path}:{remark.line}  {remark.severity}"))
            typer.echo("\n".join(f"    {visible(line)}" for line in remark.body.splitlines()))
        typer.echo(f"{review.verdict.replace('_', ' ')}: {visible(review.title)}")
        if note:
            typer.echo(note)
        if review.url:
            typer.echo(visible(review.url))
    return exit_codes.NO if review.verdict == "changes_requested" else exit_codes.OK
