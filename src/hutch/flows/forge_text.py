"""Texts that Hutch writes on a forge: nobody is called by them, and Hutch knows them as its own."""

import re

from hutch.flows.commit_text import plain

OWN = "<!-- hutch -->"  # in every comment of ours, which is never taken for a wish
LONGEST = 60_000  # of what a forge takes
_CALLS = re.compile(r"@(?=[\w-])")
_HIDDEN = re.compile(r"(?<=<!)(?=--)|(?<=--)(?=>)")
_NOTHING = "\N{ZERO WIDTH SPACE}"


def quiet(text: str) -> str:
    """A text of a model or a stranger that calls nobody and hides nothing."""
    return _CALLS.sub(f"@{_NOTHING}", unhidden(text))[:LONGEST]


def unhidden(text: str) -> str:
    """A text of a person's, which may call others and hides nothing, such as a mark of ours."""
    return _HIDDEN.sub(_NOTHING, plain(text))[:LONGEST]


def is_own(body: str) -> bool:
    """Whether a comment is one of ours."""
    return OWN in body
