"""Builds a layer: runs the steps of a plan in a jail of its own, on the input files alone.

Install scripts are hostile code. The jail has the network of the allowed registries, no secret,
and its own limits; temporary files and caches are on disk, because a jail's other directories
are memory. The layer is made after the jail is gone.
"""

import asyncio
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan, SetupStep
from hutch.domain.errors import HutchError, Unavailable
from hutch.environment.layers.allowed_layer_paths import LayerPaths
from hutch.environment.layers.build_input_files import InputFile, write_inputs
from hutch.environment.layers.build_log import BuildLog, OnLine
from hutch.environment.layers.layer_key import Scope
from hutch.environment.layers.layer_sanitizer import Sealed, seal
from hutch.environment.layers.layer_store import ON_DISK, TREE, BuildFailure, Layer, LayerStore, boot_id
from hutch.jail.egress import EgressAttempt
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.interface import Finished
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import MAX_TIMEOUT_S, PATH, WORKSPACE, Policy
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard, temporary_name

CACHE = ".hutch-cache"  # in the workspace of a build: downloads, and what tools keep for later
TEMPORARY = f"{CACHE}/tmp"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NODE_HEADERS = Path("/usr/include/node")
MAX_DENIED = 20
HINT = " To allow it"  # is about sessions: a build has its own list of hosts
MAX_SHOWN_CHARS = 200
MAX_REASON_CHARS = 1000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """A layer to be built, and the limits of its build."""

    key: str
    scope: Scope
    plan: EnvironmentPlan
    inputs: Sequence[InputFile]
    policy: Policy  # its network are the registries
    commit: str = ""  # empty if the inputs are not those of a commit
    variables: Mapping[str, str] = field(default_factory=dict)  # that name the registries
    private_networks: tuple[str, ...] = ()
    max_bytes: int
    timeout_s: float


async def build_layer(
    store: LayerStore, request: BuildRequest, on_line: OnLine, downloads: Layer | None = None
) -> Layer | BuildFailure:
    """Build a layer. The caller holds its lock, and no layer with that key exists.

    `downloads` is an older layer whose caches may be used. A cancellation leaves nothing behind.
    """
    began = time.monotonic()
    place = store.home.layers / temporary_name(request.key[:12])
    try:
        await run_in_thread(_make_place, store, place, request, downloads)
        with BuildLog(store.log_path(request.key), on_line) as log:
            failed = await _run_steps(place / TREE, request, log)
            if isinstance(failed, BuildFailure):
                return failed
            log.line("Sealing the layer")
            try:
                sealed = await run_in_thread(_seal, place / TREE, request)
            except HutchError as error:
                return BuildFailure(str(error), tuple(log.last), at_ms=wall_ms())
            layer = _describe(request, sealed, failed, time.monotonic() - began)
            await run_in_thread(_publish, store, place, layer)
            return layer
    finally:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(_discard, place)))


def build_variables(plan: EnvironmentPlan, path: str = PATH) -> dict[str, str]:
    """The variables of a build, by the plan and for the known package managers; `path` is that of the jail,
    which has the toolchains."""
    cache = f"{WORKSPACE}/{CACHE}"
    return {
        "TMPDIR": f"{WORKSPACE}/{TEMPORARY}",
        "PATH": ":".join((*plan.path, path)),
        "CI": "1",
        "SSL_CERT_FILE": CERTIFICATES,
        "REQUESTS_CA_BUNDLE": CERTIFICATES,
        "UV_CACHE_DIR": f"{cache}/uv",
        "UV_COMPILE_BYTECODE": "1",  # sessions write no bytecode, and would compile at every start
        "PIP_CACHE_DIR": f"{cache}/pip",
        "PIP_CERT": CERTIFICATES,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "NODE_EXTRA_CA_CERTS": CERTIFICATES,
        "npm_config_cache": f"{cache}/npm",
        "npm_config_update_notifier": "false",
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        **({"npm_config_nodedir": str(NODE_HEADERS.parents[1])} if NODE_HEADERS.is_dir() else {}),
        "GOMODCACHE": f"{cache}/go-modules",
        "GOCACHE": f"{cache}/go-build",
        "GOFLAGS": "-modcacherw",
        "CARGO_HOME": f"{cache}/cargo",
        **plan.variables,
    }


