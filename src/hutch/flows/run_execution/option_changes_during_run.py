"""Follows the options of a session while one of its runs works.

Before each turn the session's row is compared with the options in use. If a user has changed
them, the run gets a new setup, with another model or persona if those changed. The jail stays.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from hutch.agent.run_setup import RunSetup
from hutch.domain.errors import HutchError
from hutch.domain.events import StepReached
from hutch.domain.session import Session
from hutch.sessions.live_option_changes import apply_changes
from hutch.sessions.live_session import LiveSession

logger = structlog.get_logger()

# Makes a setup; with the current one it reuses the model if the name is the same.
Build = Callable[[Session, RunSetup | None], Awaitable[RunSetup]]


class OptionChanges:
    """The current setup of a run."""

    def __init__(self, live: LiveSession, build: Build) -> None:
        self._live = live
        self._build = build
        self._setup: RunSetup | None = None
        self._used: Session | None = None  # as of the last turn

    async def begin(self, session: Session) -> RunSetup:
        """The setup of the first turn."""
        self._used = session
        self._setup = await self._build(session, None)
        return replace(self._setup, refresh=self.refresh)

    async def refresh(self) -> RunSetup | None:
        """The setup of the next turn, if it differs. Options that cannot be used leave all as it was."""
        session = await self._live.sessions.get(self._live.id)
        assert self._setup is not None and self._used is not None
        if _options(session) == _options(self._used):
            return None
        self._used, old = session, self._setup
        try:
            await apply_changes(self._live)
            setup = await self._build(session, old)
        except HutchError as error:
            logger.warning("run.options_unusable", session_id=session.id, error=str(error))
            text = self._live.recorder.redactor.redact(f"warning: The new options are not used: {error}")
            await self._live.append([StepReached(step="inspecting", message=text)])
            return None
        self._setup = setup
        if setup.model is not old.model:
            await old.model.close()
        return replace(setup, refresh=self.refresh)

    async def close(self) -> None:
        if self._setup is not None:
            await self._setup.model.close()


def _options(session: Session) -> tuple[object, ...]:
    return (
        session.persona,
        session.model,
        session.network,
        session.limits,
        session.resources,
        session.generation,
        session.deliver,
    )
