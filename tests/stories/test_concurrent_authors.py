"""An agent, two people by requests and one in a terminal change the same files.

At the end the log alone rebuilds every version of every file, byte for byte, and says who wrote it. It is
certain of each change by a request or a tool, and of each change by a program that was at work alone. Only
while programs of several people run at the same moment, it may name all of them instead: the kernel says when
a file was changed, but not by which process.
"""

import asyncio
import hashlib
import random
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import structlog

from hutch.domain import inputs
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.events import CommandEnded, Event, FileChanged, FilesChanged, QuestionAsked
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.recorded_change_content import read_content
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.interface import Viewer
from hutch.snapshots.disk_walk import TICK_NS, Clock
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, repository, serving, until

pytestmark = [pytest.mark.anyio, pytest.mark.long]

logger = structlog.get_logger()
MOMENTS = 20
ADA, BEN, CLEO = "usr_ada", "usr_ben", "usr_cleo"  # two use requests, one a terminal
FILES = ("shared.txt", "src/a.py", "src/b.py", "notes/c.txt")


@dataclass(slots=True)
class Story:
    """The session and its observed entries."""

    server: Server
    owner: Caller
    session: SessionId
    tree: Path
    random: random.Random
    moments: list[tuple[int, dict[str, bytes]]] = field(default_factory=list)  # the log's end, the files
    last_seq: int = 0  # the last event of the log that was awaited
    number: int = 0
    by_request: set[bytes] = field(default_factory=set)  # the lines that requests wrote
    at_work: list[set[str]] = field(default_factory=list)  # whose programs ran before each moment

    def line(self, by: str) -> str:
        """A line that names its author."""
        self.number += 1
        return f"{by} {self.number}"

    async def write(self, by: str) -> None:
        """Replace a file by a request."""
        path = self.random.choice(FILES)
        data = f"{self.line(by)}\n".encode()
        self.by_request.add(data)
        await self.server.host.call(self.session, requests.WriteFile(path, data), by=by)

    async def command(self, by: str, shell: str) -> None:
        """Change files by a command, which also tries to hide when it did so."""
        self.at_work[-1].add(by)
        path = self.random.choice(FILES)
        script = self.random.choice(
            [
                f"mkdir -p src notes; echo {self.line(by)} > {path}; touch -d '1 hour ago' {path}",
                f"echo {self.line(by)} > new-{self.number}; touch -r shared.txt new-{self.number}",
                f"mkdir -p d-{by}; echo {self.line(by)} > d-{by}/f; mv d-{by} moved-{self.number}",
                f"(sleep 0.1; echo {self.line(by)} > late-{self.number}) & sleep 0.3",
            ]
        )
        await self.server.host.call(self.session, requests.RunCommand(script, shell), by=by)

    async def type(self, viewer: Viewer) -> None:
        """Change a file in the terminal, and wait until its shell waits for the next command."""
        self.at_work[-1].add(CLEO)
        before = (await self.server.log.head(self.session)).seq
        path = self.random.choice(FILES)
        done = self.number + 1
        await viewer.write(
            f"mkdir -p src notes; echo {self.line(CLEO)} > {path}; echo do'ne' {done}.\n".encode()
        )
        seen = b""
        async for _, data in viewer:
            viewer.acknowledge(len(data))
            seen += data
            if f"done {done}.".encode() in seen:
                break
        async with aclosing(self.server.log.follow(self.session, after=before)) as entries:
            async for entry in entries:
                if isinstance(entry.event, CommandEnded) and entry.event.terminal:
                    return

    async def let_agent_work(self) -> None:
        """Answer the agent's question, and wait for its next one."""
        self.at_work[-1].add(AGENT)
        async with (
            asyncio.timeout(DEADLINE_S),
            aclosing(self.server.log.follow(self.session, after=self.last_seq)) as entries,
        ):
            async for entry in entries:
                self.last_seq = entry.seq
                if isinstance(entry.event, QuestionAsked):
                    answer = inputs.Answer(call_id=entry.event.call_id, text="Go on.")
                    await sessions.give(self.server.services, self.owner, self.session, answer)
                    break
        await until(self.server, self.session, "question.asked", after=self.last_seq)

    async def note_moment(self) -> None:
        """Note the files on disk, and the end of the log once it has all changes so far."""
        await self.server.host.call(self.session, requests.TakeSnapshot("now"), by=ADA)
        self.moments.append(((await self.server.log.head(self.session)).seq, files_of(self.tree)))
        noted_at = Clock.now().began_ns
        while Clock.now().began_ns <= noted_at:  # noqa: ASYNC110 (the next changes have a later time stamp)
            await asyncio.sleep(TICK_NS / 1e9)

    def is_certain(self, seq: int, event: FileChanged, content: bytes) -> bool:
        """True if the log must know the author of a change: of a request, of a tool that writes files, or if
        the programs of one person alone were at work."""
        if content in self.by_request or (event.path.startswith("agent-") and event.path.endswith(".txt")):
            return True
        index = sum(upto < seq for upto, _ in self.moments[:-1])
        return len(self.at_work[index]) < 2


