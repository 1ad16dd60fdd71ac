"""Observes the work of a candidate on one question, and decides about levels and help by the policy.

It reads the events of the workspace: test runs and changed files of the candidate. It is rebuilt from the log
after a restart.
"""

from collections.abc import Sequence

from hutch.domain.errors import HutchError
from hutch.domain.events import AnyEvent, FileChanged, RanTests
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview
from hutch.domain.interview_question import Level
from hutch.flows.interviews.help_level_proposals import LevelProposals
from hutch.flows.interviews.help_offer_conditions import HelpOffers
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.flows.interviews.struggle_score import ObservedEdit, ObservedTests
from hutch.sessions.collaborative_editing.text_difference import find_replacements
from hutch.sessions.file_and_command_requests import ReadSnapshotFile
from hutch.sessions.interface import SessionHost

MAX_COMPARED_BYTES = 200_000  # of one file; larger ones are not compared
Observed = tuple[AnyEvent, int]  # an event and its time, in milliseconds since 1970


class CandidateWorkObserver:
    """The work on one question in one workspace. Times are seconds of the interview's clock."""

    def __init__(
        self, policy: AdaptivePolicy, interview: Interview, levels: tuple[Level, ...], host: SessionHost
    ) -> None:
        self.workspace, self.candidate = SessionId(interview.workspace), interview.candidate
        began_s = interview.clock.question_from_ms / 1000
        self.proposals = LevelProposals(policy, levels, interview.level, began_s=began_s)
        self.help = HelpOffers(policy, self.proposals.work)
        self.shown_score = -1.0  # the score in the last event about it
        self.measured_s = -1.0  # when the growth of the solution's time was measured last
        self._host = host

    async def note(self, found: Sequence[Observed], interview: Interview, now_ms: int) -> int:
        """Take in events of the workspace. Returns the time of the candidate's last one, or 0."""
        last_ms = 0
        for event, at_ms in found:
            if getattr(event, "by", "") != self.candidate:
                continue
            last_ms = at_ms
            at_s = clock_s(interview, at_ms, now_ms)
            if isinstance(event, RanTests) and not event.cancelled:
                passed = frozenset(case.name for case in event.cases if case.outcome == "passed")
                self.proposals.work.observe(ObservedTests(at_s, event.ok, passed))
            elif isinstance(event, FileChanged):
                added, deleted = await self._edited(event)
                if added or deleted:
                    self.proposals.work.observe(ObservedEdit(at_s, added, deleted))
        return last_ms

    async def _edited(self, event: FileChanged) -> tuple[int, int]:
        """How many characters a change has added and deleted."""
        before = await self._content(event.previous_snapshot, event.moved_from or event.path, event.before)
        after = await self._content(event.snapshot, event.path, event.after)
        if before is None or after is None:
            return 0, 0
        found = find_replacements(before, after)
        return sum(len(added) for _, _, added in found), sum(end - start for start, end, _ in found)

    async def _content(self, snapshot: int, path: str, sha256: str | None) -> str | None:
        """The text of a file in a snapshot; "" if it did not exist, None if it cannot be compared."""
        if sha256 is None:
            return ""
        try:
            wanted = ReadSnapshotFile(snapshot, path, length=MAX_COMPARED_BYTES, sha256=sha256)
            found = await self._host.call(self.workspace, wanted)
            return found.data.decode() if found.size <= MAX_COMPARED_BYTES else None
        except (HutchError, UnicodeDecodeError):
            return None


def clock_s(interview: Interview, at_ms: int, now_ms: int) -> float:
    """The time of an event by the interview's clock: exact since the last pause, and never before the
    question began."""
    elapsed_ms = interview.elapsed_ms(now_ms) - max(0, now_ms - at_ms)
    return max(interview.clock.question_from_ms, elapsed_ms) / 1000
