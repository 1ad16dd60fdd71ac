"""Real runners in a real jail."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.repository_testing.runner_definition import Runner, with_words
from hutch.agent.repository_testing.runner_detection import detect
from hutch.agent.repository_testing.test_results import SHOWN_CHARS, is_missing
from hutch.agent.repository_testing.test_run_in_jail import OUTPUT, run_tests
from hutch.agent.repository_testing.test_selection import Selection, select
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.domain.errors import NotFound
from hutch.domain.redaction import Redactor
from hutch.jail.policy import AGENT
from tests.agent.run_setups import BROKEN, open_tool_env
from tests.node_installation import node_home, node_path
from tests.ordinary_user import packages

PACKAGES = packages()
WITH_PYTEST = replace(AGENT, readonly=(PACKAGES,), environment=(("PYTHONPATH", PACKAGES),))
WITH_NODE = replace(AGENT, readonly=(str(node_home()),), environment=(("PATH", node_path()),))
PYTEST = {
    "pytest.ini": b"[pytest]\n",
    "adding.py": b"def add(a, b):\n    return a - b\n",
    "tests/test_adding.py": (
        b"import pytest\nfrom adding import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
        b"def test_zero():\n    assert add(0, 0) == 0\n\n\n@pytest.mark.skip\ndef test_later():\n    pass\n"
    ),
    "conftest.py": b"",
}
NODE = {
    "package.json": b'{"scripts": {"test": "node --test"}}',
    "add.test.js": (
        b"const test = require('node:test');\nconst assert = require('node:assert');\n"
        b"test('adds', () => {\n  assert.strictEqual(2 - 3, 5);\n});\n"
        b"test.describe('group', () => { test.it('inner', () => {}); });\n"
        b"test('later', { skip: true }, () => {});\n"
    ),
}
anyio = pytest.mark.anyio


@anyio
async def test_no_half_of_a_secret_is_left_where_a_failure_is_cut(tmp_path: Path) -> None:
    key = "sk-ant-" + "K3y" * 20
    message = "." * (int(SHOWN_CHARS * 0.6) - len("AssertionError: ") - 10) + key + "." * 5000
    test = f"import unittest\nclass T(unittest.TestCase):\n    def test_x(self): self.fail({message!r})\n"
    async with open_tool_env(tmp_path, {"test_x.py": test.encode()}) as env:
        env.redact(Redactor())
        result = await env.use("run_tests")
    assert "characters omitted" in result.text and "[redact" in result.text
    assert "K3y" not in result.text and "sk-ant" not in result.text


@anyio
async def test_a_unittest_failure_begins_with_the_assertion_and_its_location(tmp_path: Path) -> None:
    more = (
        b"    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
        b"    @unittest.skip('no')\n    def test_x(self):\n        pass\n"
    )
    files = BROKEN | {"test_adding.py": BROKEN["test_adding.py"] + more}
    async with open_tool_env(tmp_path, files) as env:
        result = await env.use("run_tests")
        one = await env.use("run_tests", arguments="test_adding.Adding.test_zero")
    lines = result.text.splitlines()
    assert lines[0] == "1 failed, 1 passed, 1 skipped"
    assert lines[1].startswith("(unittest: python3 -m unittest, ")
    assert lines[3:6] == [
        "FAILED test_adding.Adding.test_add at test_adding.py:8",
        "AssertionError: -1 != 5",
        '  File "test_adding.py", line 8, in test_add',
    ]
    tests = result.data["tests"]
    assert (tests["ok"], tests["passed"], tests["failed"], tests["skipped"]) == (False, 1, 1, 1)
    assert (one.text.splitlines()[0], one.data["partial"]) == ("1 passed", True)


@anyio
async def test_unittest_finds_tests_in_a_directory_that_is_no_package(tmp_path: Path) -> None:
    files = {
        "adding.py": b"def add(a, b):\n    return a + b\n",
        "tests/test_adding.py": BROKEN["test_adding.py"],
    }
    async with open_tool_env(tmp_path, files) as env:
        result = await env.use("run_tests")
    assert result.text.splitlines()[0] == "1 passed"


@anyio
async def test_pytest_in_the_jail(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, PYTEST, policy=WITH_PYTEST) as env:
        result = await env.use("run_tests")
        some = await env.use("run_tests", arguments="tests/test_adding.py::test_zero")
        none = await env.use("run_tests", arguments="-k nothing_like_it")
        quit_ = await env.use("write_file", path="conftest.py", content="import os\nos._exit(0)\n")
        early = await env.use("run_tests")
    assert quit_.ok
    lines = result.text.splitlines()
    assert lines[0] == "1 failed, 1 passed, 1 skipped"
    assert lines[3:5] == ["FAILED tests.test_adding.test_add at tests/test_adding.py:6", "assert -1 == 5"]
    assert some.text.splitlines()[0] == "1 passed"
    assert none.text.startswith("No test was run") and not none.data["tests"]["ok"]
    # It exits with 0 and proves nothing.
    assert "without a readable report" in early.text and not early.data["tests"]["ok"]


@anyio
async def test_a_missing_pytest_is_reported_with_a_remedy(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, PYTEST) as env:
        result = await env.use("run_tests")
    assert not result.data["tests"]["ok"]
    assert result.text.startswith("The tests failed with exit code 1.")
    assert "pytest is not installed in the jail. Install it into a .venv of the workspace" in result.text


@anyio
@pytest.mark.parametrize("name", ["Jest", "Vitest"])
async def test_a_missing_node_runner_is_reported_at_once(tmp_path: Path, name: str) -> None:
    package = f'{{"devDependencies": {{"{name.lower()}": "^2"}}}}'.encode()
    async with open_tool_env(tmp_path, {"package.json": package}) as env:
        result = await env.use("run_tests")
    tests = result.data["tests"]
    assert result.text.startswith("The tests failed with exit code 127.")
    assert f"{name} is not installed in the workspace. Install the packages of package.json" in result.text
    assert tests["reason"].startswith(f"The tests cannot be run: {name} is not in the jail")
    assert f"sudo npm install -g {name.lower()}" in tests["reason"] and is_missing(tests["reason"])


@anyio
async def test_the_repositorys_own_runner_is_found_from_a_subdirectory(tmp_path: Path) -> None:
    jest = (
        b"#!/bin/sh\nfor word; do case $word in --outputFile=*) "
        b"""echo '{"testResults": [{"assertionResults": [{"status": "passed"}]}]}' > "${word#*=}"\n"""
        b";; esac; done\n"
    )
    files = {"package.json": b'{"devDependencies": {"jest": "^29"}}', "node_modules/.bin/jest": jest}
    async with open_tool_env(tmp_path, files) as env:
        await env.context.jail.run(["chmod", "+x", "node_modules/.bin/jest"])
        above = await env.use("run_tests")
        await env.context.jail.run(["mkdir", "-p", "packages/one"])
        runner = detect(lambda path: files.get(path), ["package.json"])
        below = await run_tests(env.context.jail, runner, cwd="packages/one")
    assert above.text.splitlines()[0] == "1 passed"
    assert below.ok


@anyio
async def test_node_in_the_jail(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, NODE, policy=WITH_NODE) as env:
        result = await env.use("run_tests")
    lines = result.text.splitlines()
    assert lines[0] == "1 failed, 1 passed, 1 skipped"
    assert lines[3:5] == ["FAILED adds at add.test.js:4", "Expected values to be strictly equal:"]
    assert "node:internal" not in result.text


@anyio
async def test_tests_over_their_timeout_keep_their_output(tmp_path: Path) -> None:
    options = SuiteOptions(command="echo so far; sleep 600")  # a shell prints at once, Python needs to start
    async with open_tool_env(tmp_path, BROKEN, suite_options=options) as env:
        result = await env.use("run_tests", timeout_s=3)
    assert result.text.startswith("The tests took too long and were stopped.")
    assert "so far" in result.text and not result.data["tests"]["ok"]


@anyio
@pytest.mark.parametrize(
    ("command", "first", "ok"),
    [
        ("echo '2 passed in 0.1s'", "2 passed", True),
        (
            "echo '2 passed in 0.1s'; exit 3",
            "2 passed, but the runner ended with exit code 3: not",
            False,
        ),
        ("echo '1 failed, 2 passed in 0.1s'", "1 failed, 2 passed", False),
        ("echo 'no tests ran in 0.1s'", "No test was run (0 passed), so nothing is proven.", False),
        ("echo fine", "The test command succeeded; it reports no counts.", True),
        ("echo bad >&2; false", "The tests failed with exit code 1.", False),
        ("kill -9 $$", "The tests failed with exit code 137.", False),
    ],
)
async def test_a_command_from_the_settings(tmp_path: Path, command: str, first: str, ok: bool) -> None:
    async with open_tool_env(tmp_path, BROKEN, suite_options=SuiteOptions(command=command)) as env:
        result = await env.use("run_tests")
    assert result.text.startswith(first)
    assert (result.data["tests"]["ok"], result.data["tests"]["command"]) == (ok, command)


@anyio
async def test_the_model_reads_which_suite_was_not_run(tmp_path: Path) -> None:
    files = {
        "Cargo.toml": b"",
        "test_a.py": b"import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n",
    }
    async with open_tool_env(tmp_path, files) as env:
        result = await env.use("run_tests")
    assert result.text.startswith("1 passed. Not run, since the runner is missing: cargo test.\n")
    assert "cargo test: cargo is needed to run these tests." in result.text
    assert result.data["tests"]["ok"] and "cargo is needed" in result.data["tests"]["reason"]


NEEDS_MEMORY = "python3 -c 'bytearray(800 << 20); print(1)'"


@anyio
async def test_the_limit_of_memory_is_a_setting_and_is_named(tmp_path: Path) -> None:
    async with open_tool_env(
        tmp_path, BROKEN, suite_options=SuiteOptions(command=NEEDS_MEMORY, memory_bytes=64 << 20)
    ) as env:
        result = await env.use("run_tests")
        env.context = replace(
            env.context, suite_options=SuiteOptions(command=NEEDS_MEMORY, memory_bytes=1 << 30)
        )
        enough = await env.use("run_tests")
    output = "Memory ran out. The limit is tests.memory_bytes (64 MiB for all processes together): use less"
    assert output in result.text
    assert result.data["tests"]["reason"].startswith(output)
    assert enough.data["tests"]["ok"]


@anyio
async def test_the_limit_of_memory_is_named_for_node_too(tmp_path: Path) -> None:
    eats = (
        b"const kept = [];\nrequire('node:test')('eats', () => {\n"
        b"  for (let i = 0; i < 90; i++) kept.push(Buffer.alloc(10 << 20, 1));\n});\n"
    )
    files = {"package.json": NODE["package.json"], "a.test.js": eats}
    async with open_tool_env(
        tmp_path, files, policy=WITH_NODE, suite_options=SuiteOptions(memory_bytes=128 << 20)
    ) as env:
        result = await env.use("run_tests")
    output = "Memory ran out. The limit is tests.memory_bytes (128 MiB for all processes together): use less"
    assert result.data["tests"]["reason"].startswith(output), (result.text, result.data)


@anyio
async def test_memory_in_the_output_of_tests_that_pass_is_no_problem(tmp_path: Path) -> None:
    async with open_tool_env(
        tmp_path, BROKEN, suite_options=SuiteOptions(command="echo MemoryError was raised")
    ) as env:
        result = await env.use("run_tests")
    assert result.data["tests"]["ok"] and "Memory ran out" not in result.text


@anyio
async def test_a_commands_output_is_saved(tmp_path: Path) -> None:
    command = "printf '\\033[31mfirst\\033[0m\\n'; seq 5000; echo last; false"
    async with open_tool_env(tmp_path, BROKEN, suite_options=SuiteOptions(command=command)) as env:
        result = await env.use("run_tests")
        line = await env.use("bash", command=f"sed -n 2501p {OUTPUT}")
        words = await env.use("run_tests", arguments="'a b' c")
    assert "\nfirst\n1\n" in result.text and "\nlast\n" in result.text and len(result.text) < 3000
    assert f"The output is in {OUTPUT}" in result.text and line.text == "2500"
    assert words.data["tests"]["command"] == f"{command} 'a b' c"


@anyio
async def test_an_old_report_is_not_used(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, BROKEN) as env:
        await env.use("run_tests")
        await env.use("bash", command="echo 'import os, unittest; os._exit(0)' > test_adding.py")
        result = await env.use("run_tests")
    assert "no pass is proven" in result.text and not result.data["tests"]["ok"]


PASSED = '<testsuite><testcase classname="a" name="b"/></testsuite>'


@anyio
@pytest.mark.parametrize(
    "trick",
    [
        f"echo '{PASSED}' > /tmp/other; ln -s /tmp/other /tmp/hutch-tests.report",
        f"mkfifo /tmp/hutch-tests.report; (echo '{PASSED}' > /tmp/hutch-tests.report) &",
    ],
    ids=["link", "fifo"],
)
async def test_a_report_must_be_a_regular_file(tmp_path: Path, trick: str) -> None:
    code = f"import os, unittest\nos.system({trick!r})\nos._exit(0)\n"
    async with open_tool_env(tmp_path, {"test_x.py": code.encode()}) as env:
        result = await env.use("run_tests")
    assert "without a readable report" in result.text and not result.data["tests"]["ok"]


@anyio
async def test_a_giant_report_is_ignored(tmp_path: Path) -> None:
    forged = (
        b"import os\nwith open('/tmp/hutch-tests.report', 'w') as file:\n    file.write('<s>')\n"
        b"    for _ in range(50):\n        file.write('<testcase/>' * 100_000)\nos._exit(0)\n"
    )
    async with open_tool_env(tmp_path, {"test_x.py": b"import unittest\n" + forged}) as env:
        result = await env.use("run_tests")
    assert "larger than 32 MiB" in result.text


@anyio
async def test_arguments_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, BROKEN) as env:
        result = await env.use("run_tests", arguments="'open")
    assert not result.ok and "Check the quotes" in result.text


def found(files: dict[str, bytes], command: str | None = None) -> Runner:
    return detect(files.get, sorted({*files, *(name.split("/")[0] for name in files)}), command=command)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"package.json": b'{"devDependencies": {"vitest": "^2"}}'}, "Vitest"),
        ({"package.json": b'{"devDependencies": {"jest": "^29"}}'}, "Jest"),
        ({"package.json": b'{"scripts": {"test": "jest --ci"}}'}, "Jest"),
        ({"package.json": b'{"scripts": {"test": "node --test"}}'}, "node:test"),
        ({"package.json": b"{}", "a.test.mjs": b""}, "node:test"),
        ({"package.json": b'{"scripts": {"test": "mocha"}}'}, "npm test"),
        ({"package.json": b"{", "test_a.py": b"import unittest"}, "unittest"),
        ({"package.json": b"[]", "test_a.py": b"def test_a(): pass"}, "pytest"),
        ({"package.json": b'{"scripts": {"test": "echo no test specified"}}', "go.mod": b""}, "go test"),
        ({"Cargo.toml": b""}, "cargo test"),
        ({"pyproject.toml": b"[tool.pytest.ini_options]\n", "tests/test_a.py": b"import unittest"}, "pytest"),
        ({"pyproject.toml": b"= broken", "test_a.py": b"import unittest"}, "unittest"),
        ({"tests/conftest.py": b""}, "pytest"),
        ({"setup.cfg": b"[tool:pytest]\n"}, "pytest"),
    ],
)
def test_the_runner_is_detected_from_files(files: dict[str, bytes], name: str) -> None:
    assert found(files).name == name


def test_without_tests_the_error_has_a_remedy() -> None:
    with pytest.raises(NotFound, match=r"set tests\.command in \.hutch/config\.toml"):
        found({"readme.md": b""})


def test_arguments_replace_the_selection_of_all_tests() -> None:
    go = found({"go.mod": b""})
    assert (go.words[-1], with_words(go, ["./x"]).words) == ("./...", ("go", "test", "-json", "./x"))
    python = found({".venv": b"", "test_a.py": b"import unittest"})
    assert python.words[0] == ".venv/bin/python" and python.words[-1] == "discover"
    assert with_words(python, ["test_a"]).words[-1] == "test_a"
    assert str(with_words(python, ["test_a"])) == ".venv/bin/python -m unittest test_a"


def test_a_configured_command_of_a_known_runner_is_recognised() -> None:
    assert found({}, f"{sys.executable} -m pytest -x tests").reader == "pytest"
    assert found({}, "go test -race ./...").reader == "go"
    assert found({}, "pytest | tee out").reader == "summary"
    assert found({}, "make test").words == ("/bin/bash", "-c", "make test")


@anyio
async def test_no_part_of_a_secret_is_shown_where_a_long_failure_is_cut(tmp_path: Path) -> None:
    value = "Zq7-KvRwtE93kxl"
    test = (
        f"import unittest\nclass T(unittest.TestCase):\n    def test_x(self): self.fail('{value}' * 2000)\n"
    )
    flood = f"print('{value}' * 300000)\nraise SystemExit(1)\n"
    redactor = Redactor([value])
    async with open_tool_env(tmp_path, {"test_x.py": test.encode(), "flood.py": flood.encode()}) as env:
        env.redact(redactor)
        failed = await env.use("run_tests")
        env.context = replace(env.context, suite_options=SuiteOptions(command="python3 flood.py"))
        flooded = await env.use("run_tests")
    for result in (failed, flooded):
        assert "characters omitted" in result.text and "[redacted:secret]" in result.text
        shown = f"{result.text} {result.data}"
        assert not any(value[at : at + 4] in shown for at in range(len(value) - 3)), shown


@anyio
async def test_pytest_runs_single_files_and_tests_and_names_their_places(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, PYTEST, policy=WITH_PYTEST) as env:
        one = await env.use("run_tests", tests=["tests/test_adding.py::test_zero"])
        named = await env.use("run_tests", tests=["test_zero"])
        file = await env.use("run_tests", files=["tests/test_adding.py"])
        both = await env.use("run_tests", files=["tests"], arguments="-x")
        report = await env.context.repository_tests.run(await env.context.repository_tests.suites())
    assert [result.text.splitlines()[0] for result in (one, named)] == ["1 passed", "1 passed"]
    assert file.text.startswith("1 failed, 1 passed, 1 skipped")
    assert not both.ok and "Give either arguments" in both.text
    assert report.counts is not None
    assert [(case.name, case.file, case.line, case.selector) for case in report.counts.cases] == [
        ("tests.test_adding.test_add", "tests/test_adding.py", 6, "tests/test_adding.py::test_add"),
        ("tests.test_adding.test_zero", "tests/test_adding.py", 9, "tests/test_adding.py::test_zero"),
        ("tests.test_adding.test_later", "tests/test_adding.py", 13, "tests/test_adding.py::test_later"),
    ]


@anyio
async def test_node_runs_single_files_and_tests(tmp_path: Path) -> None:
    files = NODE | {"sub.test.js": b"const test = require('node:test');\ntest('other', () => {});\n"}
    async with open_tool_env(tmp_path, files, policy=WITH_NODE) as env:
        file = await env.use("run_tests", files=["sub.test.js"])
        inner = await env.use("run_tests", tests=["group > inner"])
    assert file.text.splitlines()[0] == "1 passed"
    assert inner.data["tests"]["failed"] == 0 and inner.data["tests"]["passed"] >= 1


@anyio
async def test_build_tools_that_write_reports_are_read_in_every_module(tmp_path: Path) -> None:
    """A script stands for Maven; the reports are as Surefire writes them."""
    wrapper = (
        "#!/bin/sh\nfor m in a b; do mkdir -p $m/target/surefire-reports\n"
        "echo \"<testsuite><testcase classname='org.x.${m}Test' name='adds' time='0.1'/></testsuite>\""
        ' > $m/target/surefire-reports/TEST-org.x.${m}Test.xml; done\necho "$@"\n'
    )
    async with open_tool_env(tmp_path, {"pom.xml": b"<project/>"}) as env:
        await env.use("bash", command=f"cat > mvnw <<'E'\n{wrapper}E\nchmod +x mvnw")
        result = await env.use("run_tests")
        one = await env.use("run_tests", tests=["org.x.aTest.adds"])
    assert result.text.splitlines()[:2][0] == "2 passed"
    assert one.data["tests"]["command"] == "./mvnw test '-Dtest=org.x.aTest#adds'"


TWO = (
    b"import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_ab(self): pass\n"
)
ALIKE = {
    "test_m.py": TWO,
    "x/test_m.py": TWO,
    "x/__init__.py": b"",
    "test_broken.py": b"import unittest\nimport nothing_of_this_name\n",
}


@anyio
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"tests": ["test_m.T.test_a"]}, ["test_m.T.test_a"]),
        ({"tests": ["x.test_m.T"]}, ["x.test_m.T.test_a", "x.test_m.T.test_ab"]),
        ({"tests": ["T.test_a"]}, ["test_m.T.test_a", "x.test_m.T.test_a"]),
        ({"files": ["x/test_m.py"]}, ["x.test_m.T.test_a", "x.test_m.T.test_ab"]),
        ({"files": ["x"]}, ["x.test_m.T.test_a", "x.test_m.T.test_ab"]),
        ({"files": ["test_broken.py"]}, ["unittest.loader._FailedTest.test_broken"]),
        ({"tests": ["test_broken.T.test_a"]}, ["unittest.loader._FailedTest.test_broken"]),
    ],
)
async def test_unittest_runs_exactly_the_selected_tests(
    tmp_path: Path, options: dict[str, list[str]], names: list[str]
) -> None:
    async with open_tool_env(tmp_path, ALIKE) as env:
        selection = Selection(**{name: tuple(values) for name, values in options.items()})
        tests = env.context.repository_tests
        report = await tests.run(select(await tests.suites(), selection))
    assert report.counts is not None
    assert [case.name for case in report.counts.cases] == names


def _suite(*cases: str, claims: str = "") -> bytes:
    return f"<testsuite {claims}>{''.join(cases)}</testsuite>".encode()


@anyio
@pytest.mark.parametrize(
    ("write", "reason"),
    [
        ("seq -f r/%g.xml 5001 | xargs touch", "more than 5,000 files match r/**/*.xml"),
        ("echo '<!DOCTYPE x []><testsuite/>' > r/a.xml", "it declares a document type"),
        ("echo '<testsuite>' > r/a.xml", "it is not valid XML"),
        ("echo words > r/a.xml", "neither JUnit XML nor TAP"),
        ("true", "no file that the tests have written matches r/**/*.xml"),
        ("cp claims.xml r/", "the report claims 3 failures and lists none"),
        ("printf '1..50\\nok 1 - a\\n' > r/a.xml", "names 50 tests, and it lists 1"),
    ],
)
async def test_a_report_that_proves_no_pass_is_none_and_says_why(
    tmp_path: Path, write: str, reason: str
) -> None:
    case = "<testcase name='a'/>"
    files = {"ok.xml": _suite(case), "claims.xml": _suite(case, claims="tests='10' failures='3'")}
    async with open_tool_env(tmp_path, files) as env:
        env.context = replace(
            env.context,
            suite_options=SuiteOptions(
                command=f"mkdir -p r; touch ok.xml claims.xml; {write}", report="r/**/*.xml"
            ),
        )
        result = await env.use("run_tests")
    assert result.data["tests"]["ok"] is False
    assert reason in result.data["tests"]["reason"], result.text


@anyio
async def test_a_thousand_reports_are_all_read(tmp_path: Path) -> None:
    command = (
        "mkdir -p r; for i in $(seq 999); do "
        "echo '<testsuite><testcase name=\"a\"/></testsuite>' > r/$i.xml; done;"
        "echo '<testsuite><testcase name=\"z\"><failure/></testcase></testsuite>' > r/z.xml"
    )
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        env.context = replace(env.context, suite_options=SuiteOptions(command=command, report="r/**/*.xml"))
        result = await env.use("run_tests")
    assert (result.data["tests"]["total"], result.data["tests"]["failed"]) == (1000, 1)


@anyio
@pytest.mark.parametrize("report", ["/etc/passwd", "../../etc/*", "a/../../b.xml"])
async def test_reports_outside_of_the_workspace_are_refused(tmp_path: Path, report: str) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        env.context = replace(env.context, suite_options=SuiteOptions(command="true", report=report))
        result = await env.use("run_tests")
    assert not result.ok and "tests.report is" in result.text and "no path in the workspace" in result.text


@anyio
async def test_places_outside_of_the_workspace_are_dropped(tmp_path: Path) -> None:
    cases = "".join(
        f"<testcase name='{name}' file='{file}' line='3'/>"
        for name, file in {"a": "../../../etc/passwd", "b": "/etc/passwd", "c": "x/../t.py"}.items()
    )
    async with open_tool_env(tmp_path, {"in.xml": _suite(cases)}) as env:
        env.context = replace(
            env.context, suite_options=SuiteOptions(command="cat in.xml > out.xml", report="out.xml")
        )
        tests = env.context.repository_tests
        report = await tests.run(await tests.suites())
    assert report.counts is not None
    assert [(case.file, case.line) for case in report.counts.cases] == [("", 0), ("", 0), ("t.py", 3)]
