"""The commands that install the packages of Node projects, with a real npm."""

import json
import shlex
import subprocess
from pathlib import Path

from hutch.environment.detection.plan_detection import detect
from tests.node_installation import npm


def test_npm_install_replaces_npm_ci_only_for_a_lock_file_that_npm_refuses(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    called, closed = tmp_path / "called", "http://127.0.0.1:9/"  # no registry
    (tmp_path / "bin/npm").write_text(f'#!/bin/sh\necho "$*" >> {called}\nexec {shlex.join(npm())} "$@"\n')
    (tmp_path / "bin/npm").chmod(0o755)
    root = tmp_path / "repo"
    wanted = {"dependencies": {"x": "1.0.0"}}
    root.mkdir()
    (root / "package.json").write_text(json.dumps(wanted))
    locked = {"version": "1.0.0", "resolved": f"{closed}x/-/x-1.0.0.tgz", "integrity": "sha512-AAAA"}
    options = {"registry": closed, "cache": str(tmp_path / "cache"), "fetch_retries": "0", "audit": "false"}
    environment = {f"npm_config_{name}": value for name, value in options.items()}
    environment |= {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    for packages in ({"": wanted, "node_modules/x": locked}, {"": {}}):
        lock = {"lockfileVersion": 3, "packages": packages}
        (root / "package-lock.json").write_text(json.dumps(lock))
        [step] = detect(root).steps
        assert subprocess.run(["sh", "-c", step.command], cwd=root, env=environment).returncode != 0
    assert called.read_text().splitlines() == [
        *("ci --dry-run", "ci"),
        *("ci --dry-run", "install --no-save"),
    ]


def test_only_hosts_of_packages_count_not_those_of_funding_pages(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": {"x": "1"}}))
    about = {
        "version": "1.0.0",
        "resolved": "https://registry.example.org/x/-/x-1.0.0.tgz",
        "funding": [{"url": "https://opencollective.example.org/x"}, {"url": "https://tidelift.example.org"}],
    }
    lock = {"lockfileVersion": 3, "packages": {"": {}, "node_modules/x": about}}
    for text in (json.dumps(lock), json.dumps(lock, indent=2)):
        (tmp_path / "package-lock.json").write_text(text)
        assert detect(tmp_path).hosts == ("registry.example.org",)
