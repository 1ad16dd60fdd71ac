"""The preferences of users, as rows: a name and a value each."""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from hutch.store.schema import preferences
from hutch.store.table_access_interface import Rows


class StoredPreferences:
    """The preferences of one user; a preference that is not set has no row."""

    def __init__(self, rows: Rows, user_id: str) -> None:
        self._rows, self._user_id = rows, user_id

    async def get(self) -> dict[str, str]:
        here = preferences.c.user_id == self._user_id
        statement = select(preferences.c.name, preferences.c.value).where(here)
        return await self._rows.fetch(lambda db: {row.name: row.value for row in db.execute(statement)})

    async def set(self, values: Mapping[str, str]) -> None:
        """Set preferences; an empty value removes one."""

        def change(db: Connection) -> None:
            for name, value in values.items():
                here = (preferences.c.user_id == self._user_id, preferences.c.name == name)
                db.execute(delete(preferences).where(*here))
                if value:
                    db.execute(insert(preferences).values(user_id=self._user_id, name=name, value=value))

        await self._rows.change(change)
