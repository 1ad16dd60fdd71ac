"""Approvals of an owner: of a program, its manifest and its tools, each by its digest.

A trial writes down what was seen. An approval takes it over. Whatever changes afterwards makes the extension
unusable until it is tried and approved again.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.untrusted_tool_description import DeclaredTool, tools_digest
from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.system.atomic_file import write_private
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a trial."""

    program: str  # digest
    manifest: str  # digest
    tools: tuple[DeclaredTool, ...]
    server: str = ""  # its name and version, as it says
    activity: Mapping[str, Any] = field(default_factory=dict)  # files, hosts and processes
    problems: tuple[str, ...] = ()
    tried_ms: int = 0

    @property
    def tools_digest(self) -> str:
        return tools_digest(self.tools)

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "manifest": self.manifest,
            "tools_digest": self.tools_digest,
            "tools": [
                {"name": each.name, "description": each.description, "inputSchema": dict(each.schema)}
                for each in self.tools
            ],
            "server": self.server,
            "activity": dict(self.activity),
            "problems": list(self.problems),
            "tried_ms": self.tried_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An approved trial."""

    trial: Trial
    by: str
    approved_ms: int


@dataclass(frozen=True, slots=True)
class Approvals:
    """The trials and approvals below a directory of Hutch's own. The methods block the thread."""

    directory: Path

    def write_trial(self, name: str, trial: Trial) -> None:
        write_private(self._path("trials", name), json.dumps(trial.to_json(), indent=1) + "\n")

    def trial(self, name: str) -> Trial | None:
        found = self._read("trials", name)
        return _trial(found) if found is not None else None

    def approve(self, manifest: Manifest, program: str, *, by: str) -> Approval:
        """Approve what the last trial showed, if nothing has changed since."""
        trial = self.trial(manifest.name)
        if trial is None:
            raise NotFound(
                f"The extension {manifest.name} was not tried. Run: hutch extensions try {manifest.name}"
            )
        if change := _changed(trial, manifest, program):
            raise Conflict(
                f"{change} of the extension {manifest.name} changed after its trial. "
                f"Run: hutch extensions try {manifest.name}"
            )
        if not trial.tools:
            raise BadRequest(f"The trial of {manifest.name} found no tools. There is nothing to approve.")
        approval = Approval(trial=trial, by=by, approved_ms=wall_ms())
        about = {"by": by, "approved_ms": approval.approved_ms, "trial": trial.to_json()}
        write_private(self._path("approved", manifest.name), json.dumps(about, indent=1) + "\n")
        return approval

    def find(self, name: str) -> Approval | None:
        found = self._read("approved", name)
        if found is None:
            return None
        return Approval(trial=_trial(found["trial"]), by=found["by"], approved_ms=found["approved_ms"])

    def withdraw(self, name: str) -> bool:
        """Forget an approval and a trial; False if there was no approval."""
        path = self._path("approved", name)
        was_approved = path.exists()
        path.unlink(missing_ok=True)
        self._path("trials", name).unlink(missing_ok=True)
        return was_approved

    def check(self, manifest: Manifest, program: str) -> Approval:
        """The approval of an extension, if it still is what was approved."""
        approval = self.find(manifest.name)
        again = f"An owner must try and approve it: hutch extensions try {manifest.name}"
        if approval is None:
            raise Denied(f"The extension {manifest.name} is not approved. {again}")
        if change := _changed(approval.trial, manifest, program):
            raise Denied(f"{change} of the extension {manifest.name} changed after it was approved. {again}")
        return approval

    def _path(self, folder: str, name: str) -> Path:
        return self.directory / folder / f"{name}.json"

    def _read(self, folder: str, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path(folder, name).read_bytes())
        except FileNotFoundError:
            return None
        return found


def check_tools(manifest: Manifest, approved: Trial, listed: tuple[DeclaredTool, ...]) -> None:
    """Refuse a server that lists other tools than the approved ones."""
    if tools_digest(listed) != approved.tools_digest:
        raise Denied(
            f"The tools of the extension {manifest.name} (their names, descriptions or arguments) are not "
            "those that were approved. An owner must try and approve it: "
            f"hutch extensions try {manifest.name}"
        )


def _changed(trial: Trial, manifest: Manifest, program: str) -> str:
    if trial.manifest != manifest.digest:
        return "The manifest"
    return "The program" if trial.program != program else ""


def _trial(values: Mapping[str, Any]) -> Trial:
    tools = (DeclaredTool(each["name"], each["description"], each["inputSchema"]) for each in values["tools"])
    return Trial(
        program=values["program"],
        manifest=values["manifest"],
        tools=tuple(tools),
        server=values.get("server", ""),
        activity=values.get("activity", {}),
        problems=tuple(values.get("problems", ())),
        tried_ms=values.get("tried_ms", 0),
    )
