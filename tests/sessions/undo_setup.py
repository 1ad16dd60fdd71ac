"""A session with an agent and people at work, for tests of undo."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.domain import inputs
from hutch.domain.errors import NotFound
from hutch.domain.events import Event, FileChanged, QuestionAsked
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.edit.file_operation_types import FileChange
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from hutch.workspace.change_observer_interface import ChangeObserver
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, repository, state, until

IGNORING = {"a.txt": "a\n", ".gitignore": ".env\nbuild/\n__pycache__/\n"}
SCRIPT = (
    call("write_file", path="agents.txt", content="agent\n"),
    call("ask_user", question="And now?"),
    call("bash", command="echo agent > late.txt"),
    call("finish", summary="Done."),
)
AGENTS = ["agents.txt", "late.txt"]
JOB = "until [ -e go ]; do sleep 0.05; done; echo mine > mine.txt; touch /tmp/written"
LET_WRITE = "touch go; until [ -e /tmp/written ]; do sleep 0.05; done"


class Overwriting:
    """Overwrites or removes each announced file before its snapshot, as another program could."""

    def __init__(self, observer: ChangeObserver, tree: Path, texts: Mapping[str, str | None]) -> None:
        self.observer, self.tree, self.texts = observer, tree, dict(texts)

    def announce(self, changes: Sequence[FileChange]) -> None:
        self.observer.announce(changes)
        for path in {each.path for each in changes} & self.texts.keys():
            text = self.texts.pop(path)
            if text is None:
                (self.tree / path).unlink()
            else:
                (self.tree / path).write_text(text)

    def announce_restore(self, number: int, path: str) -> None:
        self.observer.announce_restore(number, path)

    def settle(self) -> None:
        self.observer.settle()


class Stage:
    """A session, and what people do in it."""

    def __init__(self, server: Server, caller: Caller, session: SessionId) -> None:
        self.server, self.caller, self.id = server, caller, session

    @classmethod
    async def waiting(
        cls,
        server: Server,
        tmp_path: Path,
        files: dict[str, str] | None = None,
        script: Sequence[dict[str, Any]] = SCRIPT,
    ) -> "Stage":
        """A session whose agent waits for an answer, by default after it has written a file."""
        caller = await owner(server)
        model = cassette(tmp_path / "c.json", [*script, {"text": "Done.", "times": 9}])
        new = NewSession(repository=str(repository(tmp_path / "repo", files)), model=model, prompt="Write.")
        stage = cls(server, caller, (await sessions.create(server.services, caller, new)).id)
        await stage.state("waiting")
        return stage

    @classmethod
    async def empty(cls, server: Server) -> "Stage":
        """A session without files and without a run; the model is a setting of the server."""
        caller = await owner(server)
        stage = cls(server, caller, (await sessions.create(server.services, caller, NewSession())).id)
        await stage.state("idle")
        return stage

    @classmethod
    async def after_run(
        cls, server: Server, tmp_path: Path, *replies: dict[str, Any], files: dict[str, str] | None = None
    ) -> "Stage":
        """A session whose agent has worked on a repository."""
        caller = await owner(server)
        model = cassette(tmp_path / "c.json", [*replies, {"text": "Done."}, {"text": "More.", "times": 9}])
        new = NewSession(repository=str(repository(tmp_path / "repo", files)), model=model, prompt="Work.")
        stage = cls(server, caller, (await sessions.create(server.services, caller, new)).id)
        await until(server, stage.id, "run.ended")
        await stage.state("idle")
        return stage

    async def state(self, *expected: str) -> None:
        await state(self.server, self.caller, self.id, *expected)

    async def events(self) -> list[Event]:
        found: list[Event] = []
        while page := await self.server.log.read(self.id, after=len(found)):
            found += [entry.event for entry in page if isinstance(entry.event, Event)]
        return found

    async def seq(self, type_: str, **fields: Any) -> int:
        """The number of the last event of a type with these fields."""
        for number, event in reversed(list(enumerate(await self.events(), 1))):
            if event.type == type_ and all(getattr(event, name) == each for name, each in fields.items()):
                return number
        raise AssertionError(f"there is no {type_} with {fields}")

    async def seq_of_change(self, path: str) -> int:
        """The number of the last change of a file, once it is recorded."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for number, event in reversed(list(enumerate(await self.events(), 1))):
                    if isinstance(event, FileChanged) and event.path == path:
                        return number
                await asyncio.sleep(0.02)

    async def finish(self) -> None:
        """Let the waiting agent do the rest."""
        asked = (await until(self.server, self.id, "question.asked"))[-1]
        assert isinstance(asked, QuestionAsked)
        await self.give(inputs.Answer(call_id=asked.call_id, text="Go on."))
        await until(self.server, self.id, "run.ended")
        await self.state("idle")

    async def prompt(self, text: str = "Go") -> list[Event]:
        """Have the agent work on a prompt; its events."""
        count = len(await self.events())
        await self.give(inputs.Prompt(text=text))
        events = await until(self.server, self.id, "run.ended", after=count)
        await self.state("idle")
        return events

    async def give(self, asked: inputs.Input) -> None:
        await sessions.give(self.server.services, self.caller, self.id, asked)

    async def undo(self, asked: inputs.Undo | inputs.Redo | None = None) -> Any:
        """Undo, and wait for the event about it."""
        asked = asked or inputs.Undo()
        count = len(await self.events())
        await self.give(asked)
        kind = "session.redone" if isinstance(asked, inputs.Redo) else "session.rewound"
        kind = "changes.undone" if getattr(asked, "step", 0) else kind
        return (await until(self.server, self.id, kind, after=count))[-1]

    async def run(self, command: str, shell: str = "main", by: str = "usr_x") -> None:
        ran = await self.server.host.call(self.id, requests.RunCommand(command, shell), by=by)
        assert ran.exit_code == 0, ran

    async def write(self, path: str, text: str, by: str = "usr_x") -> None:
        await self.server.host.call(self.id, requests.WriteFile(path, text.encode()), by=by)

    @asynccontextmanager
    async def overwriting(self, texts: Mapping[str, str | None]) -> AsyncIterator[None]:
        """Overwrite files right after the next requests that change them; None removes a file."""
        async with self.server.host.sandbox(self.id) as sandbox:
            workspace = sandbox.workspace
            assert workspace.observer is not None
            observer = workspace.observer
            tree = Path(f"/proc/self/fd/{workspace.mount.directory.fd}")
            workspace.observer = Overwriting(observer, tree, texts)
            try:
                yield
            finally:
                workspace.observer = observer

    async def read(self, path: str) -> str | None:
        try:
            return (await self.server.host.call(self.id, requests.ReadFile(path))).data.decode()
        except NotFound:
            return None

    async def files(self) -> list[str]:
        page = await self.server.host.call(self.id, requests.ListFiles(recursive=True, ignores=False))
        return [
            each.path for each in page.entries if not each.path.startswith(".git/") and each.path != ".git"
        ]

    async def type_in(self, typed: str, until_shown: str) -> None:
        """Type in a new terminal, and leave it when a text is shown."""
        opened = await self.server.host.call(self.id, requests.OpenTerminal(), by="usr_x")
        async with asyncio.timeout(DEADLINE_S), self.server.host.terminal(self.id, opened.id) as viewer:
            await viewer.write(typed.encode())
            seen = b""
            async for _, data in viewer:
                seen += data
                viewer.acknowledge(len(data))
                if until_shown.encode() in seen:
                    break

    async def let_write(self) -> None:
        """Have a job write its file, without a command."""
        await self.write("go", "")
        async with asyncio.timeout(DEADLINE_S):
            while await self.read("mine.txt") is None:
                pass
