"""Plans from the files of repositories: what is run, which files decide it, and what is left out."""

import json
import os
from pathlib import Path

import pytest

from hutch.environment.detection.plan_detection import detect

NPM_CI = "(if npm ci --dry-run >/dev/null; then npm ci; else npm install --no-save; fi)"


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        put(root, name, text)
    return root


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commands(root: Path) -> list[str]:
    return [step.command for step in detect(root).steps]


PYPROJECT = """
[project]
name = "demo-app"
version = "1.2"
dependencies = ["attrs>=23"]
[project.optional-dependencies]
test = ["pytest>=8"]
docs = ["sphinx"]
[project.scripts]
demo = "demo_app.cli:main"
[build-system]
requires = ["hatchling"]
[dependency-groups]
dev = ["ruff", {include-group = "lint"}]
lint = ["mypy"]
"""


def test_uv_lock_installs_without_the_project_and_links_it(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", PYPROJECT)
    put(tmp_path, "uv.lock", '[[package]]\nname = "demo-app"\nsource = { editable = "." }\n')
    put(tmp_path, "src/demo_app/__init__.py", "")
    plan = detect(tmp_path)
    assert plan.inputs == ("pyproject.toml", "uv.lock")
    assert plan.managers == ("uv",)
    assert plan.steps[1].command == "uv sync --frozen --no-install-workspace --extra test --group dev"
    assert "/workspace/src >" in plan.steps[3].command
    assert "demo_app-1.2.dist-info" in plan.steps[3].command
    assert plan.variables["UV_COMPILE_BYTECODE"] == "1"
    assert plan.session_variables["UV_NO_SYNC"] == "1"
    assert plan.session_variables["VIRTUAL_ENV"] == "/workspace/.venv"
    assert "/workspace/.venv/bin" in plan.path


def test_members_of_a_uv_workspace_are_inputs_of_its_root(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[project]\nname = "top"\n')
    put(tmp_path, "packages/one/pyproject.toml", '[project]\nname = "one"\nversion = "3"\n')
    lock = '[[package]]\nname = "one"\nsource = { editable = "packages/one" }\n'
    lock += '[[package]]\nname = "far"\nsource = { directory = "../far" }\n'
    put(tmp_path, "uv.lock", lock)
    plan = detect(tmp_path)
    assert plan.inputs == ("packages/one/pyproject.toml", "pyproject.toml", "uv.lock")
    assert "--no-install-package far" in plan.steps[1].command
    assert any("'far' lies outside the repository" in note for note in plan.notes)


def test_requirements_bring_the_files_that_they_include(tmp_path: Path) -> None:
    put(tmp_path, "requirements.txt", "-r deps/base.txt\n-c limits.txt\nflask\n")
    put(tmp_path, "requirements-dev.txt", "pytest\n")
    put(tmp_path, "requirements-docs.txt", "sphinx\n")
    put(tmp_path, "deps/base.txt", "attrs\n-r ../../outside.txt\n")
    put(tmp_path, "limits.txt", "flask<4\n")
    plan = detect(tmp_path)
    assert plan.inputs == ("deps/base.txt", "limits.txt", "requirements-dev.txt", "requirements.txt")
    assert commands(tmp_path) == [
        "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements-dev.txt -r requirements.txt"
    ]
    assert any(note.startswith("requirements-docs.txt: not installed") for note in plan.notes)


def test_local_requirements_are_left_out_of_the_build(tmp_path: Path) -> None:
    put(tmp_path, "requirements.txt", "-e .\n./vendored\nflask\n")
    plan = detect(tmp_path)
    assert "grep -hvE" in plan.steps[0].command
    assert any("'-e .' is local" in note for note in plan.notes)


def test_pyproject_without_a_lock_is_installed_by_pip(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", PYPROJECT)
    plan = detect(tmp_path)
    first = plan.steps[0]
    assert first.command.endswith("pip install 'attrs>=23' 'pytest>=8' ruff mypy")
    assert (first.source, first.manager) == ("pyproject.toml", "pip")
    assert plan.steps[1].command.endswith("pip install -q hatchling")
    assert plan.steps[1].is_optional


def test_poetry_installs_without_the_project(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[tool.poetry]\nname = "p"\n[tool.poetry.group.test]\noptional = true\n')
    assert detect(tmp_path).notes == ("pyproject.toml: there is no poetry.lock, so nothing is installed",)
    put(tmp_path, "poetry.lock", "")
    plan = detect(tmp_path)
    assert plan.steps[1].command == "poetry install --no-root --no-interaction --with test"
    assert plan.variables["POETRY_VIRTUALENVS_IN_PROJECT"] == "true"


def test_npm_ci_sees_the_manifests_of_all_members(tmp_path: Path) -> None:
    put(tmp_path, "package.json", json.dumps({"workspaces": ["packages/*", "!packages/old"]}))
    for name in ("a", "b", "old"):
        put(tmp_path, f"packages/{name}/package.json", json.dumps({"dependencies": {"x": "1"}}))
        put(tmp_path, f"packages/{name}/index.js", "")
    put(tmp_path, "package-lock.json", "{}")
    plan = detect(tmp_path)
    assert plan.steps[0].command == NPM_CI
    assert {"packages/a/package.json", "packages/b/package.json"} <= set(plan.inputs)
    assert "packages/a/index.js" not in plan.inputs


def test_own_scripts_are_not_run_but_those_of_dependencies_are(tmp_path: Path) -> None:
    put(tmp_path, "package.json", json.dumps({"scripts": {"prepare": "tsc"}, "dependencies": {"x": "1"}}))
    packages = {
        "": {"hasInstallScript": True},
        "node_modules/better-sqlite3": {"hasInstallScript": True},
        "node_modules/evil; rm -rf x": {"hasInstallScript": True},
        "node_modules/plain": {},
    }
    put(tmp_path, "package-lock.json", json.dumps({"packages": packages}))
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == [
        "(if npm ci --dry-run >/dev/null; then npm ci --ignore-scripts; "
        "else npm install --no-save --ignore-scripts; fi) && npm rebuild better-sqlite3"
    ]
    assert any("(prepare) are not run" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("lock", "text", "manager", "expected", "tool"),
    [
        ("pnpm-lock.yaml", "lockfileVersion: '6.0'\n", "", "pnpm install --frozen-lockfile", "pnpm@8"),
        ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n", "pnpm@9.4.1+sha", "pnpm install", "pnpm@9.4.1"),
        ("yarn.lock", "# yarn lockfile v1\n", "", "yarn install --frozen-lockfile", "yarn@1"),
        (
            "yarn.lock",
            "__metadata:\n  version: 8\n",
            "yarn@4.1.0",
            "yarn install --immutable",
            "cli-dist@4.1.0",
        ),
        ("yarn.lock", "__metadata:\n", "yarn@4; curl x", "yarn install --immutable", "cli-dist@4 "),
    ],
)
def test_other_node_managers_come_in_the_version_of_the_lock(
    tmp_path: Path, lock: str, text: str, manager: str, expected: str, tool: str
) -> None:
    put(tmp_path, "package.json", json.dumps({"packageManager": manager, "dependencies": {"x": "1"}}))
    put(tmp_path, lock, text)
    tools, install = commands(tmp_path)
    assert tool in f"{tools} "
    assert expected in install


def test_settings_of_npm_with_credentials_stay_out(tmp_path: Path) -> None:
    put(tmp_path, "package.json", '{"dependencies": {"x": "1"}}')
    put(tmp_path, "package-lock.json", "{}")
    put(tmp_path, ".npmrc", "//host.example/:_authToken=${NPM_TOKEN}\n")
    plan = detect(tmp_path)
    assert ".npmrc" not in plan.inputs
    assert any(note.startswith(".npmrc: not used") for note in plan.notes)
    put(tmp_path, ".npmrc", "legacy-peer-deps=true\n")
    assert ".npmrc" in detect(tmp_path).inputs


def test_package_json_without_lock_or_dependencies_installs_nothing(tmp_path: Path) -> None:
    put(tmp_path, "package.json", '{"name": "plain"}')
    assert detect(tmp_path).steps == ()
    put(tmp_path, "package.json", '{"devDependencies": {"x": "1"}}')
    assert commands(tmp_path) == ["npm install --no-package-lock"]


def test_go_keeps_its_caches_below_the_workspace(tmp_path: Path) -> None:
    put(tmp_path, "go.mod", "module x\nreplace y => ./libs/y\n")
    put(tmp_path, "go.sum", "")
    put(tmp_path, "libs/y/go.mod", "module y\n")
    put(tmp_path, "service/go.mod", "module z\n")
    plan = detect(tmp_path)
    assert plan.inputs == ("go.mod", "go.sum", "libs/y/go.mod", "service/go.mod")
    download, compiled = [step for step in plan.steps if step.command.startswith("cd /workspace/service && ")]
    assert download.command == "cd /workspace/service && go mod download"
    assert ("go build testing " in compiled.command, compiled.is_optional) == (True, True)
    assert plan.variables["GOMODCACHE"].startswith("/workspace/")
    assert plan.variables["GOFLAGS"] == "-modcacherw"
    assert plan.session_variables["GOPROXY"] == "off"


def test_cargo_maven_and_bundler_are_found(tmp_path: Path) -> None:
    put(tmp_path, "rust/Cargo.toml", "[package]\n")
    put(tmp_path, "rust/Cargo.lock", "")
    put(tmp_path, "java/pom.xml", "<project/>")
    put(tmp_path, "java/module/pom.xml", "<project/>")
    put(tmp_path, "ruby/Gemfile", "")
    put(tmp_path, "ruby/Gemfile.lock", "GEM\n  remote: https://gems.example.org/\n")
    put(tmp_path, "ruby/x.gemspec", "")
    put(tmp_path, "ruby/lib/x/version.rb", "")
    plan = detect(tmp_path)
    assert plan.managers == ("cargo", "maven", "bundler")
    assert plan.hosts == ("gems.example.org",)
    assert "java/module/pom.xml" in plan.inputs
    assert "ruby/lib/x/version.rb" in plan.inputs
    assert len(plan.steps) == 3


def test_dependencies_and_fixtures_of_a_repository_are_not_its_projects(tmp_path: Path) -> None:
    for folder in ("node_modules/x", "tests/fixtures/app", "vendor/y", ".venv/lib"):
        put(tmp_path, f"{folder}/package.json", '{"dependencies": {"x": "1"}}')
        put(tmp_path, f"{folder}/requirements.txt", "x")
    assert detect(tmp_path).steps == ()


def test_links_and_odd_files_do_not_exist_for_detection(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside, "requirements.txt", "secret-package\n")
    put(outside, "sub/requirements.txt", "secret-package\n")
    root = tmp_path / "repository"
    root.mkdir()
    (root / "requirements.txt").symlink_to(outside / "requirements.txt")
    (root / "sub").symlink_to(outside / "sub")
    os.mkfifo(root / "uv.lock")
    os.mkfifo(root / "go.mod")
    put(root, "$(touch x)/go.mod", "module x")
    put(root, "a'b/go.mod", "module x")
    assert detect(root).steps == ()


def test_huge_and_broken_manifests_are_empty(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", "[" * 100_000)
    put(tmp_path, "package.json", '{"a":' * 100_000)
    put(tmp_path, ".devcontainer/devcontainer.json", "[" * 100_000)
    bomb = "a: &a [x,x]\n" + "".join(f"b{i}: &b{i} [*a,*a]\n" for i in range(50))
    put(tmp_path, "pnpm-workspace.yaml", bomb)
    put(tmp_path, ".github/workflows/copilot-setup-steps.yml", bomb)
    put(tmp_path, "mise.toml", f"{'a.' * 100_000}a = 1\n")
    with (tmp_path / "package-lock.json").open("wb") as file:
        file.truncate(1 << 40)
    assert [step.command for step in detect(tmp_path).steps] in ([], [NPM_CI])


def test_a_tree_of_many_files_is_cut(tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(20_100):
        os.close(os.open(many / str(number), os.O_CREAT | os.O_WRONLY))
    put(tmp_path, "requirements.txt", "x\n")
    plan = detect(tmp_path)
    assert len(plan.steps) == 1
    assert any("Only the first 20000" in note for note in plan.notes)


def test_requirements_in_a_manifest_cannot_be_options_or_paths(tmp_path: Path) -> None:
    wanted = ["--index-url=https://evil.example", "x @ file:///etc", "./local", "$(id)", "good; extra == 'x'"]
    put(tmp_path, "pyproject.toml", f'[project]\nname = "x"\ndependencies = {json.dumps(wanted)}\n')
    plan = detect(tmp_path)
    assert plan.steps[0].command.endswith("""pip install 'good; extra == '"'"'x'"'"''""")
    assert len(plan.notes) == 4


def test_names_in_a_manifest_cannot_leave_the_link_of_the_project(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\nversion = "1; id"\ndependencies = ["y"]\n'
    project += '[project.scripts]\n"../../evil" = "m:f"\nfine = "m:f"\nbad = "m:f(__import__)"\n'
    put(tmp_path, "pyproject.toml", project)
    link = detect(tmp_path).steps[-1].command
    assert "evil" not in link
    assert "__import__" not in link
    assert "; id" not in link
    assert ".venv/bin/fine" in link