async def _run_steps(tree: Path, request: BuildRequest, log: BuildLog) -> BuildFailure | list[str]:
    """Run the steps; returns the optional ones that failed, each with its reason."""
    failed: list[str] = []
    denied: dict[str, str] = {}

    def note(attempt: EgressAttempt) -> None:
        if not attempt.allowed and len(denied) < MAX_DENIED:
            denied[f"{attempt.host}:{attempt.port}"[:300]] = attempt.reason.partition(HINT)[0][:300]

    given = dict(request.policy.environment)
    variables = {**build_variables(request.plan, given.get("PATH", PATH)), **request.variables}
    policy = replace(
        request.policy,
        profile="build",
        environment=tuple({**given, **variables}.items()),
        limits=replace(
            request.policy.limits,
            workspace_growth_bytes=request.max_bytes,
            command_timeout_s=min(request.timeout_s, MAX_TIMEOUT_S),
            command_total_s=MAX_TIMEOUT_S,
        ),
    )
    outside = Outside(on_egress=note, also_allow_networks=request.private_networks, always=True)
    deadline = time.monotonic() + request.timeout_s
    async with open_jail(tree, policy, outside=outside) as jail:
        for step in request.plan.steps:
            log.begin_step(step.command)
            reason = await _run_step(jail, step, deadline, log)
            if reason and not step.is_optional:
                hosts = tuple(f"{host}: {why}" for host, why in denied.items())
                return BuildFailure(reason, tuple(log.last), hosts, wall_ms())
            if reason:
                log.line("The build goes on: this step is optional.")
                log.line(reason)
            if reason and not step.manager:  # those of a package manager only fill caches
                failed.append(reason[:MAX_REASON_CHARS])
    return failed


async def _run_step(jail: Jailed, step: SetupStep, deadline: float, log: BuildLog) -> str:
    """Run a step; returns why it failed, or nothing."""
    left_s = deadline - time.monotonic()
    shown = _short(step.command)
    if left_s <= 0:
        return f"`{shown}` was not started: environment.timeout_s is used up."
    ran = await jail.run(
        ["/bin/bash", "-c", step.command],
        timeout_s=min(left_s, MAX_TIMEOUT_S),
        on_output=lambda stream, data: log.write(data),
    )
    log.end_line()
    return "" if ran.exit_code == 0 else " ".join((_describe_end(shown, ran), *_printed_causes(log.causes)))


def _describe_end(shown: str, ran: Finished) -> str:
    if ran.limit_hit is not None:
        return f"`{shown}` was stopped by the limit {ran.limit_hit}."
    if ran.timed_out:
        return f"`{shown}` took longer than {ran.duration_s:.0f} s. Raise environment.timeout_s."
    if ran.exit_code is None:
        return f"`{shown}` was ended by signal {ran.signal}."
    return f"`{shown}` failed with exit code {ran.exit_code}."


def _printed_causes(causes: Sequence[str]) -> Iterator[str]:
    """The lines of the output that may be the cause."""
    if causes:
        yield f"It printed: {' / '.join(causes)}"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[: MAX_SHOWN_CHARS - 1]}…"


def _make_place(store: LayerStore, place: Path, request: BuildRequest, downloads: Layer | None) -> None:
    store.make()
    tree = place / TREE
    tree.mkdir(mode=0o755, parents=True)
    place.chmod(0o700)
    write_inputs(tree, request.inputs)
    if downloads is not None:
        _copy_downloads(store.home.layer(downloads.key) / TREE / CACHE, tree / CACHE)
    (tree / TEMPORARY).mkdir(mode=0o755, parents=True, exist_ok=True)


def _copy_downloads(source: Path, target: Path) -> None:
    """Copy caches of an older layer: a copy, so that this build cannot write into that layer."""
    if source.is_symlink() or not source.is_dir() or target.exists():
        return
    words = ["/bin/cp", "-a", "--reflink=auto", "--", str(source), str(target)]
    ran = subprocess.run(
        words, env={"LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if ran.returncode != 0:
        raise Unavailable(
            f"Downloads of an older layer cannot be copied: {ran.stderr.decode(errors='replace')[-200:]}"
        )


def _seal(tree: Path, request: BuildRequest) -> Sealed:
    inputs = [file.path for file in request.inputs]
    outputs = LayerPaths(request.plan.outputs)
    return seal(tree, inputs, max_bytes=request.max_bytes, removed=[TEMPORARY], outputs=outputs)


def _describe(request: BuildRequest, sealed: Sealed, failed: Sequence[str], duration_s: float) -> Layer:
    plan = request.plan
    return Layer(
        key=request.key,
        owner=request.scope.owner,
        repository=request.scope.repository,
        commit=request.commit,
        created_ms=wall_ms(),
        boot_id=boot_id(),
        duration_s=round(duration_s, 3),
        bytes=sealed.bytes,
        files=sealed.files,
        roots=sealed.roots,
        steps=tuple(step.command for step in plan.steps),
        inputs=tuple(file.path for file in request.inputs),
        dropped=tuple(sealed.dropped),
        failed=tuple(failed),
        variables=dict(plan.session_variables),
        path=plan.path,
    )


def _publish(store: LayerStore, place: Path, layer: Layer) -> None:
    """Let the layer appear, and write it to disk meanwhile.

    Until that is done it counts only until the machine starts again.
    """
    layer.write(place)
    final = store.home.layer(layer.key)
    place.rename(final)
    threading.Thread(target=_write_to_disk, args=(final,), name="hutch-layer").start()


def _write_to_disk(directory: Path) -> None:
    with suppress(OSError):  # it may be removed by now; without the mark it does not outlive the machine
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd) == 0:
                (directory / ON_DISK).touch()
        finally:
            os.close(fd)


def _discard(place: Path) -> None:
    if place.exists():
        discard(place)
