"""Extensions of an installation, managed by its owner: list, add, try, approve, withdraw and remove."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from hutch.agent.extensions.extension_approvals import Approval, Approvals, Trial
from hutch.agent.extensions.extension_catalogue_file import Unusable
from hutch.agent.extensions.extension_host import Surroundings
from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.extension_trial import SAMPLES, TrialCall, TrialResult, try_extension
from hutch.agent.extensions.program_digest import program_digest
from hutch.agent.extensions.shown_directory_check import check_directories
from hutch.agent.extensions.trial_activity_recording import JailActivity
from hutch.agent.extensions.untrusted_tool_description import MAX_DESCRIPTION_CHARS, clean_text, full_name
from hutch.domain.errors import HutchError
from hutch.domain.redaction import Redactor
from hutch.flows.extensions.approved_extensions_of_run import Extensions
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.store.audit import Audit
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.directory_checks import OwnDirectories

State = Literal["approved", "changed", "tried", "listed", "unusable"]


class OpenJail(Protocol):
    """Opens a jail on a directory of the host."""

    def __call__(
        self, workspace: Path, policy: Policy, *, outside: Outside
    ) -> AbstractAsyncContextManager[Jailed]: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """An extension of the catalogue, and whether it can be used."""

    name: str
    state: State
    problem: str = ""
    manifest: Manifest | None = None
    trial: Trial | None = None  # the approved one, or else the last
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class ExtensionManagement:
    """The actions of an owner; `app/` builds it."""

    extensions: Extensions
    rows: Rows
    open_jail: OpenJail
    policy: Policy  # of jails by the settings
    networks: Sequence[str]  # private networks that jails may reach
    redactor: Redactor
    own: OwnDirectories  # of Hutch, which no extension may see

    @property
    def approvals(self) -> Approvals:
        return self.extensions.approvals

    async def list(self) -> list[Entry]:
        """All extensions of the catalogue, in its order."""
        entries = await asyncio.to_thread(self.extensions.catalogue.entries)
        return [await asyncio.to_thread(self._entry, each) for each in entries]

    async def show(self, name: str) -> Entry:
        manifest = await asyncio.to_thread(self.extensions.catalogue.find, name)
        return await asyncio.to_thread(self._entry, manifest)

    async def add(self, name: str, values: Mapping[str, Any], *, by: str, replace: bool = False) -> Manifest:
        """Write an entry into the catalogue."""
        catalogue = self.extensions.catalogue
        manifest = await asyncio.to_thread(catalogue.add, name, values, replace=replace)
        await self._note("extension.added", name, by)
        return manifest

    async def remove(self, name: str, *, by: str) -> None:
        """Remove an extension with its approval."""
        await asyncio.to_thread(self.extensions.catalogue.remove, name)
        await asyncio.to_thread(self.approvals.withdraw, name)
        await self._note("extension.removed", name, by)

    async def try_(self, name: str, calls: Sequence[TrialCall] = ()) -> TrialResult:
        """Run an extension in a jail on samples, and write down what it does."""
        manifest = await asyncio.to_thread(self.extensions.catalogue.find, name)
        await asyncio.to_thread(check_directories, manifest, self.own, (Path.home(),))
        program = await asyncio.to_thread(program_digest, manifest)
        activity = JailActivity()
        surroundings = Surroundings(
            open_jail=lambda policy, use: self._open_sample(policy, use, activity),
            policy=lambda: self.policy,
            read_secrets=self._read_secrets,
            allowed_hosts=_all_hosts,
        )
        clean = self.redactor.redact
        result = await try_extension(manifest, program, surroundings, activity, calls, clean)
        await asyncio.to_thread(self.approvals.write_trial, name, result.trial)
        return result

    async def approve(self, name: str, *, by: str) -> Approval:
        """Approve what the last trial has shown."""
        manifest = await asyncio.to_thread(self.extensions.catalogue.find, name)
        program = await asyncio.to_thread(program_digest, manifest)
        approval = await asyncio.to_thread(lambda: self.approvals.approve(manifest, program, by=by))
        await self._note("extension.approved", name, by)
        return approval

    async def withdraw(self, name: str, *, by: str) -> None:
        """Withdraw an approval; runs that have started the extension keep it until they end."""
        await asyncio.to_thread(self.extensions.catalogue.find, name)
        if await asyncio.to_thread(self.approvals.withdraw, name):
            await self._note("extension.withdrawn", name, by)

    def _entry(self, found: Manifest | Unusable) -> Entry:
        if not isinstance(found, Manifest):
            return Entry(found.name, "unusable", found.problem)
        approval, trial = self.approvals.find(found.name), self.approvals.trial(found.name)
        shown = approval.trial if approval else trial
        try:
            program = program_digest(found)
        except HutchError as error:
            return Entry(found.name, "unusable", str(error), found, shown, approval)
        if approval is None:
            return Entry(found.name, "tried" if trial else "listed", "", found, trial)
        try:
            self.approvals.check(found, program)
        except HutchError as error:
            return Entry(found.name, "changed", str(error), found, shown, approval)
        return Entry(found.name, "approved", "", found, shown, approval)

    @asynccontextmanager
    async def _open_sample(self, policy: Policy, use: str, activity: JailActivity) -> AsyncIterator[Jailed]:
        with TemporaryDirectory(prefix="hutch-trial-") as directory:
            await asyncio.to_thread(_write_samples, Path(directory), with_files=use != "none")
            outside = Outside(
                on_egress=activity.note_attempt, also_allow_networks=tuple(self.networks), always=True
            )
            async with self.open_jail(Path(directory), policy, outside=outside) as jail:
                yield jail

    async def _read_secrets(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return await asyncio.to_thread(self.extensions.secrets.read, names, "", is_owner=True)

    async def _note(self, action: str, name: str, by: str) -> None:
        await Audit(self.rows).add(action, user_id=by, object=name)


def entry_json(entry: Entry) -> dict[str, Any]:
    """An entry for clients. Text of its authors is cleaned."""
    manifest, trial, approval = entry.manifest, entry.trial, entry.approval
    tools = trial.tools if trial else manifest.declared if manifest else ()
    return {
        "name": entry.name,
        "state": entry.state,
        "problem": entry.problem,
        "kind": manifest.kind if manifest else "",
        "description": manifest.description if manifest else "",
        "command": [*manifest.argv] if manifest else [],
        "url": manifest.url if manifest else "",
        "workspace": manifest.workspace if manifest else "none",
        "paths": [*manifest.paths] if manifest else [],
        "network": [*manifest.network] if manifest else [],
        "variables": [name for name, _ in manifest.variables] if manifest else [],
        "secrets": [*manifest.secrets] if manifest else [],
        "personas": [*manifest.personas] if manifest else [],
        "server": trial.server if trial else "",
        "tools": [
            {
                "name": clean_text(each.name, 80),
                "full_name": clean_text(full_name(entry.name, each.name), 80),
                "description": clean_text(each.description, MAX_DESCRIPTION_CHARS),
                "problem": each.problem,
            }
            for each in tools
        ],
        "activity": {**JailActivity().to_json(), **(trial.activity if trial else {})},
        "approved_by": approval.by if approval else "",
        "approved_ms": approval.approved_ms if approval else None,
    }


async def _all_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Policies bind sessions; a trial reaches what the manifest names."""
    return tuple(hosts)


def _write_samples(directory: Path, *, with_files: bool) -> None:
    directory.chmod(0o777)  # the jail may have another user
    for path, text in SAMPLES.items() if with_files else ():
        file = directory / path
        file.parent.mkdir(exist_ok=True)
        file.parent.chmod(0o777)
        file.write_text(text)
        file.chmod(0o666)
