"""Agents' work on tasks of the server that commands use. It needs the server: nothing waits offline."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.outbox_delivery import run_with_client
from hutch.cli.server_tasks.server_task_requests import get_task
from hutch.domain.errors import Unavailable

Row = Mapping[str, Any]


class ServerAssignments:
    """The assignments of one server."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def assign(self, key: str, repository: str, how: Mapping[str, Any]) -> Row:
        return dict(self._of_task(key, repository, lambda client, path: client.post(path, how)))

    def assign_automatically(self, repository: str, *, dry_run: bool) -> tuple[Sequence[Row], Sequence[Row]]:
        body = {"repository": repository, "dry_run": dry_run}
        found = self._ask(lambda client: client.post("/tasks/assign", body))
        return found["items"], found["failed"]

    def cancel(self, key: str, repository: str) -> Row:
        return dict(self._of_task(key, repository, lambda client, path: client.post(f"{path}/cancel")))

    def of_task(self, key: str, repository: str) -> Sequence[Row]:
        found = self._of_task(key, repository, lambda client, path: client.get(path))
        return list(found["items"])

    def has_server(self) -> bool:
        return True

    def _of_task(self, key: str, repository: str, send: Callable[[Any, str], Awaitable[Any]]) -> Any:
        async def work(client: Any) -> Any:
            task = await get_task(client, key, repository)
            return await send(client, f"/tasks/{task['id']}/assignments")

        return self._ask(work)

    def _ask(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        answers: list[Any] = []

        async def run(client: Any) -> None:
            answers.append(await work(client))

        if not run_with_client(self._address, run):
            raise Unavailable(
                f"The server at {self._address.url} does not respond. Agents are assigned there."
            )
        return answers[0]
