"""An editor: the official ACP client, and a real `hutch acp` that it talks to over pipes."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from acp import RequestError, connect_to_agent, schema, text_block
from acp.client.connection import ClientSideConnection

from tests.cli.project_with_failing_test import Project
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, Forked

LIMIT = 16 * 1024 * 1024
Request = tuple[str, list[str]]  # its title and the names of its options


@dataclass
class Editor:
    """Its user sees `updates`, and answers questions with the option that `answer` names."""

    updates: list[Any] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    answer: str | None = "once"  # None: closes the question
    cannot_ask: bool = False
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        self.seen.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **more: Any
    ) -> schema.RequestPermissionResponse:
        self.requests.append((tool_call.title, [each.name for each in options]))
        if self.cannot_ask:
            raise RequestError.method_not_found("session/request_permission")
        if self.answer is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        return schema.RequestPermissionResponse(outcome=chosen)

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == kind)

    def calls(self, status: str) -> list[Any]:
        kinds = ("tool_call", "tool_call_update")
        return [each for each in self.updates if each.session_update in kinds and each.status == status]

    async def sees(self, is_so: Callable[[Any], bool]) -> None:
        """Wait for an update."""
        async with asyncio.timeout(DEADLINE_S):
            while not any(map(is_so, self.updates)):
                self.seen.clear()
                await self.seen.wait()


@dataclass
class Opened:
    """A session that an editor has open."""

    agent: ClientSideConnection
    editor: Editor
    id: str
    process: Forked

    async def prompt(self, text: str) -> str:
        async with asyncio.timeout(DEADLINE_S):
            done = await self.agent.prompt(session_id=self.id, prompt=[text_block(text)])
        return done.stop_reason


@asynccontextmanager
async def started(
    project: Project, *words: str, editor: Editor, terminals: bool = False, **environment: str
) -> AsyncIterator[tuple[ClientSideConnection, Forked]]:
    """A client of a `hutch acp` of its own, which ends with it."""
    loop = asyncio.get_running_loop()
    env = project.environment(**environment)
    command = [HUTCH, "acp", *words]
    with Forked(command, env=env, cwd=project.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        reader = asyncio.StreamReader(limit=LIMIT)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        sending, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        writer = asyncio.StreamWriter(sending, protocol, reader, loop)
        agent = connect_to_agent(editor, writer, reader, use_unstable_protocol=True)
        meta = {"terminal_output": True} if terminals else None
        capabilities = schema.ClientCapabilities(field_meta=meta)
        await agent.initialize(protocol_version=1, client_capabilities=capabilities)
        try:
            yield agent, process
        finally:
            sending.close()  # which ends it
            await asyncio.to_thread(process.wait, DEADLINE_S)
            await agent.close()


@asynccontextmanager
async def opened(
    project: Project, *replies: dict[str, Any], words: tuple[str, ...] = ()
) -> AsyncIterator[Opened]:
    """A new session in the project, with a scripted model."""
    editor, model = Editor(), project.cassette(*replies)
    async with started(project, "--model", model, *words, editor=editor) as (agent, process):
        new = await agent.new_session(cwd=str(project.work), mcp_servers=[])
        yield Opened(agent, editor, new.session_id, process)
