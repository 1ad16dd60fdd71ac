"""Installed dependencies: the time until a session has them, the cost of a build in a jail, and disk."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.claim_workspace_preparation import GIT, make_repository
from bench.result_row import Row

from hutch.environment.layers.layer_store import Layer
from hutch.environment.plan_selection import EnvironmentSettings
from hutch.flows.repository_dependencies import Environments
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from tests.environment.layers.registries import ADDRESS, add_wheel, serving

MIB = 1024 * 1024
ROUNDS, SESSIONS, BUILDS = 16, 50, 3
PACKAGES, MODULES = 30, 10
MODULE = "".join(f"def f{line}(x):\n    return x + {line}\n" for line in range(400))
SETTINGS = EnvironmentSettings(
    inputs=("requirements.txt",),
    is_trusted=True,
    max_bytes=4096 * MIB,
    total_bytes=10 * 4096 * MIB,
    retention_days=30,
    timeout_s=600,
    private_networks=("127.0.0.0/8",),
)


def add_packages(index: Path) -> str:
    """Add wheels of 300 MB to an index; gives their requirements."""
    for number in range(PACKAGES):
        name = f"package{number}"
        modules = {f"{name}/module{part}.py": MODULE for part in range(MODULES)}
        data = os.urandom(5 * MIB).hex()
        add_wheel(index, name, "1.0", {f"{name}/__init__.py": "", f"{name}/data": data, **modules})
    return "".join(f"package{number}==1.0\n" for number in range(PACKAGES))


class EnvironmentSetup:
    """A repository whose set-up installs 300 MB of packages from an index on this machine."""

    def __init__(self, place: Path, host: str, requirements: str) -> None:
        self.place, self.home, self.source = place, Home(place / "data"), place / "source"
        self.host, self.requirements = host, requirements
        self.command = (
            "/usr/bin/python3 -m venv .venv && .venv/bin/python -m pip install -q -r requirements.txt "
            f"--index-url http://{host}/simple --trusted-host {ADDRESS}"
        )
        self.source.mkdir()
        (self.source / "requirements.txt").write_text(requirements)
        make_repository(self.source, files=50, size=2000)

    def environments(self, number: int = 0) -> Environments:
        settings = replace(
            SETTINGS,
            setup=(self.command,),
            registries=(self.host,),
            variables={"NUMBER": str(number)},  # another key for each
        )
        return Environments(
            home=self.home, git=GIT, settings=lambda record: settings, policy=lambda record: AGENT, indexes={}
        )

    def install_outside(self, number: int) -> None:
        directory = self.place / f"outside{number}"
        directory.mkdir()
        (directory / "requirements.txt").write_text(self.requirements)
        variables = {
            "PATH": "/usr/bin:/bin",
            "PIP_CACHE_DIR": str(directory / "cache"),
            "HOME": str(directory),
        }
        words = ["/bin/bash", "-c", self.command]
        subprocess.run(words, cwd=directory, env=variables, check=True)

    async def ready_ms(self, id: str, *, has_layer: bool) -> float:
        """The time until the first command of a new session has run."""
        began = time.perf_counter()
        record = await prepare(self.home, id, self.source, git=GIT)
        if has_layer:
            record = (await self.environments().provide("usr_1", record)).record
            assert record.layers
        mount = await open_workspace(self.home, id)
        try:
            async with open_jail(mount.place) as jail:
                await jail.run(["test", "-d", ".venv" if has_layer else "."])
                return (time.perf_counter() - began) * 1000
        finally:
            mount.close()


async def figures(setup: EnvironmentSetup) -> dict[str, float]:
    inside, outside = [], []
    for number in range(BUILDS):
        record = await prepare(setup.home, f"build{number}", setup.source, git=GIT)
        os.sync()
        began = time.perf_counter()
        assert isinstance(await setup.environments(number).build("usr_1", record), Layer)
        inside.append(time.perf_counter() - began)
        os.sync()
        began = time.perf_counter()
        await asyncio.to_thread(setup.install_outside, number)
        outside.append(time.perf_counter() - began)
    found = {"inside": min(inside) * 1000, "outside": min(outside) * 1000}
    took: dict[str, list[float]] = {"plain": [], "layered": []}
    for number in range(ROUNDS):  # in turn, so that other load and the end of the last one affect both alike
        for name, times in sorted(took.items(), reverse=bool(number % 2)):
            times.append(await setup.ready_ms(f"{name}{number}", has_layer=name == "layered"))
    found |= {name: statistics.median(times) for name, times in took.items()}
    before = _used(setup.home.workspaces)
    for number in range(SESSIONS):
        await setup.ready_ms(f"many{number}", has_layer=True)
    grown = _used(setup.home.workspaces) - before
    layer = _used(setup.home.layer(Record.read(setup.home.workspace("many0")).layers[0]))
    return {**found, "grown": grown / MIB, "copies": SESSIONS * layer / MIB, "layer": layer / MIB}


def _used(directory: Path) -> float:
    words = ["du", "-s", "--block-size=1", str(directory)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[0])


def measure() -> Iterator[Row]:
    place = Path(tempfile.mkdtemp(prefix="hutch-bench-"))
    try:
        requirements = add_packages(place / "index")
        with serving(place / "index") as host:
            found = asyncio.run(figures(EnvironmentSetup(place, host, requirements)))
    finally:
        discard(place)
    later = found["layered"] - found["plain"]
    about = f"{found['layer']:,.0f} MiB installed"
    yield Row(f"session with {about}, later than without", later, None, "ms", 30)
    yield Row(f"first build, {about}", found["inside"], found["outside"], "ms", 1.1, "outside of a jail")
    yield Row(f"disk of {SESSIONS} sessions", found["grown"], found["copies"], "MiB", 0.02, "copies")
