"""Imports the issues of a repository on GitHub as tasks of this machine, or of the server in use."""

import asyncio
from collections.abc import Mapping, Sequence

from hutch import settings
from hutch.app.forges import forges_of
from hutch.cli.api_client import Client
from hutch.cli.local_only_notice import other_server
from hutch.cli.local_task_services import local_tasks
from hutch.cli.repository_of_task_commands import repository_of
from hutch.cli.server_address_and_token import Address
from hutch.domain.errors import BadRequest
from hutch.flows.task_work.github_issue_import import MAX_ISSUES, store_issues
from hutch.flows.tasks.task_requests import task_address
from hutch.forge.github_issues import list_issues

Keys = Mapping[str, Sequence[str]]


def import_issues(repository: str, *, local: bool) -> Keys:
    """The keys of the tasks that were added, and of those that were ended."""
    address = None if local else other_server()
    where = repository_of(repository, on_server=address is not None)
    if not where:
        raise BadRequest("Name the repository: --repo ADDRESS")
    return asyncio.run(_local(where) if address is None else _on_server(address, where))


async def _on_server(address: Address, repository: str) -> Keys:
    async with Client(lambda: address) as client:
        answer = await client.post("/tasks/import-issues", {"repository": repository})
        return {"added": answer["added"], "ended": answer["ended"]}


async def _local(repository: str) -> Keys:
    address = task_address(repository)
    forges = forges_of(settings.load())
    async with local_tasks() as (services, who):
        api = await asyncio.to_thread(forges.github, address, who.user.id)
        issues = await list_issues(api, maximum=MAX_ISSUES)
        found = await store_issues(services, who, address, issues)
    return {"added": found.added, "ended": found.ended}
