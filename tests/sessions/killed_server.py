"""A server that is killed: gives itself work, and prints what it acknowledged.

`python -m tests.sessions.killed_server HOME CASSETTE SEED`
"""

import asyncio
import json
import random
import sys
from pathlib import Path

from hutch import logs
from hutch.domain import inputs
from hutch.domain.errors import Conflict
from hutch.domain.session import NewSession
from hutch.flows import sessions
from tests.sessions.session_server import owner, serving


def send(**fact: object) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


async def main(home: Path, model: str, seed: int) -> None:
    chance = random.Random(seed)
    made: list[str] = []
    async with serving(home, sessions__runs=4, sessions__idle_s=1) as server:
        who = await owner(server)
        send(ready=True)
        for number in range(10_000):
            if len(made) < 6 or chance.random() < 0.2:
                session = await sessions.create(
                    server.services, who, NewSession(model=model, prompt=f"Prompt {number}.")
                )
                made.append(session.id)
                send(session=session.id, prompts=1)
            id = chance.choice(made)
            asked = chance.choice(
                [
                    inputs.Message(text=f"Said {seed} {number}."),
                    inputs.Prompt(text=f"Asked {seed} {number}."),
                    inputs.Cancel(),
                    inputs.Pause(),
                    inputs.Resume(),
                ]
            )
            try:
                given = await sessions.give(server.services, who, id, asked)
            except Conflict:
                continue
            send(input=given.seq, of=id, body=json.loads(given.body))
            await asyncio.sleep(chance.random() * 0.05)


if __name__ == "__main__":
    logs.configure("error")  # to standard error: facts go to standard output
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
