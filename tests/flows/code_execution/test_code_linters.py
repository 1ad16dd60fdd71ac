"""The real linter of each language finds a fault in a jail, whatever the code says to silence it."""

from pathlib import Path

import pytest

from hutch.domain.given_code_test_case import Language
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_limits_and_results import ExecutionLimits
from tests.deadline import DEADLINE_S
from tests.flows.code_execution.shared_executor import CACHE, as_files

pytestmark = pytest.mark.anyio
WEB = Path(__file__).parents[3] / "web"  # its node_modules has eslint and tsc

# Code with one fault, which a comment and a configuration try to silence; the fault, and the linter.
SAMPLES: dict[Language, tuple[dict[str, str], tuple[str, int, str], str]] = {
    "python": (
        {
            "a.py": "# ruff: noqa\nimport os  # noqa\n",
            "ruff.toml": 'exclude = ["*"]\n',
            "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\n',
        },
        ("a.py", 2, "F401"),
        "ruff",
    ),
    "javascript": (
        {
            "a.js": "/* eslint-disable */\nexport function f(a) { return a == 1; }\n",
            "eslint.config.js": "process.exit(0);\n",
            "package.json": '{"type": "module"}\n',
        },
        ("a.js", 2, "eqeqeq"),
        "eslint",
    ),
    "typescript": (
        {
            "a.ts": "// @ts-nocheck\nexport const n: number = 'x';\n",
            "tsconfig.json": '{"compilerOptions": {"strict": false}, "files": []}\n',
        },
        ("a.ts", 2, "TS2322"),
        "typescript",
    ),
    "go": (
        {
            "a.go": 'package a\n\nimport "fmt"\n\nfunc F() {\n\tfmt.Printf("%d\\n", "x") //nolint\n}\n',
            "go.mod": "module a\n\ngo 1.21\n",
        },
        ("a.go", 6, "vet"),
        "go vet",
    ),
}

PATIENT = ExecutionLimits(timeout_s=DEADLINE_S)  # go vet compiles what the code imports


@pytest.mark.parametrize("language", SAMPLES)
async def test_a_linter_finds_a_fault_that_the_code_tries_to_hide(language: Language) -> None:
    files, (path, line, code), name = SAMPLES[language]
    executor = CodeExecutor(CACHE, concurrency=2, named_toolchains=[str(WEB)])
    report = await executor.lint(language, as_files(files), [path], limits=PATIENT)
    assert report.linter.startswith(name) and report.problem == "", report
    assert (path, line, code) in [(each.path, each.line, each.code) for each in report.findings], report
