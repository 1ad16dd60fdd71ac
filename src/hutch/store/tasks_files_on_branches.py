"""The TASKS.md files that a server keeps in step with the tasks of their repositories, as rows."""

from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select, update

from hutch.domain.tasks_file_on_branch import TasksFileOnBranch
from hutch.store.table_access_interface import Rows
from hutch.store.task_tables import task_files


class TasksFiles:
    """The files, one for each repository."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def get(self, repository: str) -> TasksFileOnBranch | None:
        return next((each for each in await self.list() if each.repository == repository), None)

    async def list(self) -> list[TasksFileOnBranch]:
        statement = select(task_files).order_by(task_files.c.repository)
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [TasksFileOnBranch(**row) for row in found]

    async def set(self, file: TasksFileOnBranch) -> None:
        here = task_files.c.repository == file.repository

        def write(db: Connection) -> None:
            db.execute(delete(task_files).where(here))
            db.execute(insert(task_files).values(asdict(file)))

        await self._rows.change(write)

    async def set_problem(self, repository: str, problem: str) -> None:
        """Note why a file was not synced. A newer result of another sync stays."""
        here = task_files.c.repository == repository
        statement = update(task_files).where(here).values(problem=problem)
        await self._rows.change(lambda db: db.execute(statement))

    async def remove(self, repository: str) -> bool:
        """Stop syncing the file of a repository; False if it was not synced."""
        statement = delete(task_files).where(task_files.c.repository == repository)
        return await self._rows.change(lambda db: db.execute(statement).rowcount > 0)
