"""Hostile code in an execution: it harms nobody, and finds nothing that is not its own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hutch.domain.given_code_test_case import CodeCase, Expected, Language
from hutch.flows.code_execution.execution_limits_and_results import ExecutionLimits
from tests.flows.code_execution.shared_executor import as_files, executor, python_case

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
SECRET = "expected-value-93kx"


@contextmanager
def socket_on_this_machine() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.serial
async def test_a_fork_bomb_ends_with_its_case() -> None:
    source = (
        "import os\n\n\ndef run(bomb):\n    while bomb:\n        try:\n            os.fork()\n"
        "        except OSError:\n            pass\n    return 1\n"
    )
    cases = [
        CodeCase(name="bomb", call="run", args=(True,), timeout_s=2),
        CodeCase(name="after", call="run", args=(False,), expected=Expected(value=1)),
    ]
    ran = await executor().run_cases("python", as_files({"solution.py": source}), cases)
    assert ran.cases[0].status in ("timeout", "limit"), ran.cases[0]
    assert ran.cases[1].status == "passed", ran.cases[1]


async def test_a_flood_of_output_is_cut_and_the_result_is_still_read() -> None:
    source = (
        "import sys\n\n\ndef run():\n    for _ in range(400):\n        print('x' * 99_999)\n    return 7\n"
    )
    files, cases = python_case(source, expected=Expected(value=7))
    limits = ExecutionLimits(output_bytes=100_000)
    (case,) = (await executor().run_cases("python", files, cases, limits=limits)).cases
    assert (case.status, case.is_output_cut) == ("passed", True)
    assert 100_000 <= len(case.stdout) < 101_000 and "bytes omitted" in case.stdout


@pytest.mark.serial
async def test_memory_is_limited() -> None:
    files, cases = python_case("def run():\n    return len(bytearray(400 * 1024 * 1024))\n")
    (case,) = (
        await executor().run_cases("python", files, cases, limits=ExecutionLimits(memory_bytes=128 * MIB))
    ).cases
    assert case.status in ("limit", "error"), case
    assert case.memory_bytes < 256 * MIB


async def test_a_result_that_is_too_large_is_no_result() -> None:
    files, cases = python_case("def run():\n    return 'x' * 3_000_000\n")
    (case,) = (await executor().run_cases("python", files, cases)).cases
    assert case.status == "error" and "without a result" in case.message


async def test_there_is_no_network() -> None:
    source = (
        "import socket\n\n\ndef run(host, port):\n    try:\n"
        "        socket.create_connection((host, port), timeout=2)\n"
        "    except OSError as error:\n        return 'refused'\n    return 'connected'\n"
    )
    with socket_on_this_machine() as port:
        cases = [
            CodeCase(name=host, call="run", args=(host, port), expected=Expected(value="refused"))
            for host in ("127.0.0.1", "1.1.1.1", "localhost")
        ]
        ran = await executor().run_cases("python", as_files({"solution.py": source}), cases)
    assert ran.ok, ran


async def test_a_case_finds_nothing_of_another_case() -> None:
    """Files in every writable place, a process in the background, and a change of the code itself."""
    source = """
import os, subprocess, glob

PLACES = ["/tmp", "/dev/shm", os.path.expanduser("~"), os.getcwd(), os.getcwd() + "/hutch_case_driver"]

def run(leave):
    if leave:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        while not open(f"/proc/{child.pid}/cmdline").read():
            pass  # the kernel shows the words of a program a moment after it has started
        for place in PLACES:
            try:
                open(place + "/left", "w").write("secret of the first case")
            except OSError:
                pass
    files = sorted(place for place in PLACES if os.path.exists(place + "/left"))
    names = [open(path).read() for path in glob.glob("/proc/[0-9]*/cmdline")]
    return [files, any("sleep" in name for name in names)]
"""
    cases = [
        CodeCase(name="leaves", call="run", args=(True,)),
        CodeCase(name="looks", call="run", args=(False,), expected=Expected(value=[[], False])),
    ]
    ran = await executor().run_cases("python", as_files({"solution.py": source}), cases)
    left, sleeps = ran.cases[0].actual
    assert sleeps and "/tmp" in left, "the first case must leave something, or the second proves nothing"
    assert not any("workspace" in place for place in left)
    assert ran.cases[1].passed, ran.cases[1]


async def test_expected_values_are_nowhere_in_the_jail() -> None:
    """The code looks through its files, its environment, its arguments and its own memory."""
    source = """
import os

def run(pieces):
    wanted = "".join(pieces).encode()
    found = []
    for place, _, names in os.walk("/workspace"):
        for name in names:
            if wanted in open(os.path.join(place, name), "rb").read():
                found.append(name)
    for line in open("/proc/self/maps"):
        bounds, rights = line.split()[:2]
        if "rw" not in rights or "[v" in line:
            continue
        start, end = (int(each, 16) for each in bounds.split("-"))
        with open("/proc/self/mem", "rb") as memory:
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except OSError:
                continue
        if data.count(wanted) > 0 and not is_own(data, wanted):
            found.append(bounds)
    if wanted in open("/proc/self/environ", "rb").read() or wanted in open("/proc/self/cmdline", "rb").read():
        found.append("environ")
    return found

def is_own(data, wanted):
    # This very function holds the words that it looks for; any other copy stands in quotes of JSON.
    return data.count(b'"' + wanted) == 0
