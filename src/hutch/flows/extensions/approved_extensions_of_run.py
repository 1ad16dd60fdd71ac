"""The extensions of a run: those that its persona gets, if they are what an owner has approved."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from hutch.agent.extensions.extension_approvals import Approvals, Trial
from hutch.agent.extensions.extension_catalogue_file import Catalogue
from hutch.agent.extensions.extension_host import ExtensionHost, Surroundings
from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.extension_tool import ExtensionTool, approved_tools, is_named, selected_tools
from hutch.agent.extensions.program_digest import program_digest
from hutch.agent.persona import Persona
from hutch.agent.run_persona_tools_and_rules import Equipment
from hutch.agent.tool_call_rules import Policy
from hutch.domain.errors import HutchError
from hutch.domain.session import Session
from hutch.flows.policies.applicable_policies import Policies
from hutch.sessions.live_session import LiveSession
from hutch.store.jail_secret_lookup import JailSecrets
from hutch.system.lazy_dataclass import dataclass

MAX_TOOLS = 64  # of all extensions of a run


@dataclass(frozen=True, slots=True)
class Extensions:
    """The extensions of an installation; `app/` builds it."""

    catalogue: Catalogue
    approvals: Approvals
    policies: Policies  # of owners
    secrets: JailSecrets

    def for_run(self, live: LiveSession, session: Session) -> "RunExtensions":
        """The extensions of a run in this session. None is started before its first call."""
        open_beside = live.sandbox.open_beside
        if open_beside is None:
            return RunExtensions(self, None)

        async def read_secrets(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
            # An owner has approved that this program gets them, whoever the session belongs to.
            return await asyncio.to_thread(self.secrets.read, names, session.owner, is_owner=True)

        async def allowed_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
            return (await self.policies.network_limit(session)).covered(hosts)

        surroundings = Surroundings(
            open_jail=open_beside,
            policy=lambda: live.sandbox.jail.policy,
            read_secrets=read_secrets,
            allowed_hosts=allowed_hosts,
        )
        return RunExtensions(self, ExtensionHost(self.approvals, surroundings))


class RunExtensions:
    """The extensions of one run. The caller closes them."""

    def __init__(self, extensions: Extensions, host: ExtensionHost | None) -> None:
        self._extensions = extensions
        self._host = host

    async def add(self, equipment: Equipment) -> tuple[Equipment, tuple[str, ...]]:
        """The equipment with the tools of extensions, and a sentence about each that cannot be used."""
        if self._host is None:
            return equipment, ()
        return await asyncio.to_thread(self._add, equipment, self._host)

    async def close(self) -> None:
        if self._host is not None:
            await self._host.close()

    def _add(self, equipment: Equipment, host: ExtensionHost) -> tuple[Equipment, tuple[str, ...]]:
        persona, policy = equipment.persona, equipment.policy
        tools: list[ExtensionTool] = []
        problems: list[str] = []
        for manifest in self._listed(problems, persona):
            try:
                trial = self._approved(manifest)
            except HutchError as error:
                problems.append(str(error))
                continue
            found = approved_tools(manifest, trial, host, _patterns(manifest, persona))
            found = [
                each for each in found if all(is_named(each.id, limit) for limit in persona.extension_limits)
            ]
            tools += found
            policy = policy.narrowed(manifest.rules) if found else policy
        if len(tools) > MAX_TOOLS:
            problems.append(f"Of {len(tools)} tools of extensions, the first {MAX_TOOLS} are used.")
        return _equipped(equipment, tools[:MAX_TOOLS], policy), tuple(problems)

    def _listed(self, problems: list[str], persona: Persona) -> list[Manifest]:
        """The extensions in the catalogue that the persona gets."""
        try:
            entries = self._extensions.catalogue.entries()
        except HutchError as error:
            problems.append(str(error))
            return []
        found = []
        for each in entries:
            if isinstance(each, Manifest):
                found += [each] if _patterns(each, persona) else []
            elif selected_tools(each.name, persona.extensions):
                problems.append(each.problem)
        return found

    def _approved(self, manifest: Manifest) -> Trial:
        return self._extensions.approvals.check(manifest, program_digest(manifest)).trial


def _patterns(manifest: Manifest, persona: Persona) -> tuple[str, ...]:
    """The patterns of the tools that a persona gets."""
    return ("*",) if persona.name in manifest.personas else selected_tools(manifest.name, persona.extensions)


def _equipped(equipment: Equipment, tools: list[ExtensionTool], policy: Policy) -> Equipment:
    names = tuple(each.id for each in tools)
    return replace(
        equipment,
        persona=replace(equipment.persona, extensions=names),
        tools=(*equipment.tools, *tools),
        policy=policy,
    )
