"""The session that a request describes."""

from collections.abc import Callable
from dataclasses import replace

from hutch.domain.ids import new_session_id
from hutch.domain.one_line_text import check_line
from hutch.domain.session import NewSession, Session
from hutch.domain.user import Caller
from hutch.system.clock_without_jumps import wall_ms


def make_session(new: NewSession, who: Caller, clean: Callable[[str], str], forked_from: str) -> Session:
    """The requested session, without secrets."""
    now = wall_ms()
    return Session(
        id=new_session_id(),
        owner=who.user.id,
        purpose=clean(new.purpose) or clean(new.prompt)[:200],
        role=clean(new.role),
        company=clean(new.company),
        expectations=clean(new.expectations),
        repository=new.repository,
        revision=clean(new.revision),
        persona=clean(new.persona),
        model=new.model,
        network=new.network,
        variables=new.variables,
        secrets=new.secrets,
        limits=new.limits,
        resources=new.resources,
        generation=new.generation,
        deliver=new.deliver,
        delivery=replace(
            new.delivery,
            title=clean(new.delivery.title),
            tests=clean(new.delivery.tests),
            plain_directory=new.plain_directory,
            titled=new.delivery.titled or not new.purpose,
            starter_files=len(new.files),
        ),
        forked_from=forked_from,
        created_ms=now,
        updated_ms=now,
    )


def check_lines(new: NewSession) -> None:
    """Check that names and titles are one line each: lists, git and forges need that."""
    delivery = new.delivery
    for what, texts in {
        "A persona's name": [new.persona],
        "A revision": [new.revision],
        "A title": [delivery.title],
        "A branch": [delivery.branch],
        "A label": delivery.labels,
        "A reviewer's name": delivery.reviewers,
        "An issue's address": [delivery.issue],
        "An author": [delivery.author],
    }.items():
        for text in texts:
            check_line(what, text)