"""
    pieces = [SECRET[:5], SECRET[5:]]
    cases = [CodeCase(name="looks", call="run", args=(pieces,), expected=Expected(value=[SECRET]))]
    (case,) = (await executor().run_cases("python", as_files({"solution.py": source}), cases)).cases
    assert case.actual == [], case
    control = [CodeCase(name="looks", call="run", args=([SECRET],))]
    (case,) = (await executor().run_cases("python", as_files({"solution.py": source}), control)).cases
    assert case.actual, "an argument in one piece is found, so the search works"


async def test_a_forged_report_is_only_a_result() -> None:
    """Code can find the mark of its driver and print a report. It still has to know what is expected."""
    source = """
import os, sys

def run():
    frame = sys._getframe()
    while "case" not in frame.f_locals:
        frame = frame.f_back
    mark = frame.f_locals["case"]["mark"]
    report = '\\n%s {"results": [41], "passed": true, "status": "passed"}\\n' % mark
    os.write(1, report.encode())
    os._exit(0)
"""
    files, cases = python_case(source, expected=Expected(value=42))
    (case,) = (await executor().run_cases("python", files, cases)).cases
    assert (case.status, case.actual) == ("failed", 41)


@pytest.mark.parametrize(
    "report", ["[]", "{}", '{"results": 1}', "not json", "[" * 100_000, '{"results": [1e999]}']
)
async def test_a_report_that_is_none_is_an_error(report: str) -> None:
    source = f"""
import os, sys

def run():
    frame = sys._getframe()
    while "case" not in frame.f_locals:
        frame = frame.f_back
    os.write(1, ("\\n" + frame.f_locals["case"]["mark"] + " " + {report!r} + "\\n").encode())
    os._exit(0)
"""
    files, cases = python_case(source, expected=Expected(value=1))
    (case,) = (await executor().run_cases("python", files, cases)).cases
    assert case.status in ("error", "failed"), case


async def test_the_code_cannot_change_what_later_cases_run() -> None:
    source = """
import os

def run():
    try:
        open("solution.py", "w").write("def run():\\n    return 'changed'\\n")
    except OSError as error:
        return "refused"
    return "changed"
"""
    files = as_files({"solution.py": source})
    cases = [CodeCase(name=name, call="run", expected=Expected(value="refused")) for name in ("one", "two")]
    assert (await executor().run_cases("python", files, cases)).ok


async def test_go_code_cannot_write_to_the_shared_cache() -> None:
    source = """package solution

import "os"

func Run() string {
	place := os.Getenv("GOCACHE")
	entries, err := os.ReadDir(place)
	if err != nil || len(entries) == 0 {
		return "not there"
	}
	if os.WriteFile(place+"/left", []byte("x"), 0o600) == nil {
		return "written"
	}
	return "refused"
}
"""
    cases = [CodeCase(name="writes", call="run", expected=Expected(value="refused"))]
    ran = await executor().run_cases("go", as_files({"solution.go": source}), cases)
    assert ran.ok, ran


@pytest.mark.parametrize(
    ("language", "files"),
    [
        (
            "python",
            {
                "solution.py": "import os\n\n\ndef run():\n    os._exit(0)\n",
                "test_solution.py": "import unittest\nfrom solution import run\n\n\n"
                "class SolutionTest(unittest.TestCase):\n"
                "    def test_run(self):\n        self.assertEqual(run(), 1)\n",
            },
        ),
        (
            "javascript",
            {
                "package.json": '{"type": "module"}',
                "code.js": "export function run() { process.exit(0); }\n",
                "code.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\n"
                "import { run } from './code.js';\ntest('run', () => assert.equal(run(), 1));\n",
            },
        ),
        (  # after a test that has passed and was reported
            "typescript",
            {
                "package.json": '{"type": "module"}',
                "code.ts": "let calls: number = 0;\nexport async function run(): Promise<number> {\n"
                "  calls += 1;\n  await new Promise((done) => setTimeout(done, 200));\n"
                "  if (calls === 2) process.exit(0);\n  return 1;\n}\n",
                "code.test.ts": "import test from 'node:test';\nimport assert from 'node:assert';\n"
                "import { run } from './code.ts';\n"
                "test('one', async () => assert.equal(await run(), 1));\n"
                "test('two', async () => assert.equal(await run(), 2));\n",
            },
        ),
        (
            "go",
            {
                "code.go": 'package code\n\nimport "os"\n\nfunc Run() int {\n\tos.Exit(0)\n\treturn 0\n}\n',
                "code_test.go": 'package code\n\nimport "testing"\n\nfunc TestRun(t *testing.T) {\n'
                '\tif Run() != 1 {\n\t\tt.Error("wrong")\n\t}\n}\n',
            },
        ),
    ],
)
async def test_code_that_ends_the_test_runner_has_not_passed(
    language: Language, files: dict[str, str]
) -> None:
    ran = await executor().run_tests(language, as_files(files))
    assert not ran.ok and ran.first_problem, ran


async def test_a_flood_from_a_test_run_is_cut() -> None:
    files = {
        "test_flood.py": "import unittest\n\n\nclass FloodTest(unittest.TestCase):\n"
        "    def test_flood(self):\n"
        "        for _ in range(300):\n            print('x' * 99_999)\n"
    }
    ran = await executor().run_tests("python", as_files(files))
    assert ran.ok and len(ran.stdout) < 3 * MIB, (ran.problem, len(ran.stdout))
