"""What distinguishes one kind of run from another: its persona, its tools and its rules."""

from dataclasses import dataclass

from hutch.agent.persona import Persona
from hutch.agent.policy import Policy
from hutch.agent.tools.interface import Tool
from hutch.agent.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Equipment:
    """The persona of a run, with the tools and the rules that it gets."""

    persona: Persona
    tools: tuple[Tool, ...]
    policy: Policy
    notes: str | None = None  # in place of what the repository tells agents


def equip(persona: Persona, tools: ToolRegistry) -> Equipment:
    """The tools and the rules that a persona names."""
    return Equipment(persona, tools.select(persona.tools), persona.policy)
