"""Work of the watch that takes longer than a tick: hidden tests, measurements, preparing languages."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from hutch.domain.errors import HutchError
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.system.task_cancellation import cancel_and_wait

logger = structlog.get_logger()


class WorkBesideTicks:
    """The tasks of one watch."""

    def __init__(self, interviews: InterviewServices) -> None:
        self._interviews = interviews
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()  # interviews
        self._preparing: asyncio.Task[None] | None = None

    def start(self, interview_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin work for an interview, unless other work for it goes on."""
        if interview_id in self._busy:
            work.close()
            return
        self._busy.add(interview_id)
        self._run(self._finish(interview_id, work))

    def prepare_languages(self) -> None:
        """Begin to prepare languages. Each lobby asks for some; one task prepares them all."""
        if self._interviews.unprepared and (self._preparing is None or self._preparing.done()):
            self._preparing = self._run(self._prepare())

    async def cancel(self) -> None:
        await cancel_and_wait(*self._tasks)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, interview_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except HutchError as error:  # the next tick repeats it
            logger.warning("interview.work_failed", session_id=interview_id, error=str(error))
        except Exception:
            logger.exception("interview.work_failed", session_id=interview_id)
        finally:
            self._busy.discard(interview_id)

    async def _prepare(self) -> None:
        languages = list(self._interviews.unprepared)
        self._interviews.unprepared.clear()
        try:
            await self._interviews.executor.prepare(languages)
        except HutchError as error:  # the first run compiles what it needs
            logger.warning("interview.language_not_prepared", error=str(error))
