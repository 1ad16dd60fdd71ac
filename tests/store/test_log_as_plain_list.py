"""Any order of append, read, follow, erase, reopen and verify agrees with a plain list."""

import asyncio
import tempfile
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hutch.domain.errors import Conflict
from hutch.domain.events import AnyEvent, Entry, ErasedEvent, Event, MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store.event_log import SqlLog, open_log
from hutch.store.exported_record_verifier import verify_record
from hutch.store.record_export import export_record
from hutch.store.signed_log_head_statements import Statement
from tests.deadline import DEADLINE_S

texts = st.one_of(st.text(max_size=20), st.just("large " * 4000))
messages = st.lists(
    st.builds(MessageSent, author=st.sampled_from(["user", "agent"]), text=texts), min_size=1, max_size=9
)


class LogStates(RuleBasedStateMachine):
    """The model is a list of events per session; an erased one is None."""

    open_sessions = Bundle("open_sessions")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.home = Path(self.directory.name)
        self.model: dict[SessionId, list[Event | None]] = {}
        self.receipts: dict[SessionId, list[Statement]] = {}
        self.exports = 0

    @initialize()
    def open(self) -> None:
        paths = (self.home / "hutch.db", self.home / "blobs", self.home / "signing.pem")
        self.opened: AbstractAsyncContextManager[SqlLog] = open_log(*paths)
        self.log = self.runner.run(self.opened.__aenter__())

    @rule()
    def close_and_open_again(self) -> None:
        self.runner.run(self.opened.__aexit__(None, None, None))
        self.open()

    @rule(target=open_sessions, purpose=st.text(max_size=9))
    def begin(self, purpose: str) -> SessionId:
        session_id, event = new_session_id(), SessionOpened(purpose=purpose)
        self.runner.run(self.log.append(session_id, [event]))
        self.model[session_id], self.receipts[session_id] = [event], []
        return session_id

    @rule(session_id=open_sessions, events=messages)
    def append(self, session_id: SessionId, events: list[MessageSent]) -> None:
        head = self.runner.run(self.log.append(session_id, events, expected_seq=len(self.model[session_id])))
        self.model[session_id] += events
        assert head.seq == len(self.model[session_id])

    @rule(session_id=open_sessions, batches=st.lists(messages, min_size=2, max_size=5))
    def append_at_once(self, session_id: SessionId, batches: list[list[MessageSent]]) -> None:
        async def race() -> list[int]:
            heads = await asyncio.gather(*(self.log.append(session_id, batch) for batch in batches))
            return [head.seq for head in heads]

        ends = self.runner.run(race())
        for _, batch in sorted(zip(ends, batches, strict=True), key=lambda pair: pair[0]):
            self.model[session_id] += batch

    @rule(session_id=open_sessions, behind=st.integers(1, 5))
    def append_too_late(self, session_id: SessionId, behind: int) -> None:
        late = self.log.append(
            session_id, [SessionEnded(outcome="failed")], expected_seq=len(self.model[session_id]) - behind
        )
        with pytest.raises(Conflict):
            self.runner.run(late)

    @rule(session_id=consumes(open_sessions))
    def end(self, session_id: SessionId) -> None:
        event = SessionEnded(outcome="done")
        self.runner.run(self.log.append(session_id, [event]))
        self.model[session_id].append(event)

    @rule(session_id=open_sessions)
    def take_receipt(self, session_id: SessionId) -> None:
        self.receipts[session_id].append(self.runner.run(self.log.receipt(session_id)))

    @rule(session_id=open_sessions, seqs=st.sets(st.integers(1, 30), max_size=5))
    def erase(self, session_id: SessionId, seqs: set[int]) -> None:
        model = self.model[session_id]
        seqs = {seq for seq in seqs if seq <= len(model)}
        present = [seq for seq in seqs if model[seq - 1] is not None]
        assert self.runner.run(self.log.erase(session_id, seqs, reason="asked")) == len(present)
        for seq in present:
            model[seq - 1] = None

    @rule(session_id=open_sessions, after=st.integers(0, 30), limit=st.integers(1, 20))
    def read(self, session_id: SessionId, after: int, limit: int) -> None:
        self.agree(
            self.runner.run(self.log.read(session_id, after=after, limit=limit)), session_id, after, limit
        )

    @rule(session_id=open_sessions, back=st.integers(0, 20))
    def follow(self, session_id: SessionId, back: int) -> None:
        count = min(back, len(self.model[session_id]))
        after = len(self.model[session_id]) - count

        async def take() -> list[Entry]:
            seen: list[Entry] = []
            async with (
                asyncio.timeout(DEADLINE_S),
                aclosing(self.log.follow(session_id, after=after)) as entries,
            ):
                while len(seen) < count:
                    seen.append(await anext(entries))
            return seen

        self.agree(self.runner.run(take()), session_id, after, count)

    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        if not self.model:
            return
        session_id = data.draw(st.sampled_from(sorted(self.model)))
        self.exports += 1
        path = self.home / f"{self.exports}.zip"
        self.runner.run(export_record(self.log, session_id, path, WHOLE, overwrite=False))
        report = verify_record(path, receipts=self.receipts[session_id])
        model = self.model[session_id]
        assert (report.ok, report.problem) == (True, None)
        assert (report.events, report.erased) == (len(model), model.count(None))

    @invariant()
    def heads_agree(self) -> None:
        if hasattr(self, "log"):
            heads = self.runner.run(self.log.heads(limit=1000))
            assert {head.session_id: head.seq for head in heads} == {
                session_id: len(events) for session_id, events in self.model.items()
            }

    def agree(self, entries: list[Entry], session_id: SessionId, after: int, limit: int) -> None:
        expected = self.model[session_id][after : after + limit]
        assert [entry.seq for entry in entries] == list(range(after + 1, after + 1 + len(expected)))
        assert [self.plain(entry.event) for entry in entries] == expected

    @staticmethod
    def plain(event: AnyEvent) -> AnyEvent | None:
        return None if isinstance(event, ErasedEvent) else event

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            self.runner.run(self.opened.__aexit__(None, None, None))
        self.runner.close()
        self.directory.cleanup()


LogStates.TestCase.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLogStates = LogStates.TestCase


@pytest.mark.soak
class TestLogStatesForLong(LogStates.TestCase):
    settings = settings(
        max_examples=400, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
    )
