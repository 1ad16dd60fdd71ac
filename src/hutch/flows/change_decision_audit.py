"""The user who decides about a change: each decision is in the audit, with the objections it overrides."""

from hutch.domain.errors import Denied
from hutch.domain.proposed_change import Change
from hutch.flows.user_accounts import LOCAL, Actor
from hutch.store.audit import Audit
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Decider:
    """A user who reviews, merges or closes."""

    rows: Rows
    actor: Actor = LOCAL
    is_owner: bool = True  # of the installation

    async def insist(self, change: Change, overridden: list[str], *, refused: str = "") -> None:
        """Record that a merge overrides objections, before the merge, as the process may crash. If there is a
        reason to refuse, only an owner may override."""
        allowed = self.is_owner or not refused
        await self.note("change.merge_forced", change, "; ".join(overridden), ok=allowed)
        if not allowed:
            raise Denied(refused)

    async def note(self, action: str, change: Change, detail: str = "", *, ok: bool = True) -> None:
        who = self.actor
        await Audit(self.rows).add(
            action,
            user_id=who.user_id,
            credential_id=who.credential_id,
            object=change.id,
            address=who.address,
            ok=ok,
            detail=detail,
            trace_id=who.trace_id,
        )
