"""What the agent can do, one file per tool."""
