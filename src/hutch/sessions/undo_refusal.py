"""The refusal of an undo that meets changes by others: it names each file, its authors and the choices."""

from collections.abc import Callable, Mapping, Sequence

from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import WorkWouldBeLost
from hutch.sessions.undo_conflict_authors import Group
from hutch.sessions.undo_planning import Reason

MAX_LISTED = 100
MAX_NAMED = 10  # in a sentence
REASONS: dict[Reason, str] = {
    "overlap": "{others} changed the same lines",
    "binary": "{others} changed it too, and it cannot be merged",
    "changed_since": "{others} changed it after it was created",
    "deleted_since": "{others} deleted it",
    "created_again": "{others} created it again",
    "unclear": "{others} may have made the change",
    "blocked": "{others} put something else in its place",
    "gone": "its earlier version is not stored any more",
    "not_compared": "its version after the change is not stored, so others may have changed it since",
}
UNKNOWN_AUTHOR = "a job of an earlier run, or somebody unknown, may have made the change"
CHOICES = (
    "Nothing was changed. Choose: `merge` writes both versions of such lines into the file (--merge), `keep` "
    "leaves these files as they are (--keep), `discard` takes the old version, and a snapshot keeps the "
    "current one (--discard-others)."
)


def refuse_undo(
    title: str,
    conflicts: Mapping[str, Reason],
    authors: Mapping[str, Sequence[Group]],
    *,
    names: Mapping[str, str],
    clean: Callable[[str], str],
) -> WorkWouldBeLost:
    """The error. `authors` has the ids of those whose changes are in the way; `names` has their names."""
    said = []
    for path, reason in list(conflicts.items())[:MAX_NAMED]:
        words = UNKNOWN_AUTHOR if reason == "unclear" and not authors.get(path) else REASONS[reason]
        others = _people(authors.get(path, ()), names)
        said.append(f"{clean(path)} ({words.format(others=others)})")
    more = f", and {len(conflicts) - MAX_NAMED} more" if len(conflicts) > MAX_NAMED else ""
    return WorkWouldBeLost(
        f"To undo {title} would change work of others: {', '.join(said)}{more}. {CHOICES}",
        paths=tuple(clean(path) for path in list(conflicts)[:MAX_LISTED]),
    )


def _people(groups: Sequence[Group], names: Mapping[str, str]) -> str:
    """Names such as "Ada, the agent or Ben, and Cleo"."""
    found = [
        " or ".join("the agent" if id == AGENT else names.get(id, id) for id in group) for group in groups
    ]
    if not found:
        return "others"
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
