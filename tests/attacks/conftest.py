"""Two gateways to attack: one runs as root, one does not."""

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ordinary_user import place

from .attack import Probe, Scene
from .waiting import TIMEOUT_S

Ask = tuple[str, bool, bool]  # name, in the jail, control
ORDINARY = 62_000 + os.getpid() % 3_000  # its own: the kernel counts some things by user
STRANGER = 61_235


Notes = list[tuple[str, str]]  # kind, text
NOTES = pytest.StashKey[Notes]()


@pytest.fixture
def notes(pytestconfig: pytest.Config) -> Notes:
    """Observations that are no reason to fail."""
    return pytestconfig.stash.setdefault(NOTES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(NOTES, [])
    lags = [
        int(number) for kind, text in found if kind == "host" for number in re.findall(r"(\d+) ms late", text)
    ]
    if lags:
        terminalreporter.write_line(
            f"host under attack: loop at most {max(lags)} ms late, {len(lags)} times measured"
        )
    if config.get_verbosity() > 0:
        for kind, text in found:
            terminalreporter.write_line(f"{kind}: {text}")


class Gateway:
    """A process that opens jails, with the environment it needs."""

    def __init__(self, world: Path, *, uid: int) -> None:
        token = secrets.token_hex(16)
        self._pending: Counter[Ask] = Counter()
        self._answers: dict[Ask, dict[str, Any]] = {}
        self.world = world
        furnish(world, token, uid=uid)
        found = place()
        self.process = subprocess.Popen(
            [*found.as_user(uid), "-m", "tests.attacks.gateway", str(world), token],
            cwd=found.root,
            env=found.environment | {"GATEWAY_KEY": token, "HOME": str(world)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def plan(self, asks: list[Ask]) -> None:
        """Send all requests of the tests now, so that both gateways work all the time."""
        assert self.process.stdin
        self._pending.update(asks)
        for ask in asks:
            self.process.stdin.write(
                json.dumps(dict(zip(("name", "jailed", "control"), ask, strict=True))) + "\n"
            )
        self.process.stdin.flush()

    def ask(self, name: str, *, jailed: bool = True, control: bool = True) -> dict[str, Any]:
        wanted = (name, jailed, control)
        if wanted not in self._answers and not self._pending[wanted]:
            self.plan([wanted])
        while wanted not in self._answers:
            assert self.process.stdout
            line = self.process.stdout.readline()
            if not line:
                pytest.fail("the gateway died", pytrace=False)
            answer = json.loads(line)
            key = (answer["name"], answer["jailed"], answer["control"])
            self._pending[key] -= 1
            self._answers[key] = answer["answer"]
        answer = self._answers.pop(wanted)
        if "error" in answer:
            pytest.fail(answer["error"], pytrace=False)
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        if self._pending.total():  # no test needs the answer any more
            self.process.kill()
        self.process.stdin.close()
        try:
            self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        # Deep trees are part of the game, and Python's own way stumbles over them.
        subprocess.run(["chmod", "-R", "u+rwX", str(self.world)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(self.world)], check=False, capture_output=True)


def furnish(world: Path, token: str, *, uid: int) -> None:
    """Files on the host: the gateway's own, another session's, another user's, and some that all may read."""
    world.chmod(0o755)
    modes = {"gateway": 0o711, "neighbour": 0o755, "victims": 0o755, "shared": 0o777, "play": 0o755}
    for name, mode in {**modes, "stranger": 0o755}.items():
        (world / name).mkdir()
        (world / name).chmod(mode)
    files = {"gateway/key": 0o600, "neighbour/work": 0o644, "public": 0o666, "stranger/diary": 0o600}
    for name, mode in files.items():
        (world / name).write_text(token)
        (world / name).chmod(mode)
    shutil.copyfile("/usr/bin/id", world / "shared" / "id")
    (world / "shared" / "id").chmod(0o4755)
    (world / "shared" / "written").write_text("as it was")
    (world / "shared" / "written").chmod(0o666)
    if os.geteuid() == 0:
        for path in (world, *world.rglob("*")):
            os.chown(path, uid, uid)
        os.chown(world / "stranger" / "diary", STRANGER, STRANGER)
        os.chown(world / "shared" / "id", STRANGER, STRANGER)
        (world / "shared" / "id").chmod(0o4755)  # a chown takes the bit away


def asks_of(items: list[pytest.Item], user: str) -> list[Ask]:
    """The requests of the collected tests to the gateway of that user, in order."""
    asks: list[Ask] = []
    for item in items:
        given = getattr(item, "callspec", None)
        attack = given and next(
            (given.params[kind] for kind in ("probe", "bomb", "scene") if kind in given.params), None
        )
        if attack is None or item.get_closest_marker("skip") or item.get_closest_marker("serial"):
            continue  # what is serial is asked for by its test, when no gateway has anything else to do
        who = given.params["user"]
        if isinstance(attack, Probe) and attack.needs_root and who != "root":
            continue
        if isinstance(attack, Scene):
            jailed = control = True
        else:
            control = item.get_closest_marker("control") is not None
            jailed = not control
        if control and isinstance(attack, Probe) and attack.off.root:
            who = "root"
        if who == user:
            asks.append((attack.name, jailed, control))
    return asks


@pytest.fixture(scope="session")
def gateways(request: pytest.FixtureRequest) -> Iterator[dict[str, Gateway]]:
    """By the user they run as; root's exists only under root."""
    users = {"ordinary": os.geteuid()} if os.geteuid() else {"root": 0, "ordinary": ORDINARY}
    opened = {}
    try:
        for name, uid in users.items():
            opened[name] = Gateway(Path(tempfile.mkdtemp(prefix="hutch-attacks-")), uid=uid)
        if "PYTEST_XDIST_WORKER" not in os.environ:  # there, it is unknown which tests will be ours
            for name, gateway in opened.items():
                gateway.plan(asks_of(request.session.items, name))
        yield opened
    finally:
        for gateway in opened.values():
            gateway.close()
