"""Builds of layers: what they install, what they may not do, and what hostile scripts leave behind."""

import asyncio
import fcntl
import os
import shlex
import socket
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.environment.detection.node_projects import YARN_REGISTRY
from hutch.environment.layers.layer_build import build_layer
from hutch.environment.layers.layer_store import BuildFailure, LayerStore
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT
from tests.deadline import DEADLINE_S
from tests.environment.layers.layer_builds import build, built, make_request, make_store
from tests.environment.layers.registries import ADDRESS, add_npm_package, add_wheel, serving
from tests.node_installation import node_home, node_path, npm

pytestmark = pytest.mark.anyio

PIP = (
    "python3 -m venv .venv && .venv/bin/pip install -q --index-url http://{host}/simple "
    "--trusted-host {ip} {what}"
)
FETCH = (
    "python3 -c 'import urllib.request as r; "
    'print(r.urlopen("http://{host}/secret", timeout=10).read().decode())\''
)


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return make_store(tmp_path)


def temporary(store: LayerStore) -> list[str]:
    return [path.name for path in store.home.layers.iterdir() if path.name.startswith(".")]


async def test_python_packages_are_installed_from_an_allowed_registry(
    store: LayerStore, tmp_path: Path
) -> None:
    add_wheel(tmp_path / "index", "greeting", "1.0", {"greeting.py": "TEXT = 'hello'\n"})
    with serving(tmp_path / "index") as host:
        command = PIP.format(host=host, ip=ADDRESS, what="-r requirements.txt")
        request = make_request(command, inputs={"requirements.txt": "greeting==1.0\n"}, network=[host])
        layer, tree = await built(store, request)
    assert ".venv" in layer.roots
    assert not (tree / "requirements.txt").exists()  # the repository has it
    found = [path.read_text() for path in tree.glob(".venv/lib/*/site-packages/greeting.py")]
    assert found == ["TEXT = 'hello'\n"]
    assert not (tree / ".hutch-cache/tmp").exists()
    assert temporary(store) == []


