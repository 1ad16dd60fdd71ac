"""An agent, two people by requests and one in a terminal change the same files.

At the end the log alone rebuilds every version of every file, byte for byte, and says who wrote it.
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
from hutch.domain.author import AGENT
from hutch.domain.events import Event, FileChanged, FilesChanged, QuestionAsked
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.changed_content import read_content
from hutch.gateway.context import Server
from hutch.sessions import requests
from hutch.sessions.interface import Viewer
from tests.deadline import DEADLINE_S
from tests.sessions.hosting import call, cassette, owner, repository, serving, until

pytestmark = [pytest.mark.anyio, pytest.mark.long]

logger = structlog.get_logger()
MOMENTS = 20
ADA, BEN, CLEO = "usr_ada", "usr_ben", "usr_cleo"  # two use requests, one a terminal
FILES = ("shared.txt", "src/a.py", "src/b.py", "notes/c.txt")


@dataclass(slots=True)
class Story:
    """The session and what was seen of it."""

    server: Server
    owner: Caller
    session: SessionId
    tree: Path
    random: random.Random
    moments: list[tuple[int, dict[str, bytes]]] = field(default_factory=list)  # the log's end, the files
    asked: int = 0  # the last event of the log that was awaited
    number: int = 0

    def line(self, by: str) -> str:
        """A line that names its author."""
        self.number += 1
        return f"{by} {self.number}"

    async def write(self, by: str) -> None:
        """Replace a file by a request."""
        path = self.random.choice(FILES)
        data = f"{self.line(by)}\n".encode()
        await self.server.host.call(self.session, requests.WriteFile(path, data), by=by)

    async def command(self, by: str, shell: str) -> None:
        """Change files by a command, which also tries to hide when it did so."""
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
        """Change a file in the terminal."""
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
                return

    async def let_agent_work(self) -> None:
        """Answer the agent's question, and wait for its next one."""
        async with (
            asyncio.timeout(DEADLINE_S),
            aclosing(self.server.log.follow(self.session, after=self.asked)) as entries,
        ):
            async for entry in entries:
                self.asked = entry.seq
                if isinstance(entry.event, QuestionAsked):
                    answer = inputs.Answer(call_id=entry.event.call_id, text="Go on.")
                    await sessions.give(self.server.services, self.owner, self.session, answer)
                    break
        await until(self.server, self.session, "question.asked", after=self.asked)

    async def note_moment(self) -> None:
        """Note the files on disk, and the end of the log once it has all changes so far."""
        await self.server.host.call(self.session, requests.TakeSnapshot("now"), by=ADA)
        self.moments.append(((await self.server.log.head(self.session)).seq, files_of(self.tree)))


def files_of(tree: Path) -> dict[str, bytes]:
    found = (path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(tree)): path.read_bytes() for path in found}


def steps() -> list[dict[str, Any]]:
    """What the agent does between its questions."""
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
            del files[event.moved_from]
        if event.kind == "deleted":
            del files[event.path]
            continue
        files[event.path] = await read_content(story.server.services, story.owner, story.session, seq)
        assert hashlib.sha256(files[event.path]).hexdigest() == event.after
    return files


def check_author(event: FileChanged, content: bytes) -> None:
    """The log names the author of a change, or counts them among those who may have made it."""
    author = content.decode().partition(" ")[0]  # a snapshot may have a file that is still empty
    if author in (ADA, BEN, CLEO, AGENT):
        assert author == event.by or (not event.by and author in event.possible_authors), (event, content)


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
                check_author(event, await read_content(server.services, who, session.id, seq))
        await server.host.close(session.id, reason="done")
