"""Inputs that candidates may not give: they work in a session, and do not decide how it is set up or ends."""

from hutch.domain.errors import Denied
from hutch.domain.inputs import End, Input, Prompt
from hutch.store.shares import Share


def check_candidate_input(share: Share | None, asked: Input) -> None:
    """Refuse the end of a session, and options of the model, from a user who is its candidate."""
    if share is None or share.role != "candidate":
        return
    if isinstance(asked, End):
        raise Denied("A candidate may not end a session. Its owner does.")
    if isinstance(asked, Prompt) and asked.generation is not None:
        check_candidate_options(share)


def check_candidate_options(share: Share | None) -> None:
    """Refuse a model, limits or options of the model from the candidate of a session."""
    if share is not None and share.role == "candidate":
        raise Denied("A candidate may not choose the model, its options or limits. Leave them out.")
