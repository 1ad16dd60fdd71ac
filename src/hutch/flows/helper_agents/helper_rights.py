"""The rights and the budget of a helper: never more than its parent has at the moment it delegates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from hutch.agent.persona import Persona
from hutch.agent.tool_call_rules import Action, Policy, parse_rule
from hutch.agent.tools.delegate import DELEGATE, HelperChanges, HelperTask
from hutch.domain.errors import LimitReached
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import HelperRights, Session
from hutch.system.lazy_dataclass import dataclass

DELEGATING = (DELEGATE, HelperChanges.name)
SOURCE = "rules of the agent that delegated"


@dataclass(frozen=True, slots=True)
class HelperLimits:
    """How many helpers there may be."""

    depth: int = 1  # 2: helpers may have helpers
    per_run: int = 8
    parallel: int = 4
    parallel_tries: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperPlan:
    """A helper to start."""

    task: str
    persona: str = ""
    model: str = ""
    temperature: float | None = None
    limits: RunLimits


def rights_of_helper(persona: Persona, parent: Session, limits: HelperLimits) -> HelperRights:
    """The rights that the parent's agent passes on."""
    depth = parent.helper.depth + 1
    may_delegate = depth < limits.depth
    return HelperRights(
        depth=depth,
        tools=tuple(tool for tool in persona.tools if may_delegate or tool not in DELEGATING),
        rules=tuple(str(rule) for rule in persona.policy.rules),
        default=persona.policy.default,
        extensions=persona.extensions,
    )


def limit_to_rights(persona: Persona, rights: HelperRights) -> Persona:
    """A helper's persona, with no more rights than the agent that delegated."""
    rules = tuple(parse_rule(rule, SOURCE) for rule in rights.rules)
    policy = Policy(rules, cast("Action", rights.default))
    parent = replace(persona, tools=rights.tools, extensions=rights.extensions, policy=policy)
    return persona.narrowed_to(parent)


def without_helpers(persona: Persona) -> Persona:
    """The persona of a session whose agent may not delegate."""
    return replace(persona, tools=tuple(tool for tool in persona.tools if tool not in DELEGATING))


def budgets_of(tasks: Sequence[HelperTask], remaining: RunLimits) -> list[RunLimits]:
    """The limits of each helper: as much as the parent keeps for itself, or less if its task says so."""
    each = share_of(remaining, len(tasks) + 1)
    return [each.tightened(RunLimits(turns=task.max_turns, cost_usd=task.max_cost_usd)) for task in tasks]


def share_of(remaining: RunLimits, share: int) -> RunLimits:
    """One part of what a run has left, if it is divided into so many; the time is not divided."""
    turns = None if remaining.turns is None else remaining.turns // share
    tokens = None if remaining.tokens is None else remaining.tokens // share
    cost_usd = None if remaining.cost_usd is None else remaining.cost_usd / share
    if turns == 0 or tokens == 0 or cost_usd == 0:
        raise LimitReached(
            "Too little of this run's limits is left for helpers. Do the work yourself.", limit="helpers"
        )
    return RunLimits(turns, tokens, cost_usd, remaining.timeout_s)
