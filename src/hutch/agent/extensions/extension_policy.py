"""The policy of an extension's jail: what its manifest says, within what the session's jail may use."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hutch.agent.extensions.extension_manifest import Manifest
from hutch.jail.policy import MIB, TOOL, Limits, Policy

LOWERED = ("processes", "open_files", "descriptors", "file_bytes", "tmpfs_files", "terminals", "locks")
GROWTH = ("workspace_growth_bytes", "workspace_growth_files")
PROFILE = "extension"


def extension_policy(
    manifest: Manifest,
    session: Policy,
    *,
    network: Sequence[str],
    secrets: Sequence[tuple[str, str]] = (),
) -> Policy:
    """The policy of the jail of an extension. Nothing of the session's variables, secrets and network is in
    it; `network` are the hosts of the manifest that are allowed."""
    toolchain = tuple(path for path in session.readonly if any(_is_in(each, path) for each in manifest.argv))
    return Policy(
        profile=PROFILE,
        limits=_limits(manifest, session.limits),
        network=tuple(network),
        readonly=tuple(dict.fromkeys((*manifest.paths, *toolchain))),
        git_author=session.git_author,
        environment=manifest.variables,
        secrets=tuple(secrets) if manifest.kind != "http" else (),
        writable=manifest.workspace == "write",
    )


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _limits(manifest: Manifest, session: Limits) -> Limits:
    memory = min(manifest.memory_bytes, session.memory_bytes)
    lowered = {name: min(getattr(TOOL.limits, name), getattr(session, name)) for name in (*LOWERED, *GROWTH)}
    # Files in tmpfs are memory: together they get less than half of it.
    sizes = {"tmp_bytes": memory // 4, "home_bytes": memory // 8, "shm_bytes": max(MIB, memory // 32)}
    sizes = {name: min(size, getattr(session, name)) for name, size in sizes.items()}
    timeout_s = min(manifest.timeout_s, session.command_total_s)
    values: dict[str, Any] = {**lowered, **sizes}
    return replace(
        TOOL.limits,
        **values,
        memory_bytes=memory,
        command_timeout_s=timeout_s,
        command_total_s=session.command_total_s,
        output_bytes=session.output_bytes,
        cpus=session.cpus,
    )
