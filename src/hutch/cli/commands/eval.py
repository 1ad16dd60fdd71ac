"""`hutch eval`: run a set of tasks in parallel and grade them with tests that the agent did not see."""

import asyncio
from collections.abc import Sequence
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
from hutch.cli.render.evaluation_progress_and_table import Board
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.session import Tries
from hutch.flows.evaluation.attempts_and_report import Attempt, plan_attempts
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.case_file import BUILTIN, BUILTIN_FILE, REPOS, load_cases
from hutch.flows.evaluation.evaluator import EvalOptions, NoModel, evaluate
from hutch.flows.personas import find_persona
from hutch.forge.repo_url import parse_repo_url
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS, is_handled

ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROVIDER:NAME",
        help="The model for all tasks, overriding theirs; repeat it to compare models.",
    ),
]
Repeat = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="How often each task is attempted.")]
TryCount = Annotated[
    int,
    typer.Option(metavar="N", min=0, max=32, help="Agents that try each task; the best result counts."),
]


def eval_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file of tasks (YAML, JSON, JSONL), or 'builtin' for those of Hutch."
        ),
    ],
    model: ModelNames = None,
    repeat: Repeat = 1,
    tries: TryCount = 0,
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

    With --repeat or several models, it compares pass rates with their confidence intervals.
    Exits with 0 when all tasks pass, with 3 when some do not, with 4 when a key is missing or rejected, with
    6 without a model. Ctrl-C keeps the results so far.
    """
    path = BUILTIN_FILE if file == BUILTIN else Path(file)
    cases = load_cases(path, repos=repos)
    chosen = [case for case in cases if only is None or fnmatchcase(case.name, f"*{only}*")]
    if not chosen:
        names = ", ".join(case.name for case in cases[:10])
        raise BadRequest(f"No task has '{only}' in its name. The tasks are: {names}.")
    attempts = plan_attempts(chosen, model or (), repeat)
    board = Board(file, attempts, report)
    board.write_report()  # a report that cannot be written must fail now, not after hours
    options = EvalOptions(
        source=path,
        persona=persona,
        jobs=jobs,
        tries=_tries(tries),
        plain=plain,
        on_begin=board.begin,
        on_event=board.event,
        on_result=board.result,
    )
    return asyncio.run(_evaluate(attempts, options, board))


async def _evaluate(attempts: Sequence[Attempt], options: EvalOptions, board: "Board") -> int:
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    models = models_of(loaded)
    for name in dict.fromkeys(each.model for each in attempts):
        if name:
            models.check(name)
    cases = [each.case for each in attempts]
    if any(not each.model and not _names_model(each.case) for each in attempts):
        models.check("")
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
            await evaluate(context, attempts, options)
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


def _tries(count: int) -> Tries:
    if count == 1:
        raise BadRequest("--tries needs 2 or more. To attempt each task several times, use --repeat.")
    return Tries(count=count)


def _names_model(case: EvalCase) -> bool:
    return bool(case.model or case.cassette or case.persona or case.rerun)


def _check_persona(name: str, folder: Path, cases: Sequence[EvalCase]) -> None:
    """Refuse a persona that neither the installation nor a task has. That of an address is not known yet."""
    file = f"{REPOSITORY_FOLDER}/{name}.md"

    def may_have(case: EvalCase) -> bool:
        if case.rerun is not None:
            return True  # its session may have it
        if not case.repo:
            return file in case.files
        path = parse_repo_url(case.repo).path
        return path is None or (path / file).is_file()

    try:
        find_persona(name, folder)
    except NotFound as error:
        if not any(map(may_have, cases)):
            raise BadRequest(str(error)) from None
