"""Comments on lines of changes, and reviews, as rows."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Connection, delete, insert, or_, select, update

from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.review import AGENT, Comment, Review
from hutch.store.schema import comments, reviews, runs, sessions
from hutch.store.table_access_interface import ExtraWrite, Rows
from hutch.system.clock_without_jumps import wall_ms


class Comments:
    """Comments on changes."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, comment: Comment, also: ExtraWrite[Comment] | None = None) -> None:
        """Store a comment; `also` is written in the same transaction."""

        def add(connection: Connection) -> None:
            add_comment(connection, comment)
            if also:
                also.write(connection, comment)

        await self._rows.change(add)

    async def of_change(
        self, change_id: str, *, resolved: bool | None = None, after: str = "", limit: int = 1000
    ) -> list[Comment]:
        """Oldest first."""
        statement = select(comments).where(comments.c.change_id == change_id, comments.c.id > after)
        if resolved is not None:
            statement = statement.where(
                comments.c.resolved_ms > 0 if resolved else comments.c.resolved_ms == 0
            )
        statement = statement.order_by(comments.c.id).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Comment(**row) for row in found]

    async def of_changes(self, change_ids: Collection[str]) -> list[Comment]:
        """The unresolved comments of several changes."""
        statement = select(comments).where(comments.c.change_id.in_(change_ids), comments.c.resolved_ms == 0)
        statement = statement.order_by(comments.c.path, comments.c.line, comments.c.id)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Comment(**row) for row in found]

    async def resolve(self, change_id: str, comment_id: str, by: str) -> Comment:
        """Mark a comment as resolved. Only the first user who resolves it is stored."""
        this = (comments.c.id == comment_id, comments.c.change_id == change_id)
        resolved = {"resolved_ms": wall_ms(), "resolved_by": by}

        def resolve(connection: Connection) -> Comment:
            connection.execute(update(comments).where(*this, comments.c.resolved_ms == 0).values(resolved))
            row = connection.execute(select(comments).where(*this)).mappings().first()
            if row is None:
                raise NotFound(f"The change {change_id} has no comment {echo(comment_id, 80)}.")
            return Comment(**row)

        return await self._rows.change(resolve)


class Reviews:
    """Verdicts on changes and pull requests."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(
        self, review: Review, remarks: list[Comment], also: ExtraWrite[Review] | None = None
    ) -> Review:
        """Store a review and its comments in one transaction.

        A review by the agent replaces its previous review of the same commit, with its comments. Of two
        reviews by the same run the first is kept.
        """

        def add(connection: Connection) -> Review:
            if review.run_id and (there := _of_run(connection, review.run_id)):
                return there
            if review.author == AGENT and not review.is_pending:
                _forget(connection, review)
            connection.execute(insert(reviews).values(asdict(review)))
            for remark in remarks:
                add_comment(connection, remark)
            if also:
                also.write(connection, review)
            return review

        return await self._rows.change(add)

    async def mark_posted(self, review: Review, url: str) -> Review:
        """Store that a pending review was posted at `url`; it replaces the previous one."""

        def note(connection: Connection) -> Review:
            noted = replace(review, url=url)
            connection.execute(delete(reviews).where(reviews.c.id == review.id))
            connection.execute(insert(reviews).values(asdict(noted)))
            _forget(connection, noted)
            return noted

        return await self._rows.change(note)

    async def delete(self, review: Review) -> None:
        """Delete a pending review that was never posted."""
        await self._rows.change(lambda connection: _drop(connection, [review.id]))

    async def pending(self, pull_url: str, commit: str) -> list[Review]:
        """Reviews that may or may not have been posted."""
        statement = select(reviews).where(reviews.c.pull_url == pull_url, reviews.c.commit == commit)
        statement = statement.where(reviews.c.pull_url != "", reviews.c.url == "").order_by(reviews.c.id)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Review(**row) for row in found]

    async def of_run(self, run_id: str) -> Review | None:
        return await self._rows.fetch(lambda connection: _of_run(connection, run_id))

    async def of_change(self, change_id: str) -> list[Review]:
        """Oldest first."""
        statement = select(reviews).where(reviews.c.change_id == change_id).order_by(reviews.c.id)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Review(**row) for row in found]

    async def of_changes(self, change_ids: Collection[str]) -> list[Review]:
        """Those of several changes, oldest first."""
        statement = select(reviews).where(reviews.c.change_id.in_(change_ids)).order_by(reviews.c.id)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Review(**row) for row in found]

    async def of_pull(self, pull_url: str, commit: str, change_id: str = "") -> Review | None:
        """The agent's review of a pull request at a commit; with `change_id`, only one that belongs to
        that change."""
        statement = select(reviews).where(reviews.c.pull_url == pull_url, reviews.c.commit == commit)
        if change_id:
            statement = statement.where(reviews.c.change_id == change_id)
        statement = statement.where(reviews.c.url != "").order_by(reviews.c.id.desc()).limit(1)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().first())
        return Review(**row) if row else None

    async def find_in_progress(self, names: Sequence[str], commit: str) -> str | None:
        """The session in which an agent is reviewing one of these targets, at a commit."""
        patterns = [f'"review": {json.dumps(name)}' for name in names]
        statement = (
            select(sessions.c.id)
            .join(runs, runs.c.session_id == sessions.c.id)
            .where(runs.c.state != "ended", sessions.c.revision == commit)
            .where(or_(*(sessions.c.delivery.contains(each, autoescape=True) for each in patterns)))
        )
        return await self._rows.fetch(lambda connection: connection.scalars(statement.limit(1)).first())


def add_comment(connection: Connection, comment: Comment) -> None:
    connection.execute(insert(comments).values(asdict(comment)))


def _of_run(connection: Connection, run_id: str) -> Review | None:
    row = connection.execute(select(reviews).where(reviews.c.run_id == run_id)).mappings().first()
    return Review(**row) if row else None


def _forget(connection: Connection, review: Review) -> None:
    """Delete the agent's earlier reviews of the same commit."""
    same = (
        reviews.c.author == AGENT,
        reviews.c.change_id == review.change_id,
        reviews.c.pull_url == review.pull_url,
        reviews.c.commit == review.commit,
        reviews.c.id != review.id,
    )
    _drop(connection, list(connection.scalars(select(reviews.c.id).where(*same))))


def _drop(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(delete(comments).where(comments.c.review_id.in_(ids)))
    connection.execute(delete(reviews).where(reviews.c.id.in_(ids)))
