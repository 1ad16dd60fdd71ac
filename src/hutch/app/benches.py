"""All that a run of the agent works with, put together from the settings."""

import stat
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from hutch.agent.approval import Approvals
from hutch.agent.limits import RunLimits
from hutch.agent.persona import DEFAULT, ReadFile, load_persona
from hutch.agent.tools.all import NAMES, TOOLS
from hutch.agent.tools.seam import Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.app import models
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.flows.code_change import Bench
from hutch.flows.past import start_of
from hutch.flows.terms import Terms
from hutch.llm import seam as llm
from hutch.llm.price import parse_prices
from hutch.sessions.desk import Desk
from hutch.settings import Loaded
from hutch.snapshots.layout import Leaf
from hutch.store.seam import EventLog
from hutch.workspace.workspace import Workspace

MOST_PIECES = 16  # of a file of the repository that Hutch itself reads


def make_bench(
    loaded: Loaded,
    desk: Desk,
    session_id: SessionId,
    log: EventLog,
    model: llm.Model,
    *,
    persona: str | None,
    limits: RunLimits,
    entries: Sequence[Entry] = (),
) -> Bench:
    """A persona at a desk, with a model that thinks for it.

    What the repository says of the persona is what it said when the session of these entries began: an
    agent that writes into that file changes nothing for itself.
    """
    redactor = models.redactor(loaded)
    own = Path(loaded.paths.config_file).parent / "personas"
    folder = own if own.is_dir() else None
    who = load_persona(
        persona or loaded.settings.persona,
        known_tools=NAMES,
        folder=folder,
        read=_reader(desk.workspace, entries),
    )
    if persona is None and loaded.is_from_repository("persona"):
        who = who.narrowed_to(load_persona(DEFAULT, known_tools=NAMES, folder=folder))
    tools = Toolbox(TOOLS, clean=redactor.clean, settle=redactor.settled, mask=redactor.mask)
    return Bench(
        session_id=session_id,
        log=log,
        model=model,
        persona=who,
        toolbox=tools.only(who.tools),
        context=Context(
            desk.workspace,
            desk.jail,
            desk.shells,
            ignore=loaded.settings.ignore,
            test_command=loaded.settings.tests.command,
            test_timeout_s=loaded.settings.tests.timeout_s,
            clean=redactor.clean,
        ),
        redactor=redactor,
        limits=who.limits_for(limits),
        approvals=Approvals(who.policy),
        told=desk.told,
        terms=Terms(limits=limits),
        prices=parse_prices(loaded.settings.models.prices),
    )


def _reader(workspace: Workspace, entries: Sequence[Entry]) -> ReadFile:
    start = start_of(entries)
    if start is None:
        return lambda path: _small(workspace, path)
    workspace.pin(workspace.snapshots.get(start).id)
    return lambda path: _as_it_was(workspace, start, path)


def _as_it_was(workspace: Workspace, number: int, path: str) -> bytes | None:
    try:
        item = workspace.snapshots.item(number, path)
        if not isinstance(item, Leaf) or not stat.S_ISREG(item.mode):
            return None
        return b"".join(islice(workspace.snapshots.read(number, path), MOST_PIECES))
    except (NotFound, BadRequest):
        return None


def _small(workspace: Workspace, path: str) -> bytes | None:
    try:
        return workspace.files.read_bytes(path)[0]
    except (BadRequest, Denied):  # there is none, or none that can be read
        return None
