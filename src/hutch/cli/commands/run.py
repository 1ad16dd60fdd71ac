"""`hutch run`: turn a prompt and a repository into a tested change, shown live."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from hutch import settings
from hutch.agent.external_agents.external_agent_commands import known_agent
from hutch.cli.dependency_setup_question import ask_for_setup
from hutch.cli.directory_copy_consent import may_copy
from hutch.cli.interactive_terminal_check import can_prompt
from hutch.cli.new_session_request_body import expand_home
from hutch.cli.new_session_starter_files import FileOption, FilesOption, read_starter_files
from hutch.cli.session_option_parsing import parse_generation, parse_resources, parse_variables
from hutch.domain import generation_options as domain
from hutch.domain.errors import BadRequest
from hutch.domain.generation_options import MAX_REPLY_TOKENS, MAX_TEMPERATURE, Generation
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NO_TRIES, Delivery, NewSession, Tries

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
MaxCost = Annotated[float | None, typer.Option(metavar="USD", min=0, help="Stop at this cost.")]
MAX_SIZE = 2**53 - 1  # the largest integer that JSON and the database store exactly
MaxTurns = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=MAX_SIZE, help="Stop after this many replies.")
]
MaxTokens = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=MAX_SIZE, help="Stop after this many tokens.")
]
PlainDirectory = Annotated[
    bool, typer.Option("--plain-directory", help="Copy a directory without git as a whole, without asking.")
]
Timeout = Annotated[float | None, typer.Option(metavar="S", min=0, help="Stop after this many seconds.")]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="What to do; - reads it from standard input.")]
Revision = Annotated[
    str | None, typer.Option("--revision", metavar="REV", help="The branch, tag or commit to start from.")
]
Uncommitted = Annotated[bool, typer.Option("--uncommitted", help="Include uncommitted changes.")]
Net = Annotated[
    list[str] | None,
    typer.Option("--net", metavar="HOST", help="A host that commands may reach; may be repeated."),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env", metavar="NAME=VALUE", help="A variable of every command in the jail; may be repeated."
    ),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="A secret of yours that every command gets as a variable; may be repeated.",
    ),
]
PersonaName = Annotated[str | None, typer.Option(metavar="NAME", help="The persona of the agent.")]
ModelName = Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="The model to use.")]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the model's replies to a file for --model scripted:FILE."),
]
Repository = Annotated[
    str,
    typer.Option(
        "--repo",
        metavar="REPO",
        help="A directory, or the address of a repository; by default the current directory.",
    ),
]
PULL_REQUEST = typer.Option(
    "--pr/--no-pr", help="Deliver the change as a branch; for GitHub, as a pull request."
)
Temperature = Annotated[
    float | None,
    typer.Option(metavar="T", min=0, max=MAX_TEMPERATURE, help="The model's temperature; 0 varies least."),
]
MaxReplyTokens = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=MAX_REPLY_TOKENS, help="Maximum tokens of one reply.")
]
Effort = Annotated[
    str | None, typer.Option(metavar="low|medium|high", help="How much the model thinks before it replies.")
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="LIMIT=VALUE",
        help="A limit of the session's commands, such as memory_bytes=1GiB; may be repeated.",
    ),
]
OnServer = Annotated[
    bool, typer.Option("--server", help="Run on the server; the run continues when you disconnect.")
]
Agent = Annotated[
    str,
    typer.Option(
        metavar="codex|claude|opencode|goose|CMD",
        help="An external agent that works instead of Hutch's own, in the jail, with the session's model.",
    ),
]
InProcess = Annotated[
    bool, typer.Option("--here", help="Run in this process even if a server runs on this machine.")
]

TryCount = Annotated[
    int | None,
    typer.Option("--tries", metavar="N", min=0, max=32, help="The number of agents that try the prompt."),
]
TryModels = Annotated[
    list[str] | None,
    typer.Option(metavar="PROVIDER:NAME", help="The model of the next try; may be repeated."),
]
TryPersonas = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="The persona of the next try; may be repeated.")
]
TryTemperatures = Annotated[
    list[float] | None,
    typer.Option(
        metavar="T", min=0, max=MAX_TEMPERATURE, help="The temperature of the next try; may be repeated."
    ),
]
Checks = Annotated[
    list[str] | None,
    typer.Option("--check", metavar="CMD", help="A command that judges each try; agents do not see it."),
]
TryReviewer = Annotated[
    str, typer.Option(metavar="PERSONA", help="The persona that reviews each try; by default none.")
]
EarlyStop = Annotated[
    bool, typer.Option("--early-stop/--no-early-stop", help="Stop when one try is clearly good.")
]


def run_command(
    prompt: Prompt,
    repo: Repository = "",
    file: FileOption = None,
    files: FilesOption = None,
    revision: Revision = None,
    uncommitted: Uncommitted = False,
    persona: PersonaName = None,
    model: ModelName = None,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    temperature: Temperature = None,
    max_reply_tokens: MaxReplyTokens = None,
    effort: Effort = None,
    limit: Limit = None,
    net: Net = None,
    env: Env = None,
    secret: Secret = None,
    record: Record = None,
    agent: Agent = "",
    pr: Annotated[bool, PULL_REQUEST] = True,
    server: OnServer = False,
    here: InProcess = False,
    plain: PlainDirectory = False,
    as_json: Json = False,
    tries: TryCount = None,
    try_model: TryModels = None,
    try_persona: TryPersonas = None,
    try_temperature: TryTemperatures = None,
    check: Checks = None,
    try_reviewer: TryReviewer = "",
    early_stop: EarlyStop = True,
) -> int:
    """Work on a prompt in a copy of a repository, inside a jail, and deliver a tested change.

    Your files stay untouched: the change arrives as a branch of the repository. With --file or
    --files the agent starts with copies of these files, and the result stays in the session. Ctrl-C
    stops the run; `hutch resume` continues it. With --tries, the best of several results is delivered.
    """
    given = read_starter_files(file, files, repository=repo)
    repo = "" if given else expand_home(repo or ".")
    several = _tries(tries or 0, try_model, try_persona, try_temperature, check, try_reviewer, early_stop)
    delivery = _delivery(record, agent, several, is_attended=server or _is_attended(as_json))
    new = NewSession(
        prompt=_read_prompt(prompt),
        repository=repo,
        files=given,
        plain_directory=may_copy(repo, plain, asks=not as_json),
        deliver=pr and not given,
        limits=RunLimits(max_turns, max_tokens, max_cost, timeout),
        generation=generation_of(temperature, max_reply_tokens, effort),
        delivery=replace(delivery, uncommitted=uncommitted),
        **dict[str, Any](revision=revision or "", persona=persona or "", model=model or ""),
        **_jail_options(net, env, secret, limit),
    )
    ask_for_setup("" if as_json else repo, new.revision, uncommitted=uncommitted, on_server=server)
    here = here or uncommitted or bool(agent) or record is not None
    return _start(new, server, _needs_this_process(repo, server, here), as_json)


def _jail_options(
    net: list[str] | None, env: list[str] | None, secret: list[str] | None, limit: list[str] | None
) -> dict[str, Any]:
    return {
        "network": tuple(net or ()),
        "variables": parse_variables(env),
        "secrets": tuple(secret or ()),
        "resources": parse_resources(limit),
    }


def _tries(
    count: int,
    models: list[str] | None,
    personas: list[str] | None,
    temperatures: list[float] | None,
    checks: list[str] | None,
    reviewer: str,
    stops_early: bool,
) -> Tries:
    given = Tries(
        models=tuple(models or ()),
        personas=tuple(personas or ()),
        temperatures=tuple(temperatures or ()),
        checks=tuple(checks or ()),
        reviewer=reviewer,
        stops_early=stops_early,
    )
    if count < 2 and given != NO_TRIES:
        raise BadRequest("--try-…, --check and --no-early-stop go with --tries N, where N is 2 or more.")
    return replace(given, count=count)


def _author() -> str:
    from hutch.cli.git_author import signature
    from hutch.settings.author_setting_without_pydantic import author_setting

    return signature(author_setting()) or ""


def _is_attended(as_json: bool) -> bool:
    return not as_json and can_prompt(settings.terminal_type())


def _delivery(record: Path | None, agent: str, tries: Tries, *, is_attended: bool) -> Delivery:
    if agent and tries.count:
        raise BadRequest("--tries are made by the agent of Hutch. Omit --agent.")
    return Delivery(
        author=_author(),
        unattended=not is_attended,
        record=_recording(record),
        agent=known_agent(agent),
        tries=tries,
    )


def _read_prompt(prompt: str) -> str:
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise BadRequest("The prompt is empty. Describe the task.")
    return text


def _start(new: NewSession, on_server: bool, in_process: bool, as_json: bool) -> int:
    from hutch.cli.early_session_request import send_early

    early = None if in_process else send_early(new, any_server=on_server)
    from hutch.cli.run_lifecycle import Where, run_session  # the server works on the request meanwhile

    where: Where = "server" if on_server else "here" if in_process else "anywhere"
    return run_session(new, where=where, as_json=as_json, early=early)


def generation_of(temperature: float | None, max_reply_tokens: int | None, effort: str | None) -> Generation:
    """The generation options of a command line."""
    if effort is not None:
        parse_generation("effort", effort)
    return Generation(temperature, max_reply_tokens, cast("domain.Effort | None", effort))


def _needs_this_process(repo: str, server: bool, here: bool) -> bool:
    """True if the run needs this process, and so cannot be on a server."""
    in_process = here or "@" in repo.partition("://")[2]
    if server and in_process:
        raise BadRequest(
            "--here, --uncommitted, --record, --agent and addresses with credentials need a run in this "
            "process. Omit --server."
        )
    return in_process


def _recording(file: Path | None) -> str:
    """The path of a recording; its directory must exist, so that it can be written."""
    if file is None:
        return ""
    if not file.absolute().parent.is_dir():
        raise BadRequest(
            f"There is no directory {str(file.absolute().parent)!r} for the recording. Create it."
        )
    return str(file.absolute())


def resume_command(
    run: Annotated[
        str, typer.Argument(metavar="SESSION", help="A session's or run's id, or 'last'.")
    ] = "last",
    pr: Annotated[bool | None, PULL_REQUEST] = None,
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="Another model.")] = None,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    temperature: Temperature = None,
    max_reply_tokens: MaxReplyTokens = None,
    effort: Effort = None,
    as_json: Json = False,
) -> int:
    """Continue a run that was stopped, from its log.

    It keeps its original options unless you override them here. Past usage counts: to continue after
    a limit was reached, set a higher one.
    """
    from hutch.cli.run_lifecycle import resume_session

    limits = RunLimits(max_turns, max_tokens, max_cost, timeout)
    generation = generation_of(temperature, max_reply_tokens, effort)
    return resume_session(
        run, limits=limits, model=model or "", generation=generation, deliver=pr, as_json=as_json
    )
