"""The network and the limits of sessions, as their jails and runs get them.

They are computed from the session, the settings and the owner's role each time that a jail opens or a
run starts.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Protocol

from hutch.domain.errors import NotFound
from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.domain.session import Session
from hutch.environment.layers.layer_paths_and_variables import merged_environment, session_variables
from hutch.environment.layers.layer_store import LayerStore
from hutch.flows.command_limits_and_sources import EffectiveLimit, LimitSources, capped_resources
from hutch.flows.interviews.workspace_toolchains import WorkspaceToolchains
from hutch.flows.member_network_cap import parse_network_cap, session_network
from hutch.flows.member_session_caps import MemberCaps, is_capped
from hutch.flows.policies.applicable_policies import Policies
from hutch.jail.policy import Policy
from hutch.sessions.open_jail_policy_change import adjust_jail
from hutch.sessions.sandbox import Sandbox
from hutch.store.jail_secret_lookup import JailSecrets
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record


class BuildPolicy(Protocol):
    """Makes the policy of a jail for a workspace."""

    def __call__(
        self, record: Record, *, network: Sequence[str], author: str, limits: dict[str, int | float | None]
    ) -> Policy: ...


def _outer_paths(session: Session) -> tuple[str, ...]:
    """The paths by which scripts in a user's directory name its files."""
    return (session.repository,) if session.delivery.in_place else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Computes the limits of sessions; `app/` builds it."""

    rows: Rows
    policies: Policies  # of owners
    home: Home  # of the workspaces
    jail: Mapping[str, Any]  # values of the settings, by their names in this section
    members: Mapping[str, Any]
    is_set: Callable[[str], bool]  # whether a value of `jail` is not the default
    of_repository: Callable[
        [Record], Mapping[str, Any]
    ]  # the values of `jail` that its repository has lowered
    build_policy: BuildPolicy
    secrets: JailSecrets
    toolchains: WorkspaceToolchains

    @property
    def caps(self) -> MemberCaps:
        """The caps on members."""
        runs = (self.members[f"run_{each.name}"] for each in fields(RunLimits))
        network = parse_network_cap(self.members["network"], self.jail["network"])
        return MemberCaps(network, capped_resources(self.jail, self.members), RunLimits(*runs))

    async def network(self, session: Session) -> tuple[str, ...]:
        """The hosts that a session asked for and may reach."""
        return await session_network(self.caps.network, self.policies, self.rows, session)

    async def run_cap(self, session: Session) -> RunLimits:
        """The limits that runs of the session may not exceed."""
        return self.caps.limits if await is_capped(self.rows, session) else NO_LIMITS

    async def policy(self, session: Session) -> Callable[[Record], Policy]:
        """The policy of the session's jail, once its workspace is known."""
        network, capped = await self.network(session), await is_capped(self.rows, session)
        limit = await self.policies.network_limit(session)  # also limits the hosts of the settings
        secrets = await asyncio.to_thread(
            self.secrets.read, session.secrets, session.owner, is_owner=not capped
        )
        toolchain = await self.toolchains.find(session.id)

        def build(record: Record) -> Policy:
            limits = self._sources(record).effective(session.resources, is_capped=capped)
            values = {each.name: each.value for each in limits}
            author = session.delivery.author
            policy = self.build_policy(record, network=network, author=author, limits=values)
            if capped:  # also what a command asks for, not only the default
                policy = replace(
                    policy,
                    limits=replace(policy.limits, max_command_timeout_s=self.members["command_timeout_s"]),
                )
            installed = merged_environment(policy.environment, self._variables(record))
            installed = merged_environment(installed, toolchain.variables)
            return replace(
                policy,
                readonly=tuple(dict.fromkeys((*policy.readonly, *toolchain.directories))),
                network=limit.covered(policy.network),
                environment=tuple({**dict(installed), **dict(session.variables)}.items()),
                secrets=secrets,
                also_at=_outer_paths(session),
            )

        return build

    def _variables(self, record: Record) -> dict[str, str]:
        """The variables of the repository, and of installed dependencies."""
        store = LayerStore(self.home)
        layers = [layer for key in record.layers if (layer := store.find(key))]
        return {**record.variables, **session_variables(layers)}

    async def adjust(self, session: Session, sandbox: Sandbox) -> Sequence[str]:
        """Apply them to an open jail. Returns the names of the limits that only a new one can have."""
        return await adjust_jail(sandbox, (await self.policy(session))(sandbox.workspace.record))

    def effective(self, session: Session, is_capped: bool) -> tuple[EffectiveLimit, ...]:
        """The limits of a session's commands. Blocks the thread."""
        record = None
        if session.workspace_id:
            with suppress(NotFound):  # its files were removed
                record = Record.read(self.home.workspace(session.workspace_id))
        return self._sources(record).effective(session.resources, is_capped=is_capped)

    def _sources(self, record: Record | None) -> LimitSources:
        repository = self.of_repository(record) if record else {}
        return LimitSources(jail=self.jail, members=self.members, is_set=self.is_set, repository=repository)
