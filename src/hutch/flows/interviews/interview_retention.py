"""Erases the content of interviews whose retention is over. The proof stays: records still verify."""

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.interview import Interview
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.store.idle_session_ending_and_cleanup import SessionExpiry
from hutch.store.sessions import Sessions

DAY_MS = 24 * 3600 * 1000
PAGE = 200
logger = structlog.get_logger()


async def erase_expired(interviews: InterviewServices) -> None:
    """Erase the logs and files of all ended interviews that are older than their plan allows."""
    before = ""
    while found := await interviews.rows.page(
        user_id=None, phases=("ended", "closed"), before=before, limit=PAGE
    ):
        for interview in found:
            if _is_expired(interview, interviews.now_ms()):
                try:
                    await _erase(interviews, interview)
                except HutchError as error:  # the next check repeats it
                    logger.warning("interview.not_erased", session_id=interview.id, error=str(error))
        before = found[-1].id


def _is_expired(interview: Interview, now_ms: int) -> bool:
    days = interview.plan.retention_days
    return days is not None and interview.sealed and now_ms > interview.ended_ms + days * DAY_MS


async def _erase(interviews: InterviewServices, interview: Interview) -> None:
    services = interviews.services
    if not await services.log.count_payloads(interview.id):
        return
    reason = f"the interview's retention of {interview.plan.retention_days} days is over"
    for workspace in await interviews.rows.workspaces(interview.id):
        session = await Sessions(services.rows).get(workspace.session_id)
        await services.host.close(session.id, reason=reason)
        if session.workspace_id:
            await services.host.remove_workspace(session.workspace_id)
            await SessionExpiry(services.rows).clear_workspace(session.id)
        await services.log.erase(session.id, None, reason=reason)
    await services.log.erase(interview.id, None, reason=reason)  # last: it tells that all are erased
    logger.info("interview.erased", session_id=interview.id)
