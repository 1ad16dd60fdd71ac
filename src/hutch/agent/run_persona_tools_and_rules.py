"""The persona, tools and rules that distinguish one kind of run from another."""

from hutch.agent.persona import Persona
from hutch.agent.tool_call_rules import Policy
from hutch.agent.tools.interface import Tool
from hutch.agent.tools.session_tool_registry import ToolRegistry
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Equipment:
    """The persona of a run, with its tools and rules."""

    persona: Persona
    tools: tuple[Tool, ...]
    policy: Policy
    notes: str | None = None  # replace the repository's notes for agents


def equip(persona: Persona, tools: ToolRegistry) -> Equipment:
    """The tools and the rules that a persona names."""
    return Equipment(persona, tools.select(persona.tools), persona.policy)
