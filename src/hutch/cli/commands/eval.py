"""`hutch eval`: run a set of tasks in parallel and grade them with tests that the agent did not see."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.agent.persona import REPOSITORY_FOLDER
from hutch.app import configure_logs
from hutch.app.evaluation import open_evaluation
from hutch.app.models import models_of
from hutch.cli import exit_codes
from hutch.cli.commands.run import PlainDirectory
from hutch.domain import events
from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.events import Event
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.case_file import BUILTIN, BUILTIN_FILE, REPOS, load_cases
from hutch.flows.evaluation.evaluator import EvalOptions, NoModel, Result, evaluate
from hutch.flows.evaluation.evaluator import report as make_report
from hutch.flows.personas import find_persona
from hutch.forge.repo_url import parse_repo_url
from hutch.system.atomic_file import replace_file
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS, is_handled
from hutch.system.terminal_text import one_line

STATUS_INTERVAL_S = 30.0  # between status lines where none can be overwritten
MAX_REASON_CHARS = 100


def eval_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file of tasks (YAML, JSON, JSONL), or 'builtin' for those of Hutch."
        ),
    ],
    model: Annotated[
        str | None, typer.Option(metavar="PROVIDER:NAME", help="The model for all tasks, overriding theirs.")
    ] = None,
    persona: Annotated[str | None, typer.Option(metavar="NAME", help="The persona for all tasks.")] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many tasks to run at a time.")
    ] = 2,
    report: Annotated[
        str | None, typer.Option("--json", metavar="REPORT", help="Write a report to a file; - prints it.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--filter", metavar="TEXT", help="Only tasks whose name contains this."),
    ] = None,
    repos: Annotated[
        str, typer.Option(metavar="TEMPLATE", help="Address of the repositories of a SWE-bench set.")
    ] = REPOS,
    plain: PlainDirectory = False,
) -> int:
    """Run a set of tasks, each in its own jail, and grade them with hidden tests.

    Exits with 0 when all tasks pass, with 3 when some do not, with 4 when a key is missing or rejected, with
    6 without a model. Ctrl-C keeps the results so far.
    """
    path = BUILTIN_FILE if file == BUILTIN else Path(file)
    cases = load_cases(path, repos=repos)
    chosen = [case for case in cases if only is None or fnmatchcase(case.name, f"*{only}*")]
    if not chosen:
        names = ", ".join(case.name for case in cases[:10])
        raise BadRequest(f"No task has '{only}' in its name. The tasks are: {names}.")
    board = Board(file, chosen, report)
    board.write_report()  # a report that cannot be written must fail now, not after hours
    options = EvalOptions(
        source=path,
        model=model,
        persona=persona,
        jobs=jobs,
        plain=plain,
        on_begin=board.begin,
        on_event=board.event,
        on_result=board.result,
    )
    return asyncio.run(_evaluate(chosen, options, board))


async def _evaluate(cases: Sequence[EvalCase], options: EvalOptions, board: "Board") -> int:
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    if options.model or any(not (case.model or case.cassette or case.persona) for case in cases):
        models_of(loaded).check(options.model or "")
    if options.persona:
        _check_persona(options.persona, loaded.paths.personas, cases)
    own = asyncio.current_task()
    assert own is not None
    for number in filter(is_handled, TERMINATION_SIGNALS):
        asyncio.get_running_loop().add_signal_handler(number, own.cancel)
    watching = asyncio.ensure_future(board.watch())
    interrupted = False
    try:
        async with open_evaluation(loaded, jobs=options.jobs) as context:
            await evaluate(context, cases, options)
    except asyncio.CancelledError:
        interrupted = True
    except NoModel:
        board.clear()
        raise
    finally:
        watching.cancel()
    board.end(interrupted)
    if interrupted:
        return exit_codes.INTERRUPTED
    if any(result.code == "denied" for result in board.results):  # of the model: a rejected key
        return exit_codes.DENIED
    if any(result.code == "unavailable" for result in board.results):  # no model was there to be evaluated
        return exit_codes.UNAVAILABLE
    return exit_codes.OK if all(result.passed for result in board.results) else exit_codes.NO


def _check_persona(name: str, folder: Path, cases: Sequence[EvalCase]) -> None:
    """Refuse a persona that neither the installation nor a task has. That of an address is not known yet."""
    file = f"{REPOSITORY_FOLDER}/{name}.md"

    def may_have(case: EvalCase) -> bool:
        if not case.repo:
            return file in case.files
        path = parse_repo_url(case.repo).path
        return path is None or (path / file).is_file()

    try:
        find_persona(name, folder)
    except NotFound as error:
        if not any(map(may_have, cases)):
            raise BadRequest(str(error)) from None


class Board:
    """Shows progress on standard error, then the table of results or the report."""

    def __init__(self, source: str, cases: Sequence[EvalCase], report: str | None) -> None:
        self.results: list[Result] = []
        self._source, self._cases, self._report = source, cases, report
        self._began = datetime.now(UTC)
        self._running: dict[str, tuple[float, str]] = {}  # start time and current step
        self._live = os.isatty(2)

    def begin(self, name: str) -> None:
        self._running[name] = (time.monotonic(), "preparing a workspace")
        if not self._live:
            self._say(f"{name}: started")
        self._status()

    def event(self, name: str, event: Event) -> None:
        since, _ = self._running[name]
        match event:
            case events.ModelReplied():
                self._running[name] = (since, f"turn {event.turn}")
            case events.ToolCalled():
                self._running[name] = (since, event.tool)
            case events.StepReached(message=message) if message.startswith("warning: "):
                self._say(f"{name}: {message}")
            case events.RunEnded():
                self._running[name] = (since, "hidden tests")
        self._status()

    def result(self, result: Result) -> None:
        self._running.pop(result.name, None)
        self.results.append(result)
        word = "passed" if result.passed else f"failed: {_first_line(result.reason)}"
        self._say(f"{result.name}: {word} ({len(self.results)} of {len(self._cases)})")
        if self._report != "-":
            self.write_report()
        self._status()

    async def watch(self) -> None:
        """Show the status at intervals, so that a long wait does not look like a hang."""
        while True:
            await asyncio.sleep(1 if self._live else STATUS_INTERVAL_S)
            if self._live:
                self._status()
            elif self._running:
                self._say(f"running: {self._running_tasks()}")

    def clear(self) -> None:
        """Remove the status line."""
        if self._live:
            sys.stderr.write("\r\x1b[K")

    def end(self, interrupted: bool) -> None:
        self.clear()
        if self._report == "-":
            typer.echo(json.dumps(self._full_report(), indent=2))
        else:
            self.write_report()
            typer.echo("\n".join(self._table()))
        if interrupted:
            remaining = len(self._cases) - len(self.results)
            where = f"; the other results are in {self._report}" if self._report not in (None, "-") else ""
            self._say(f"Interrupted: {remaining} of {len(self._cases)} tasks were not finished{where}.")

    def write_report(self) -> None:
        """Write the report so far, replacing an existing file atomically."""
        if self._report in (None, "-"):
            return
        replace_file(Path(str(self._report)), json.dumps(self._full_report(), indent=2) + "\n")

    def _full_report(self) -> dict[str, object]:
        return make_report(self._source, self._began, self._cases, self.results)

    def _table(self) -> list[str]:
        order = {case.name: number for number, case in enumerate(self._cases)}
        results = sorted(self.results, key=lambda result: order[result.name])
        rows = [("task", "passed", "turns", "tokens", "cost", "time", "")]
        rows += [
            (
                each.name,
                "yes" if each.passed else "no",
                str(each.turns),
                f"{each.tokens:,}",
                _money(each.cost_usd),
                f"{each.duration_s:.1f} s",
                "" if each.passed else f"{each.outcome}: {_first_line(each.reason)}",
            )
            for each in results
        ]
        whole = make_report(self._source, self._began, self._cases, self.results)
        took = (datetime.now(UTC) - self._began).total_seconds()
        passed = f"{whole['passed']}/{len(results)}"
        total = ("total", passed, str(whole["turns"]), f"{whole['tokens']:,}", _money(whole["cost_usd"]))
        rows.append((*total, f"{took:.1f} s", ""))
        widths = [max(len(row[at]) for row in rows) for at in range(6)]
        return [
            "  ".join(
                [row[0].ljust(widths[0]), *(row[at].rjust(widths[at]) for at in range(1, 6)), row[6]]
            ).rstrip()
            for row in rows
        ]

    def _running_tasks(self) -> str:
        now = time.monotonic()
        return ", ".join(
            f"{name} ({doing}, {now - since:.0f} s)" for name, (since, doing) in self._running.items()
        )

    def _status(self) -> None:
        if self._live:
            line = f"{len(self.results)}/{len(self._cases)} {self._running_tasks()}"
            sys.stderr.write(f"\r\x1b[K{line[: (os.get_terminal_size(2).columns or 80) - 1]}")
            sys.stderr.flush()

    def _say(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}\n" if self._live else f"{line}\n")
        sys.stderr.flush()


def _money(cost_usd: float | None) -> str:
    return "unknown" if cost_usd is None else dollars(cost_usd)


def _first_line(text: str) -> str:
    return one_line((text.strip().splitlines() or [""])[0], MAX_REASON_CHARS)
