"""The tools that are available to the runs of one session."""

from collections.abc import Collection, Iterable, Iterator

from hutch.agent.tools.interface import Tool
from hutch.domain.errors import Conflict


class ToolRegistry:
    """Tools by name, in the order in which models see them.

    Every session has its own registry: a tool that is added to one session does not exist in another.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def __iter__(self) -> Iterator[Tool]:
        return iter(tuple(self._tools.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def add(self, tool: Tool) -> None:
        """Add a tool, for personas that name it or name none."""
        if tool.name in self._tools:
            raise Conflict(f"A tool '{tool.name}' already exists. Give the new one another name.")
        self._tools[tool.name] = tool

    def select(self, names: Collection[str]) -> tuple[Tool, ...]:
        """The tools of these names, in the registry's order."""
        return tuple(tool for tool in self._tools.values() if tool.name in names)
