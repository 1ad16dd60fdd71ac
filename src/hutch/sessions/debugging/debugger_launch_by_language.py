"""The debugger of a file, by its language."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest
from hutch.domain.relative_path import parse_path
from hutch.jail.interface import Jail
from hutch.sessions.debugging.debug_requests import StartDebugger
from hutch.sessions.debugging.debugger_launch_parameters import LaunchPlan
from hutch.sessions.debugging.go_launch import plan_go
from hutch.sessions.debugging.node_launch import JAVASCRIPT, TYPESCRIPT, plan_node
from hutch.sessions.debugging.python_launch import plan_python


async def plan_launch(request: StartDebugger, jail: Jail, runners: Sequence[Runner]) -> LaunchPlan:
    """The plan for a request. Raises if the language has no debugger, or if its program is missing."""
    path = parse_path(request.path)
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".py":
        return await plan_python(request, path, jail, runners)
    if suffix in JAVASCRIPT + TYPESCRIPT:
        return await plan_node(request, path, jail, runners)
    if suffix == ".go":
        return await plan_go(request, path, jail, runners)
    raise BadRequest(f"'{path}' has no debugger. Hutch debugs Python, JavaScript, TypeScript and Go files.")
