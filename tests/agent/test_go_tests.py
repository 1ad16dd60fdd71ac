"""Go's own test runner in a real jail, with a module that has packages below its root."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.jail.policy import AGENT
from hutch.settings import schema
from tests.agent.run_setups import open_tool_env
from tests.ordinary_user import packages

GO = Path(packages()) / "go"
WITH_GO = replace(AGENT, readonly=(str(GO),), environment=(("PATH", f"{GO}/bin:/usr/bin:/bin"),))
FILES = {
    "go.mod": b"module example.com/calc\n\ngo 1.21\n",
    "add/add.go": b"package add\n\nfunc Add(a, b int) int { return a - b }\n",
    "add/add_test.go": b"""package add

import "testing"

func TestAdd(t *testing.T) {
	if Add(2, 3) != 5 {
		t.Errorf("got %d", Add(2, 3))
	}
}

func TestZero(t *testing.T) {}

func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) {})
	t.Error("after the subtests")
}

func TestPanic(t *testing.T) {
	if Add(2, 3) == 5 {
		panic("boom")
	}
}

func TestLater(t *testing.T) { t.Skip("later") }
""",
}
SUM = "package add\n\nfunc Add(a, b int) int { return a + b }\n"


@pytest.mark.anyio
@pytest.mark.long
async def test_go_tests_run_whole_and_single_and_name_what_failed(tmp_path: Path) -> None:
    # The first run compiles the library of Go for longer than this, and prints nothing. After its first line,
    # a busy machine may need seconds for the next one.
    options = SuiteOptions(silence_s=15, memory_bytes=schema.Tests().memory_bytes)
    async with open_tool_env(tmp_path, FILES, policy=WITH_GO, suite_options=options) as env:
        whole = await env.use("run_tests")
        single = await env.use("run_tests", tests=["example.com/calc/add.TestZero"])
        await env.use("write_file", path="add/add.go", content=SUM)
        panicked = await env.use("run_tests", tests=["example.com/calc/add.TestPanic"])
        await env.use("write_file", path="add/add.go", content=SUM.replace("a + b", "a + c"))
        broken = await env.use("run_tests")

    assert whole.text.splitlines()[0] == "2 failed, 4 passed, 1 skipped"
    assert "example.com/calc/add.TestAdd at add/add_test.go:7" in whole.text
    assert "example.com/calc/add.TestTable at add/add_test.go:16" in whole.text
    assert single.text.splitlines()[0] == "1 passed"
    assert "boom" in panicked.text and "add/add_test.go:21" in panicked.text
    assert not broken.data["tests"]["passed"]
    assert "add/add.go:3" in broken.text and "undefined: c" in broken.text
