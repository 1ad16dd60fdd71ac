"""MCP: the agent's tools for clients of `hutch mcp serve`, and the sessions of a server at /mcp."""
