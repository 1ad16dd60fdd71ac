"""Writes the tools of `hutch mcp serve` to a file that is read before anything of them is loaded."""

import json
import sys
from pathlib import Path

from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.redaction import Redactor
from hutch.flows.directory_tools import FOR_AGENTS_ONLY
from hutch.gateway.mcp.early_handshake import TOOL_LIST
from hutch.gateway.mcp.tool_titles_and_output_schemas import OUTPUTS, TITLES


def text() -> str:
    """The list of tools in the form of the protocol, for a jail without a network."""
    toolbox = Toolbox((tool for tool in built_in_tools() if tool.name not in FOR_AGENTS_ONLY), Redactor())
    tools = [
        {
            "name": spec.name,
            "title": TITLES.get(spec.name),
            "description": spec.description,
            "inputSchema": dict(spec.parameters),
            "outputSchema": OUTPUTS.get(spec.name),
            "annotations": {"readOnlyHint": toolbox.parallel(spec.name), "openWorldHint": False},
        }
        for spec in toolbox.specs
    ]
    listed = [{name: value for name, value in tool.items() if value is not None} for tool in tools]
    return json.dumps(listed, indent=1, default=dict) + "\n"


def main() -> int:
    written, file = text(), Path(TOOL_LIST)
    if sys.argv[1:] == ["--check"]:
        fresh = file.exists() and file.read_text() == written
        if not fresh:
            print(f"{file.name} is stale. Run: python scripts/mcp_tool_list.py", file=sys.stderr)
        return 0 if fresh else 1
    file.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
