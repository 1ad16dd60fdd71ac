"""The context of an evaluation: sessions in this process, and fresh jails for grading."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app.jails import jail_policy, open_jail
from hutch.app.local_sessions import open_local
from hutch.app.workspaces import open_workspace, settings_for
from hutch.flows.evaluation.evaluator import EvalContext
from hutch.flows.evaluation.grading import CaseTests
from hutch.jail.interface import Jail
from hutch.settings import LoadedSettings
from hutch.workspace.workspace import Workspace


def _tests_of(loaded: LoadedSettings) -> CaseTests:
    tests = loaded.settings.tests
    return CaseTests(tests.command, tests.timeout_s, tests.memory_bytes)


@asynccontextmanager
async def open_evaluation(loaded: LoadedSettings, *, jobs: int) -> AsyncIterator[EvalContext]:
    """Open a session host in this process for an evaluation."""
    async with open_local(loaded, jobs=jobs) as local:

        @asynccontextmanager
        async def open_fresh(workspace_id: str) -> AsyncIterator[tuple[Workspace, Jail]]:
            async with open_workspace(loaded, workspace_id) as workspace:
                settings = settings_for(loaded, workspace.record).settings
                policy = await workspace.policy(jail_policy(settings))
                async with open_jail(workspace.place, policy) as jail:
                    yield workspace, jail

        yield EvalContext(
            local.services,
            local.host,
            local.caller,
            open_fresh,
            lambda record: _tests_of(settings_for(loaded, record)),
        )
