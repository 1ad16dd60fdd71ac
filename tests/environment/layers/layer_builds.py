"""Builds of layers for tests, on real jails."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan, SetupStep
from hutch.environment.layers.build_input_files import InputFile
from hutch.environment.layers.layer_build import BuildRequest, build_layer
from hutch.environment.layers.layer_key import Scope, layer_key
from hutch.environment.layers.layer_store import TREE, BuildFailure, Layer, LayerStore
from hutch.jail.policy import AGENT, Policy
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.deadline import DEADLINE_S

SCOPE = Scope("usr_1", "/srv/git/shop")
LOOPBACK = ("127.0.0.0/8",)


def make_store(directory: Path) -> LayerStore:
    home = Home(directory / "data")
    home.make()
    store = LayerStore(home)
    store.make()
    return store


def make_request(
    *commands: str,
    inputs: Mapping[str, str] | None = None,
    network: Sequence[str] = (),
    scope: Scope = SCOPE,
    max_bytes: int = 1 << 30,
    timeout_s: float = DEADLINE_S,
    optional: bool = False,
    policy: Policy = AGENT,
    outputs: tuple[str, ...] = ("*",),
) -> BuildRequest:
    plan = EnvironmentPlan(
        steps=tuple(SetupStep(command, "a test", is_optional=optional) for command in commands),
        inputs=tuple(inputs or ()),
        outputs=outputs,
    )
    files = [InputFile(path, 0o644, text.encode()) for path, text in (inputs or {}).items()]
    return BuildRequest(
        key=layer_key(scope, plan, files, ["a machine"]),
        scope=scope,
        plan=plan,
        inputs=files,
        policy=replace(policy, network=tuple(network)),
        private_networks=LOOPBACK if network else (),
        max_bytes=max_bytes,
        timeout_s=timeout_s,
    )


async def build(store: LayerStore, request: BuildRequest) -> Layer | BuildFailure:
    made = await build_layer(store, request, lambda line: None)
    if isinstance(made, Layer):
        store.lock_path(made.key).touch()
    return made


async def built(store: LayerStore, request: BuildRequest) -> tuple[Layer, Path]:
    """The layer and its tree."""
    made = await build(store, request)
    assert isinstance(made, Layer), made
    return made, store.home.layer(made.key) / TREE
