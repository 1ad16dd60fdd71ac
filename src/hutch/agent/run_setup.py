"""Everything that a run of the agent needs, built once before it begins."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, field

from hutch.agent.hooks.hook_runner import Hooks
from hutch.agent.model_call import OnDelta
from hutch.agent.persona import Persona
from hutch.agent.session_recorder import Recorder
from hutch.agent.tool_call_permission_decision import Asker, NoteDecision, SaveRules
from hutch.agent.tool_call_rules import Policy
from hutch.agent.tools.interface import Context
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.events import RunChanged
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.redaction import Redactor
from hutch.domain.run_limits import RunLimits
from hutch.llm.interface import Model
from hutch.llm.reply_cost import NO_OWN_PRICES, Prices
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message that a user sent while the agent worked."""

    text: str
    by: str = ""
    input: int = 0  # the input that it came with


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """Everything that a run needs. The run opens and closes none of it."""

    recorder: Recorder
    model: Model
    persona: Persona
    toolbox: Toolbox
    context: Context  # of the tools: the workspace, the jail and its shells
    limits: RunLimits
    policy: Policy  # without the approvals of this run
    approve: Asker | None = None  # None: no user can approve
    save_rules: SaveRules | None = None  # stores rules that were allowed with scope "always"
    note_decision: NoteDecision | None = None  # records the decisions of the owner's policies
    prices: Prices = field(default_factory=lambda: NO_OWN_PRICES)  # set by the user
    notes: str | None = None  # replace the repository's notes for agents
    brief: str = ""  # the session as its user described it
    on_delta: OnDelta = lambda delta: None
    inbox: list[UserMessage] = field(default_factory=list)  # messages sent during the run
    extended: list[str] = field(default_factory=list)  # ids of calls: approved once, then for the session
    leaves_open: Callable[[], bool] = lambda: False  # True when a run that is cancelled now will be resumed
    counts_waiting: bool = False  # time spent waiting for a user counts towards the timeout
    generation: Generation = NO_GENERATION  # of the model's replies
    agent: str = ""  # an external agent that works instead of Hutch's own
    hooks: Hooks | None = None
    delivers: bool | None = None  # its changes become a commit; None: as it was when the run started
    # Returns the setup of the next turn if a user has changed the session's options, else None.
    refresh: "Callable[[], Awaitable[RunSetup | None]] | None" = None

    def changed_event(self, run_id: str, turn: int) -> RunChanged:
        """The event for a run that works with this setup from a turn on."""
        return RunChanged(
            run_id=run_id,
            turn=turn,
            persona=self.persona.name,
            model=self.model.name,
            context_tokens=self.model.context_tokens,
            network=self.context.jail.policy.network,
            **self.limits.event_fields(),
            **asdict(self.generation),
        )

    @property
    def redactor(self) -> Redactor:
        return self.recorder.redactor
