"""Notifies open connections when a user, a credential or anyone may have less access than before."""

from collections.abc import Callable

from hutch.flows.user_accounts import LOCAL
from hutch.store.audit import Audit

CHECKED_AT = "hutch.access_changes"  # in a scope: how many there were when its caller was recognised
Listener = Callable[[str | None, str | None], None]
"""Gets the user or the credential; with neither, the access of anyone may have changed."""


class AccessChanges:
    """The changes of access since the server was started."""

    def __init__(self, audit: Audit) -> None:
        self.count = 0
        self.listeners: list[Listener] = []
        self._audit = audit
        self._newest_by_command = 0  # action in the audit

    def notify(self, *, user_id: str | None = None, credential_id: str | None = None) -> None:
        self.count += 1
        for listener in self.listeners:
            listener(user_id, credential_id)

    async def find_by_commands(self) -> None:
        """Notify if a command on this machine has changed users or tokens since the last call."""
        newest = await self._audit.newest(LOCAL.credential_id, after=self._newest_by_command)
        if newest > self._newest_by_command:
            self._newest_by_command = newest
            self.notify()