def files_of(tree: Path) -> dict[str, bytes]:
    found = (path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(tree)): path.read_bytes() for path in found}


def steps() -> list[dict[str, Any]]:
    """The agent's calls between its questions."""
    replies: list[dict[str, Any]] = [call("ask_user", question="Begin?")]
    for number in range(MOMENTS + 1):
        if number % 2:
            replies.append(
                call("bash", command=f"echo {AGENT} bash {number} > shared.txt; echo x > agent-{number}")
            )
        else:
            replies.append(call("write_file", path=f"agent-{number}.txt", content=f"{AGENT} {number}\n"))
        replies.append(call("ask_user", question=f"More after {number}?"))
    return [*replies, {"text": "Done."}]


async def rebuilt(story: Story, entries: list[tuple[int, Event]], upto: int) -> dict[str, bytes]:
    """The files that the log describes at one of its events."""
    files = {"slug.py": b"def slug(text):\n    return text\n"}  # of the repository
    for seq, event in entries:
        if seq > upto or not isinstance(event, FileChanged):
            continue
        if event.moved_from:
            files.pop(event.moved_from, None)
        if event.kind == "deleted":
            files.pop(event.path, None)
            continue
        files[event.path] = await read_content(story.server.services, story.owner, story.session, seq)
        assert hashlib.sha256(files[event.path]).hexdigest() == event.after
    return files


def check_author(event: FileChanged, content: bytes, *, is_certain: bool) -> None:
    """The log names the author of a change; if it need not be certain, perhaps among others."""
    author = content.decode().partition(" ")[0]  # a snapshot may have a file that is still empty
    if author in (ADA, BEN, CLEO, AGENT):
        is_possible = not is_certain and not event.by and author in event.possible_authors
        assert author == event.by or is_possible, (event, content)


async def test_the_log_alone_rebuilds_every_file_and_names_its_author(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    logger.info("story", seed=seed)
    model = cassette(tmp_path / "model.json", steps())
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        repo = repository(tmp_path / "repo")
        session = await sessions.create(
            server.services, who, NewSession(purpose="all", prompt="Work.", repository=str(repo))
        )
        await until(server, session.id, "question.asked")
        [tree] = (tmp_path / "home").glob("**/workspaces/*/tree")
        story = Story(server, who, session.id, tree, random.Random(seed))
        terminal = await server.host.call(session.id, requests.OpenTerminal(), by=CLEO)
        async with server.host.terminal(session.id, terminal.id) as viewer:
            for _ in range(MOMENTS):
                acts = [
                    story.write(ADA),
                    story.command(ADA, "ada"),
                    story.write(BEN),
                    story.command(BEN, "ben"),
                    story.type(viewer),
                    story.let_agent_work(),
                ]
                chosen = story.random.sample(acts, story.random.randint(1, 4))
                for act in acts:
                    if act not in chosen:
                        act.close()
                story.at_work.append(set())
                async with asyncio.timeout(DEADLINE_S):
                    await asyncio.gather(*chosen)
                await story.note_moment()
        entries: list[tuple[int, Event]] = []
        while page := await server.log.read(session.id, after=entries[-1][0] if entries else 0):
            entries += [(entry.seq, entry.event) for entry in page if isinstance(entry.event, Event)]
        assert not [event for _, event in entries if isinstance(event, FilesChanged) and not event.ignored]
        for upto, files in story.moments:
            assert await rebuilt(story, entries, upto) == files, upto
        for seq, event in entries:
            if isinstance(event, FileChanged) and event.after:
                content = await read_content(server.services, who, session.id, seq)
                check_author(event, content, is_certain=story.is_certain(seq, event, content))
        await server.host.close(session.id, reason="done")
