"""The parent sessions of each helper. The work and the cost of the helper count for them too."""

from sqlalchemy import CTE, Select, select

from hutch.store.schema import sessions


def _ancestors() -> CTE:
    direct = select(sessions.c.id.label("id"), sessions.c.parent.label("ancestor"))
    tree = direct.where(sessions.c.parent > "").cte("helper_ancestors", recursive=True)
    above = sessions.alias("above")
    return tree.union(
        select(tree.c.id, above.c.parent)
        .join(above, above.c.id == tree.c.ancestor)
        .where(above.c.parent > "")
    )


HELPER_ANCESTORS = _ancestors()
"""Each helper with the session that delegated to it, and with all sessions above that. There is one such
object, because a statement may use it in two places."""


def helper_roots() -> Select[tuple[str, str]]:
    """Each helper with the session that is at the top above it."""
    tree = HELPER_ANCESTORS
    is_top = tree.c.ancestor.not_in(select(tree.c.id))
    return select(tree.c.id, tree.c.ancestor.label("root")).where(is_top)
