"""A workspace with a jail, and extensions beside it, as a session has them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hutch.agent.extensions.extension_approvals import Approvals
from hutch.agent.extensions.extension_host import ExtensionHost, Surroundings
from hutch.agent.extensions.extension_manifest import Manifest, parse_manifest
from hutch.agent.extensions.extension_tool import approved_tools
from hutch.agent.extensions.extension_trial import TrialCall, TrialResult, try_extension
from hutch.agent.extensions.program_digest import program_digest
from hutch.agent.extensions.trial_activity_recording import JailActivity
from hutch.agent.tools.builtin import TOOLS
from hutch.agent.tools.interface import ToolResult
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.jail.egress import EgressAttempt, Resolve
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import AGENT, Policy
from tests.agent.run_setups import ToolEnv, open_tool_env

NO_CALLS: Sequence[TrialCall] = ()


@dataclass(slots=True)
class ExtensionRig:
    """Tools of extensions with a workspace and jails, without a model or a log."""

    env: ToolEnv
    approvals: Approvals
    surroundings: Surroundings
    host: ExtensionHost
    attempts: list[EgressAttempt] = field(default_factory=list)

    async def try_(self, manifest: Manifest, calls: Sequence[TrialCall] = NO_CALLS) -> TrialResult:
        """Try an extension, on this workspace."""
        activity = JailActivity()
        surroundings = self.surroundings
        result = await try_extension(manifest, program_digest(manifest), surroundings, activity, calls)
        self.approvals.write_trial(manifest.name, result.trial)
        return result

    async def approve(self, name: str, values: Mapping[str, Any]) -> Manifest:
        """Try and approve an extension, and give its tools to the agent."""
        manifest = parse_manifest(name, values)
        await self.try_(manifest)
        self.approvals.approve(manifest, program_digest(manifest), by="usr_owner")
        self.give(manifest)
        return manifest

    def give(self, manifest: Manifest) -> None:
        """Give the approved tools to the agent."""
        approval = self.approvals.find(manifest.name)
        assert approval is not None
        tools = approved_tools(manifest, approval.trial, self.host)
        self.env.toolbox = Toolbox((*TOOLS, *tools), self.env.context.redactor)

    async def use(self, tool: str, **arguments: Any) -> ToolResult:
        return await self.env.use(tool, **arguments)


@asynccontextmanager
async def open_extension_rig(
    place: Path,
    files: Mapping[str, bytes],
    *,
    policy: Policy = AGENT,
    secrets: Mapping[str, str] | None = None,
    private_networks: Sequence[str] = (),
    resolve: Resolve | None = None,
    **context: Any,
) -> AsyncIterator[ExtensionRig]:
    attempts: list[EgressAttempt] = []
    outside = Outside(
        on_egress=attempts.append,
        always=True,
        also_allow_networks=tuple(private_networks),
        resolve=resolve,
    )
    async with open_tool_env(place, files, policy=policy, **context) as env:

        @asynccontextmanager
        async def open_beside(asked: Policy, use: str) -> AsyncIterator[Jailed]:
            with TemporaryDirectory(prefix="hutch-test-") if use == "none" else nullcontext("") as empty:
                where = env.context.workspace.place
                if empty:
                    await asyncio.to_thread(Path(empty).chmod, 0o755)
                async with open_jail(empty or where, asked, outside=outside) as jail:
                    yield jail

        async def read_secrets(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
            return tuple((name, (secrets or {})[name]) for name in names)

        async def all_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
            return tuple(hosts)

        surroundings = Surroundings(
            open_jail=open_beside,
            policy=lambda: replace(policy),
            read_secrets=read_secrets,
            allowed_hosts=all_hosts,
        )
        approvals = Approvals(place / "extensions")
        host = ExtensionHost(approvals, surroundings)
        try:
            yield ExtensionRig(env, approvals, surroundings, host, attempts)
        finally:
            await host.close()
