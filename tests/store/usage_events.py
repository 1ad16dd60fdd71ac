"""Events that are counted, and what they come to by a fold over whole logs."""

import random
from collections import defaultdict
from dataclasses import asdict

from sqlalchemy import select

from hutch.domain.events import (
    ContextCompacted,
    Event,
    MessageSent,
    ModelReplied,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolReturned,
)
from hutch.store.event_log import SqlLog
from hutch.store.projections import Projector
from hutch.store.schema import usage
from hutch.store.usage_from_events import COUNTS, UsageChange, UsageState, fold_usage
from hutch.store.usage_totals import UsageProjection

Rows = dict[tuple[str, ...], tuple[int, ...]]
RUNS = ("run_1", "run_2")


def make_events(rng: random.Random, count: int) -> list[Event]:
    return [_make(rng) for _ in range(count)]


def _make(rng: random.Random) -> Event:
    run_id = rng.choice(RUNS)
    cost = rng.choice((None, rng.random()))
    tokens = {"input_tokens": rng.randrange(9999), "output_tokens": rng.randrange(99)}
    kind = rng.randrange(8)
    if kind == 0:
        model = rng.choice(("m:a", "m:b"))
        return RunStarted(run_id=run_id, prompt="", persona=rng.choice(("engineer", "pair")), model=model)
    if kind == 1:
        return RunResumed(run_id=run_id, model=rng.choice(("", "m:c")))
    if kind == 2:
        return RunEnded(run_id=run_id, outcome="done", duration_s=rng.random() * 100)
    if kind == 3:
        return ToolReturned(run_id=run_id, call_id="c", tool="bash", ok=rng.random() < 0.5, text="")
    if kind == 4:
        return ContextCompacted(run_id=run_id, upto_seq=1, summary="", cost_usd=cost, **tokens)
    if kind == 5:
        return MessageSent(author="user", text="not counted")
    text = "in a blob " * 2000 if rng.random() < 0.1 else "short"
    return ModelReplied(run_id=run_id, turn=1, text=text, cost_usd=cost, cached_tokens=1, **tokens)


def projector(log: SqlLog, *, batch_events: int) -> Projector[UsageState, UsageChange]:
    return Projector(log, log._blobs, UsageProjection(), batch_events=batch_events)


async def read_rows(log: SqlLog) -> Rows:
    """The rows as they are kept."""
    found = await log.fetch(lambda connection: connection.execute(select(usage)).all())
    return {tuple(row[:5]): tuple(row[5:]) for row in found}


async def read_folded(log: SqlLog) -> Rows:
    """The same by reading every log whole, one event at a time."""
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for head in await log.heads(limit=10_000):
        state, after = UsageState(), 0
        while page := await log.read(head.session_id, after=after):
            after = page[-1].seq
            for entry in page:
                for key, totals in fold_usage(state, [entry]).items():
                    sums[key] = [
                        old + new for old, new in zip(sums[key], asdict(totals).values(), strict=True)
                    ]
    return {key: tuple(counts) for key, counts in sums.items()}
