"""Erases the content of interviews: those whose retention is over, and those whose deletion is requested.

The proof stays: records still verify, and the seal says which belong together.
"""

import structlog

from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import InterviewSealed
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.run_and_log_lookup import read_log
from hutch.store.idle_session_expiry import SessionExpiry
from hutch.store.outgoing_webhooks import OutgoingWebhooks
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
                    reason = f"the interview's retention of {interview.plan.retention_days} days is over"
                    await _erase(interviews, interview, reason)
                except HutchError as error:  # the next check repeats it
                    logger.warning("interview.not_erased", session_id=interview.id, error=str(error))
        before = found[-1].id


def _is_expired(interview: Interview, now_ms: int) -> bool:
    days = interview.plan.retention_days
    return days is not None and interview.sealed and now_ms > interview.ended_ms + days * DAY_MS


async def erase_interview(
    interviews: InterviewServices, who: Caller, interview_id: str, reason: str = ""
) -> Interview:
    """Erase an interview that has ended, such as when another system passes on a request for deletion.
    Repeated calls have one effect."""
    interview, _ = await allowed_in(interviews, who, interview_id, "manage")
    if interview.phase == "planned":
        raise Conflict(
            f"The interview {interview.id} has not begun, so its log has only the plan. End it first."
        )
    if not interview.sealed:
        raise Conflict(
            f"The interview {interview.id} is {interview.phase}, or its workspaces are still ending. "
            "End it, and try again in a moment."
        )
    await _erase(interviews, interview, interviews.clean(reason) or "its deletion was requested")
    return interview


async def _erase(interviews: InterviewServices, interview: Interview, reason: str) -> None:
    services = interviews.services
    seals = [
        entry.seq
        for entry in await read_log(services.log, SessionId(interview.id))
        if isinstance(entry.event, InterviewSealed)
    ]
    if await services.log.count_payloads(interview.id) == len(seals):
        return
    for workspace in await interviews.rows.workspaces(interview.id):
        session = await Sessions(services.rows).get(workspace.session_id)
        await services.host.close(session.id, reason=reason)
        if session.workspace_id:
            await services.host.remove_workspace(session.workspace_id)
            await SessionExpiry(services.rows).clear_workspace(session.id)
        await services.log.erase(session.id, None, reason=reason)
    await OutgoingWebhooks(services.rows).queue("interview.erased", interview)
    # Last: it tells that all are erased. The seal has no content: it proves which logs are of the interview.
    await services.log.erase(interview.id, None, reason=reason, keep=seals)
    logger.info("interview.erased", session_id=interview.id)
