"""The permissions of people in an interview. Their roles are shares of its room."""

from typing import Literal

from hutch.domain.errors import Denied, NotFound
from hutch.domain.interview import Interview
from hutch.domain.one_line_text import echo
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.store.shares import Shares

InterviewRole = Literal["owner", "assessor", "candidate", "observer"]
InterviewAction = Literal["read", "work", "conduct", "manage"]
"""See it; answer its questions; pause, rate, end it; invite to it."""

_OF_ROLE: dict[InterviewRole, frozenset[InterviewAction]] = {
    "owner": frozenset({"read", "conduct", "manage"}),
    "assessor": frozenset({"read", "conduct"}),
    "candidate": frozenset({"read", "work"}),
    "observer": frozenset({"read"}),
}
_PERMITTED: dict[InterviewAction, str] = {
    "read": "those who were invited",
    "work": "its candidate",
    "conduct": "its owner and its assessors",
    "manage": "its owner",
}


async def role_in(interviews: InterviewServices, who: Caller, interview: Interview) -> InterviewRole | None:
    """The caller's role in an interview; None if it does not exist for them."""
    if "read" not in who.scopes:
        return None
    if who.is_owner or who.user.id == interview.owner:
        return "owner"
    role = await Shares(interviews.services.rows).role(interview.id, who.user.id)
    if role == "candidate":
        return "candidate" if interview.candidate in ("", who.user.id) else None
    if role == "assessor":
        return "assessor"
    return "observer" if role else None


async def allowed_in(
    interviews: InterviewServices, who: Caller, interview_id: str, *actions: InterviewAction
) -> tuple[Interview, InterviewRole]:
    """The interview and the caller's role, if the caller may take one of these actions. Callers that may not
    see the interview get a 404."""
    interview = await interviews.rows.find(interview_id)
    role = await role_in(interviews, who, interview) if interview else None
    if interview is None or role is None:
        raise NotFound(f"There is no interview {echo(interview_id, 80)}.")
    if not _OF_ROLE[role].intersection(actions):
        raise Denied(
            f"{who.user.name} is {role} in the interview {interview.id}. "
            f"Only {_PERMITTED[actions[0]]} may do this."
        )
    # Users with the role assessor have only the scope read: in an interview, their share decides.
    if actions != ("read",) and who.user.role != "assessor":
        who.need("write")
    return interview, role