async def test_node_packages_are_installed_from_an_allowed_registry(
    store: LayerStore, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with serving(index) as host:
        scripts = {"install": "node -e \"require('fs').writeFileSync('built', 'yes')\""}
        add_npm_package(index, host, "greeting", "1.0.0", {"index.js": "hello\n"}, scripts=scripts)
        request = make_request(
            f"{shlex.join(npm())} install --no-save --registry http://{host}/ --loglevel=error "
            "--foreground-scripts",
            inputs={"package.json": '{"name": "shop", "dependencies": {"greeting": "1.0.0"}}'},
            network=[host],
            policy=replace(AGENT, readonly=(str(node_home()),), environment=(("PATH", node_path()),)),
        )
        layer, tree = await built(store, request)
    assert "node_modules" in layer.roots
    assert (tree / "node_modules/greeting/index.js").read_text() == "hello\n"
    assert (tree / "node_modules/greeting/built").read_text() == "yes"


@pytest.mark.parametrize("is_listed", [False, True])
async def test_a_script_reaches_only_listed_hosts(store: LayerStore, tmp_path: Path, is_listed: bool) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index/secret").write_text("the content")
    with serving(tmp_path / "index") as host:
        command = FETCH.format(host=host)
        made = await build(store, make_request(command, network=[host] if is_listed else ["x.example"]))
    if is_listed:  # the attack works with the guard off
        assert not isinstance(made, BuildFailure)
        return
    assert isinstance(made, BuildFailure)
    assert [each.partition(" ")[0] for each in made.denied] == [f"{host}:"]
    assert "exit code 1" in made.reason


async def test_a_script_reaches_no_host_without_the_proxy(store: LayerStore) -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        port = server.getsockname()[1]
        command = f"python3 -c 'import socket; socket.create_connection((\"{ADDRESS}\", {port}), 5)'"
        made = await build(store, make_request(command, network=[f"{ADDRESS}:{port}"]))
        assert isinstance(made, BuildFailure)
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_script_cannot_write_outside(store: LayerStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    targets = (outside / "x", store.home.layers / "x", Path("/usr/local/x"), Path("/etc/x"))
    attack = ["/bin/sh", "-c", f"echo attack > {targets[0]}"]
    await asyncio.to_thread(subprocess.run, attack, check=True)  # it works with the guard off
    targets[0].unlink()
    command = "; ".join(f"echo attack > {target}" for target in targets)
    await built(store, make_request(f"{command}; echo end > made"))
    assert [target for target in targets if target.exists()] == []


async def test_the_build_sees_only_its_inputs(store: LayerStore) -> None:
    request = make_request(
        "find . -type f > /tmp/listed; cp /tmp/listed .", inputs={"a/requirements.txt": "x\n"}
    )
    _, tree = await built(store, request)
    assert (tree / "listed").read_text() == "./a/requirements.txt\n"


async def test_another_content_of_an_input_is_another_layer(store: LayerStore) -> None:
    """The attack: a branch changes the install script, and hopes for the layer of main."""
    command = "sh setup.sh"
    good, good_tree = await built(store, make_request(command, inputs={"setup.sh": "echo good > tool"}))
    bad, bad_tree = await built(store, make_request(command, inputs={"setup.sh": "echo bad > tool"}))
    assert good.key != bad.key
    assert ((good_tree / "tool").read_text(), (bad_tree / "tool").read_text()) == ("good\n", "bad\n")


LEFT_RUNNING = (
    "touch held; setsid flock held sleep 600 >/dev/null 2>&1 & while flock -n held true; do :; done"
)


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def test_no_process_of_a_build_lives_on(store: LayerStore, tmp_path: Path) -> None:
    """A process that survived would change the layer while sessions use it."""
    async with open_jail(tmp_path) as jail:  # the attack works as long as the jail is open
        await jail.run(["/bin/bash", "-c", LEFT_RUNNING])
        assert is_locked(tmp_path / "held")
    _, tree = await built(store, make_request(LEFT_RUNNING))
    assert not is_locked(tree / "held")


HOSTILE = r"""
mkfifo pipe
python3 - <<'EOF'
import os, socket
socket.socket(socket.AF_UNIX).bind("socket")
os.makedirs(".git/hooks"); open(".git/hooks/post-checkout", "w").write("attack")
open("plain", "w").write("x"); os.chmod("plain", 0o777)
for name in ("user.overlay.whiteout", "user.overlay.opaque", "user.overlay.redirect", "user.mine"):
    os.setxattr("plain", name, b"y")
os.makedirs("closed/inner"); open("closed/inner/file", "w").write("x"); os.chmod("closed/inner", 0)
os.chmod("closed", 0o1555)
os.symlink("/etc/passwd", "link"); os.symlink("..", "closed-link")
open("odd\n\x1b[31m", "w").write("x"); open(b"bad\xff", "w").write("x")
os.link("plain", "second")
os.unlink("input.txt"); os.mkdir("input.txt"); open("input.txt/attack", "w").write("x")
EOF
"""


async def test_hostile_leftovers_are_removed(store: LayerStore) -> None:
    layer, tree = await built(store, make_request(HOSTILE, inputs={"input.txt": "tracked\n"}))
    names = {os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")}
    assert not {b"pipe", b"socket", b".git", b"input.txt"} & names
    assert {b"plain", b"second", b"closed/inner/file", b"link", b"odd\n\x1b[31m", b"bad\xff"} <= names
    for path in [tree, *tree.rglob("*")]:
        about = path.lstat()
        assert os.listxattr(path, follow_symlinks=False) == []
        assert about.st_mode & 0o7000 == 0
        if stat.S_ISDIR(about.st_mode):
            assert about.st_mode & 0o700 == 0o700
    assert sorted(layer.dropped) == ["pipe", "socket"]
    assert (tree / "link").readlink() == Path("/etc/passwd")
    assert (tree / "plain").lstat().st_nlink == 2


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("for i in 1 2 3 4 5 6; do truncate -s 400M sparse$i; done", "environment.max_bytes"),
        ('python3 -c \'import os\nfor _ in range(900): os.mkdir("d"); os.chdir("d")\'', "200 levels"),
        ("exit 7", "exit code 7"),
        ("kill -9 $$", "signal 9"),
    ],
    ids=["sparse", "deep", "exit", "killed"],
)
async def test_a_build_that_fails_leaves_nothing(store: LayerStore, command: str, reason: str) -> None:
    request = make_request(f"echo some output; {command}")
    made = await build(store, request)
    assert isinstance(made, BuildFailure)
    assert reason in made.reason
    assert "some output" in made.last_lines
    assert (store.layers(), temporary(store)) == ([], [])
    assert "some output" in store.read_log(request.key[:12])


async def test_files_beyond_the_limit_stop_the_build(store: LayerStore) -> None:
    made = await build(store, make_request("dd if=/dev/zero of=large bs=1M count=200", max_bytes=8 << 20))
    assert isinstance(made, BuildFailure)
    assert store.layers() == []


async def test_an_optional_step_may_fail(store: LayerStore) -> None:
    _, tree = await built(store, make_request("exit 3", "echo made > made", optional=True))
    assert (tree / "made").exists()


async def test_a_cancelled_build_leaves_nothing(store: LayerStore) -> None:
    started = asyncio.Event()
    request = make_request("echo ready; sleep 600", timeout_s=600)
    building = asyncio.ensure_future(
        build_layer(store, request, lambda line: started.set() if line == "ready" else None)
    )
    async with asyncio.timeout(DEADLINE_S):
        await started.wait()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert (store.layers(), temporary(store)) == ([], [])


async def test_downloads_of_an_older_layer_are_copied_and_not_shared(store: LayerStore) -> None:
    command = "mkdir -p .hutch-cache/uv; echo old > .hutch-cache/uv/a"
    old, old_tree = await built(store, make_request(command))
    request = make_request("cat .hutch-cache/uv/a > seen; echo attack > .hutch-cache/uv/a")
    made = await build_layer(store, request, lambda line: None, old)
    assert not isinstance(made, BuildFailure)
    assert (store.home.layer(made.key) / "tree/seen").read_text() == "old\n"
    assert (old_tree / ".hutch-cache/uv/a").read_text() == "old\n"


async def test_the_reason_of_a_failure_has_the_cause_and_not_only_the_last_lines(store: LayerStore) -> None:
    usage = "for each in $(seq 60); do echo npm error --option $each; done"
    cause = "npm error Missing: rollup@4 from lock file"
    request = make_request(f"echo npm error code EUSAGE >&2; echo '{cause}' >&2; {usage}; exit 1")
    made = await build(store, request)
    assert isinstance(made, BuildFailure)
    assert "failed with exit code 1." in made.reason
    assert f"It printed: {cause}" in made.reason
    assert cause not in made.last_lines


async def test_only_places_of_dependencies_become_a_layer(store: LayerStore) -> None:
    """The attack: an install script adds instructions for the agent, and code that test runners load."""
    hostile = (
        "mkdir -p .venv/lib node_modules web/node_modules web/.claude docs assets/made; ln -s web vendor; "
        "for each in AGENTS.md conftest.py .venv/lib/a.py node_modules/a.js web/node_modules/b.js "
        "web/CLAUDE.md web/.claude/settings.json docs/x assets/made/y assets/z .pnp.cjs target; "
        "do echo 1 > $each; done"
    )
    request = make_request(hostile, inputs={"web/package.json": "{}"}, outputs=("assets/made",))
    layer, tree = await built(store, request)
    roots = (".hutch-cache", ".pnp.cjs", ".venv", "assets/made", "node_modules", "vendor", "web/node_modules")
    assert layer.roots == roots
    assert layer.dropped == (
        *("AGENTS.md", "assets/z", "conftest.py", "docs/", "target", "web/.claude/", "web/CLAUDE.md"),
    )
    assert sorted(path.name for path in tree.iterdir()) == [
        *(".hutch-cache", ".pnp.cjs", ".venv", "assets", "node_modules", "vendor", "web"),
    ]
    assert [path.name for path in (tree / "web").iterdir()] == ["node_modules"]


def test_yarn_downloads_from_the_registry_of_the_user_and_not_from_its_default(tmp_path: Path) -> None:
    lines = (
        "https://default.example/a/-/a-1.tgz",
        "https://default.example.org/b",
        "https://other.example/c",
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "yarn.lock").write_text("".join(f'  resolved "{line}"\n' for line in lines))
    (tmp_path / "bin/yarn").write_text('#!/bin/sh\necho "${npm_config_registry:-https://default.example}"\n')
    (tmp_path / "bin/yarn").chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "npm_config_registry": "https://mine.example/npm/"}
    subprocess.run(["/bin/bash", "-c", f"{YARN_REGISTRY} true"], cwd=tmp_path, env=env, check=True)
    changed = (tmp_path / "yarn.lock").read_text()
    assert (
        changed.split()
        == " ".join(
            f'resolved "{line}"' for line in ("https://mine.example/npm/a/-/a-1.tgz", *lines[1:])
        ).split()
    )
