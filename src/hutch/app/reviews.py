"""What is said about changes, for those who have no server at hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app.changes import repository_jail
from hutch.domain.review import Comment, Remark, Review, Severity, Verdict
from hutch.flows import comments
from hutch.flows.repository_git import OpenJail
from hutch.settings import Loaded
from hutch.store.comments import Comments, Reviews
from hutch.store.log import open_log
from hutch.store.rows import Rows

__all__ = [
    "Comment",
    "Comments",
    "Remark",
    "Review",
    "Reviews",
    "Severity",
    "Verdict",
    "comments",
    "jail_opener",
    "opened",
]


@asynccontextmanager
async def opened(loaded: Loaded) -> AsyncIterator[Rows]:
    """The rows of an installation; a server may have them open too."""
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        yield log


def jail_opener(loaded: Loaded) -> OpenJail:
    """What opens a jail on a repository of this machine."""
    return lambda path: repository_jail(loaded, path)
