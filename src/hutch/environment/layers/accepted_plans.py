"""The set-ups that users have accepted, by content: one that changes is shown again."""

import hashlib
import json
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan
from hutch.environment.layers.layer_key import plan_digest
from hutch.system.atomic_file import write_private
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AcceptedPlans:
    """The accepted plans below a directory. All methods block the thread."""

    directory: Path

    def accept(self, owner: str, repository: str, plan: EnvironmentPlan) -> None:
        steps = [step.command for step in plan.steps]
        about = {"owner": owner, "repository": repository, "steps": steps, "accepted_ms": wall_ms()}
        write_private(self._path(owner, repository, plan), json.dumps(about, indent=1) + "\n")

    def is_accepted(self, owner: str, repository: str, plan: EnvironmentPlan) -> bool:
        return self._path(owner, repository, plan).exists()

    def _path(self, owner: str, repository: str, plan: EnvironmentPlan) -> Path:
        text = json.dumps([owner, repository, plan_digest(plan)])
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
