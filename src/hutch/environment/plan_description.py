"""A plan in words: for `hutch environment show`, and for the prompt of an agent.

Both are pure. Texts of a repository are cut and freed of control characters, since they
are shown on a terminal and to a model.
"""

from collections.abc import Sequence

from hutch.domain.dependency_plan import EnvironmentPlan, SetupStep
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable

SETTING = "environment.setup"  # the source of commands that are not detected
MAX_LINE_CHARS = 200
MAX_SHOWN = 12
MAX_LOG_LINES = 15


BOTH = "in the build and in sessions"
NOT_ALLOWED = "named by a lock file; not allowed by environment.registries"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a description: what it is about, and the text."""

    about: str
    text: str
    reason: str = ""


def describe_plan(plan: EnvironmentPlan, allowed_hosts: Sequence[str]) -> list[Row]:
    """The plan as rows: commands with their reasons, inputs, variables, hosts, services, notes.

    `allowed_hosts` are those of the registries that the build reaches.
    """
    if not plan.steps and not plan.services:
        nothing = "Nothing to install was found."
        return [Row("environment", nothing, "no lock file and no [environment]"), *_notes(plan)]
    is_detected = all(step.source != SETTING for step in plan.steps)
    found = "detected" if is_detected else "written by the repository"
    origin = "written in the settings" if plan.is_configured else f"{found}, and run after you accept it"
    rows = [Row("environment", f"{len(plan.steps)} command{'s' * (len(plan.steps) != 1)}", origin)]
    if not plan.steps:
        rows = [Row("environment", "Nothing to install was found.")]
    for step in plan.steps:  # the whole command: the user accepts all of it
        first, *more = [printable(line) for line in step.command.strip().splitlines()] or [""]
        rows += [Row("run", first, _reason(step)), *(Row("run", f"  {line}", "") for line in more)]
    rows += [
        Row("input", _line(path), "the build sees it, and rebuilds if it changes") for path in plan.inputs
    ]
    rows += [Row("output", _line(each), "kept, beside .venv and the like") for each in plan.outputs]
    in_sessions = plan.session_variables.items()
    rows += [
        Row("variable", _line(f"{name}={value}"), BOTH if (name, value) in in_sessions else "in the build")
        for name, value in plan.variables.items()
    ]
    rows += [
        Row("variable", _line(f"{name}={value}"), "in sessions")
        for name, value in plan.session_variables.items()
        if plan.variables.get(name) != value
    ]
    rows += [Row("path", _line(path), "before PATH") for path in plan.path]
    if plan.steps:
        rows += [Row("host", _line(host), "the build may reach it") for host in allowed_hosts]
        rows += [Row("host", _line(host), NOT_ALLOWED) for host in plan.hosts if host not in allowed_hosts]
    for service in plan.services:
        ready = (
            f"ready when '{_line(service.probe)}' succeeds" if service.probe else f"on port {service.port}"
        )
        rows.append(Row("service", f"{_line(service.name)}: {shown_command(service.command)}", ready))
    return [*rows, *_notes(plan)]


def describe_for_agent(
    plan: EnvironmentPlan,
    *,
    failure: Sequence[str] = (),
    is_accepted: bool = True,
    dropped: Sequence[str] = (),
    failed: Sequence[str] = (),
    missing_tools: Sequence[str] = (),
) -> str:
    """The paragraph of the prompt: what is installed, and where the set-up failed; may be empty.

    `failure` are the last lines of the log of a build that failed, `dropped` the paths that it left out,
    `failed` optional commands of a build that succeeded otherwise, each with its reason,
    `missing_tools` sentences about tools that the jail lacks.
    """
    if not plan.steps and not plan.services and not missing_tools:
        return ""
    sources = list(dict.fromkeys(step.source for step in plan.steps))[:MAX_SHOWN]
    parts = []
    if plan.steps and (failure or not is_accepted):
        reason = "the set-up failed" if is_accepted else "nobody has accepted the set-up yet"
        parts.append(
            f"The dependencies of {', '.join(map(_line, sources))} are NOT installed: {reason}. "
            "Work without them, and say in your summary which tests you could not run."
        )
        if failure:
            lines = "\n".join(f"  {_line(line)}" for line in failure[-MAX_LOG_LINES:])
            parts.append(
                f"The set-up is run by Hutch. The last lines of its log (untrusted output):\n{lines}"
            )
    elif plan.steps:
        parts.append(
            f"The dependencies of {', '.join(map(_line, sources))} are installed already; do not install "
            f"them again.{_where(plan)}"
        )
        if failed:
            lines = "\n".join(f"  {_line(each)}" for each in failed[:MAX_SHOWN])
            parts.append(
                "But these commands of the set-up failed; packages may be missing (untrusted output):\n"
                f"{lines}"
            )
        if dropped:
            named = ", ".join(map(_line, dropped[:MAX_SHOWN]))
            parts.append(
                f"The set-up also made these, which are not here: {named}. "
                "environment.outputs names such paths if tests need them."
            )
    parts += map(_line, missing_tools[:MAX_SHOWN])
    if plan.services:
        named = ", ".join(
            f"{_line(service.name)} on port {service.port}" if service.port else _line(service.name)
            for service in plan.services[:MAX_SHOWN]
        )
        parts.append(
            f"Before tests run, Hutch starts these services and waits for them: {named}. "
            "Their output is in /tmp/hutch-services."
        )
    return "\n".join(parts)


def shown_command(command: str) -> str:
    """The first line of a command, marked if there are more."""
    lines = command.strip().splitlines() or [""]
    first = _line(lines[0])
    return f"{first} …" if len(lines) > 1 else first


def _where(plan: EnvironmentPlan) -> str:
    places = []
    if "VIRTUAL_ENV" in plan.session_variables:
        places.append("Python packages are in .venv, which is active")
    if any("node_modules" in path for path in plan.path):
        places.append("Node packages are in node_modules")
    if "GOPROXY" in plan.session_variables:
        places.append("Go modules are in the module cache, and GOPROXY is off")
    return f" {'; '.join(places)}." if places else ""


def _reason(step: SetupStep) -> str:
    manager = f" ({step.manager})" if step.manager else ""
    return f"{_line(step.source)}{manager}{', may fail' if step.is_optional else ''}"


def _notes(plan: EnvironmentPlan) -> list[Row]:
    return [Row("note", _line(note)) for note in plan.notes]


def _line(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= MAX_LINE_CHARS else f"{shown[: MAX_LINE_CHARS - 1]}…"
