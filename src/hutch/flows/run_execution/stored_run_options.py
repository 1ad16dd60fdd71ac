"""The options that a run was started with, needed to resume it."""

from typing import Any

from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options besides the prompt."""

    network: tuple[str, ...] = ()  # hosts, beside those of the settings
    limits: RunLimits = NO_LIMITS
    record: str = ""  # where the model's replies are saved as a cassette
    deliver: bool = True
    author: str = ""  # Name <address>
    model_reason: str = ""  # why it is this model
    jail_s: float | None = None  # how long its jail took to start, if it is the first run in it

    def fields(self) -> dict[str, Any]:
        """The options as fields of `run.started`."""
        return {
            "network": self.network,
            **self.limits.event_fields(),
            "record": self.record,
            "deliver": self.deliver,
            "author": self.author,
            "model_reason": self.model_reason,
            "jail_s": self.jail_s,
        }


DEFAULT_OPTIONS = RunOptions()
