"""Paths as models write them."""

from hutch.agent.tools.seam import Context


def inside(path: str, context: Context) -> str:
    """A path relative to the workspace, also when it is given as commands in the jail see it."""
    for root in (context.jail.workspace, *context.jail.policy.also_at):
        if path == root or path.startswith(f"{root}/"):
            path = path[len(root) :].lstrip("/")
            break
    return path.removeprefix("./") if path != "." else ""
