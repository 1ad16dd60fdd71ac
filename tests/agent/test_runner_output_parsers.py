"""The output of runners, real and hostile."""

import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from hutch.agent.repository_testing.go_test_file_paths import with_go_directories
from hutch.agent.repository_testing.junit_xml_parser import junit
from hutch.agent.repository_testing.parsed_result_tally import MAX_CASES, MAX_FAILURES
from hutch.agent.repository_testing.runner_output_parsers import (
    MAX_BYTES,
    READERS,
    cargo,
    go_events,
    jest,
)
from hutch.agent.repository_testing.tap_output_parser import tap
from hutch.agent.repository_testing.test_results import Counts, Failure
from hutch.agent.repository_testing.unknown_runner_counts import summary

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
errors="0" failures="9" skipped="0" tests="99"><testcase classname="tests.test_a" name="test_add">
<failure message="AssertionError: assert {'a': 1} == {'a': 2}&#10;  &#10;  Differing items:">def test_add():
        a = 1
&gt;       assert {"a": a} == {"a": 2}
E       AssertionError: assert {'a': 1} == {'a': 2}
E         \n\
E         Differing items:

tests/test_a.py:7: AssertionError</failure></testcase><testcase classname="tests.test_a" name="test_b"/>
<testcase classname="tests.test_a" name="test_c"><skipped type="pytest.skip" message="no"/></testcase>
<testcase classname="tests.test_b" name="test_d"><error message="failed on setup">
/usr/lib/python3/_pytest/x.py:3: in f
tests/conftest.py:4: in fixture
E   KeyError: 'x'</error></testcase></testsuite></testsuites>"""


def test_junit_as_pytest_writes_it() -> None:
    counts = junit(PYTEST)
    assert counts is not None
    assert (counts.passed, counts.failed, counts.skipped) == (1, 2, 1)  # not the totals that the file claims
    first, second = counts.failures
    assert first == Failure(
        "tests.test_a.test_add",
        "AssertionError: assert {'a': 1} == {'a': 2}\n  \n  Differing items:\ndef test_add():\n"
        '        a = 1\n>       assert {"a": a} == {"a": 2}\n\ntests/test_a.py:7: AssertionError',
        "tests/test_a.py:7",
    )
    assert (second.name, second.location) == ("tests.test_b.test_d", "tests/conftest.py:4")
    assert second.message.startswith("failed on setup")


VITEST = b"""<?xml version="1.0" encoding="UTF-8" ?>
<testsuites name="vitest tests" tests="2" failures="1" errors="0" time="0.4">
    <testsuite name="src/add.test.ts" tests="2" failures="1" errors="0" skipped="0" time="0.006">
        <testcase classname="src/add.test.ts" name="add &gt; adds" time="0.004">
            <failure message="expected -1 to be 5 // Object.is equality" type="AssertionError">
AssertionError: expected -1 to be 5 // Object.is equality

- Expected
+ Received

- 5
+ -1

 \xe2\x9d\xaf src/add.test.ts:6:23
 \xe2\x9d\xaf node_modules/vitest/dist/runner.js:10:3
            </failure>
        </testcase>
        <testcase classname="src/add.test.ts" name="add &gt; zero" time="0.001"></testcase>
    </testsuite>
</testsuites>"""


def test_junit_as_vitest_writes_it() -> None:
    counts = junit(VITEST)
    assert counts is not None and (counts.passed, counts.failed) == (1, 1)
    found = counts.failures[0]
    assert (found.name, found.location) == ("src/add.test.ts.add > adds", "src/add.test.ts:6")
    assert found.message.startswith("expected -1 to be 5 // Object.is equality\n")


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">%s]><x><testcase name="&j;"/></x>'
    % b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
)
OUTSIDE = (
    b'<!DOCTYPE x [<!ENTITY p SYSTEM "file:///etc/passwd">]><x><testcase name="&p;"><failure/></testcase></x>'
)


@pytest.mark.parametrize(
    "data",
    [
        *(
            BOMB,
            BOMB.decode().encode("utf-16"),
            OUTSIDE,
            b"",
            b"\0" * 100,
            b"<a>",
            b"<a></b>",
            b"{}",
            b"<a/><b/>",
        ),
        *(b'<?xml version="1.0" encoding="made-up"?><a/>', b"<testsuite><testcase/></testsuite>" + b"x" * 10),
    ],
)
def test_hostile_xml_is_no_report(data: bytes) -> None:
    assert junit(data) is None


@pytest.mark.parametrize("sign", ["&#10;&#10;", "\u2028", "\u202e", "&#x9b;", "x" * 500_000])
def test_names_and_locations_of_junit_are_short_single_lines(sign: str) -> None:
    odd = f"a{sign}FAILED other"
    xml = f'<s><testcase name="{odd}" file="{odd}" line="{odd}"><failure message="m"/></testcase></s>'
    counts = junit(xml.encode())
    assert counts is not None
    (failure,) = counts.failures
    for text in (failure.name, failure.location):
        assert text.startswith("a") and text.endswith("FAILED other")
        assert text.isprintable() and len(text) < 400


COSTLY: dict[str, Callable[[], bytes]] = {  # made by the tests that need them: they are large
    "depth": lambda: b"<a>" * (MAX_BYTES // 3),
    "names": lambda: b"<s>" + b"".join(b"<n%d/>" % n for n in range(2_000_000)) + b"</s>",
    "comment": lambda: b"<s><!--" + b"x" * 30_000_000 + b"--></s>",
    "attribute": lambda: b"<s><testcase name='" + b"x" * 30_000_000 + b"'/></s>",
    "attributes": lambda: b"<testcase " + b" ".join(b"a%d=''" % n for n in range(2_000_000)) + b"/>",
}


@pytest.mark.parametrize("make", COSTLY.values(), ids=COSTLY)
def test_expensive_xml_is_refused_with_little_memory(make: Callable[[], bytes]) -> None:
    """The parser's own memory counts, so it is measured from outside: in a process that has none to spare."""
    room = 256 * 1024 * 1024

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (room, room))

    imports = "import sys; from hutch.agent.repository_testing.junit_xml_parser import junit"
    program = f"{imports}; print(junit(sys.stdin.buffer.read()))"
    ran = subprocess.run(
        [sys.executable, "-c", program], input=make(), capture_output=True, preexec_fn=limited
    )
    assert (ran.stdout, ran.returncode) == (b"None\n", 0), ran.stderr[-300:]


def test_xml_of_any_size_takes_little_memory() -> None:
    deep = b"<a>" * 100 + b"<testcase/>" + b"</a>" * 100
    assert junit(deep) == Counts(passed=1)
    many = b"<s>" + b'<testcase name="x"><failure>%s</failure></testcase>' % (b"y" * 500) * 50_000 + b"</s>"
    huge = b"<s><testcase><failure>" + b"z" * 30_000_000 + b"</failure></testcase></s>"
    tracemalloc.start()
    counts, one = junit(many), junit(huge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts is not None and one is not None
    assert (counts.failed, len(counts.failures), one.failed) == (50_000, MAX_FAILURES, 1)
    assert len(one.failures[0].message) < 7000
    assert peak < 16_000_000


GO = [
    {"Action": "start", "Package": "example.com/add"},
    {"Action": "run", "Package": "example.com/add", "Test": "TestAdd"},
    {"Action": "output", "Package": "example.com/add", "Test": "TestAdd", "Output": "=== RUN   TestAdd\n"},
    {"Action": "run", "Package": "example.com/add", "Test": "TestAdd/two"},
    {
        "Action": "output",
        "Package": "example.com/add",
        "Test": "TestAdd/two",
        "Output": "    add_test.go:9: got -1, want 5\n",
    },
    {
        "Action": "output",
        "Package": "example.com/add",
        "Test": "TestAdd/two",
        "Output": "--- FAIL: TestAdd/two\n",
    },
    {"Action": "fail", "Package": "example.com/add", "Test": "TestAdd/two", "Elapsed": 0},
    {"Action": "fail", "Package": "example.com/add", "Test": "TestAdd", "Elapsed": 0},
    {"Action": "pass", "Package": "example.com/add", "Test": "TestZero", "Elapsed": 0},
    {"Action": "skip", "Package": "example.com/add", "Test": "TestSlow", "Elapsed": 0},
    {"Action": "output", "Package": "example.com/add", "Output": "FAIL\n"},
    {"Action": "fail", "Package": "example.com/add", "Elapsed": 0.002},
    {
        "ImportPath": "example.com/bad [example.com/bad.test]",
        "Action": "build-output",
        "Output": "bad/bad.go:4:2: undefined: x\n",
    },
    {"ImportPath": "example.com/bad [example.com/bad.test]", "Action": "build-fail"},
    {"Action": "output", "Package": "example.com/bad", "Output": "FAIL\texample.com/bad [build failed]\n"},
    {"Action": "fail", "Package": "example.com/bad", "Elapsed": 0},
]


def test_go_counts_tests_without_subtests_and_build_failures() -> None:
    data = "\n".join(map(json.dumps, GO)).encode()
    counts = go_events(data)
    assert counts == Counts(
        1,
        2,
        1,
        (
            Failure("example.com/add.TestAdd/two", "    add_test.go:9: got -1, want 5", "add_test.go:9"),
            Failure("example.com/bad", "bad/bad.go:4:2: undefined: x", "bad/bad.go:4"),
        ),
    )
    nothing = [{"Action": "start", "Package": "a"}, {"Action": "skip", "Package": "a"}]
    assert go_events("\n".join(map(json.dumps, nothing)).encode()) == Counts()
    assert go_events(b"go: cannot find main module") is None


def test_a_go_test_that_fails_besides_its_subtests_is_named() -> None:
    ends = [
        ("TestT/one", "pass"),
        ("TestT", "fail"),
        ("TestU/x/y", "fail"),
        ("TestU/x", "fail"),
        ("TestU", "fail"),
    ]
    events = [{"Action": end, "Package": "example.com/m/add", "Test": test} for test, end in ends]
    counts = go_events("\n".join(map(json.dumps, events)).encode())
    assert [case[:2] for case in cases(counts)] == [
        ("example.com/m/add.TestT/one", "passed"),
        ("example.com/m/add.TestT", "failed"),
        ("example.com/m/add.TestU/x/y", "failed"),
    ]


def test_go_files_get_the_directory_of_their_package() -> None:
    output = {"Action": "output", "Output": "    a_test.go:9: no\n"}
    end = {"Action": "fail"}
    packages = ["example.com/m", "example.com/m/add", "example.com/more"]
    events = [{**event, "Package": each, "Test": "TestA"} for each in packages for event in (output, end)]
    counts = go_events("\n".join(map(json.dumps, events)).encode())
    assert counts is not None
    located = with_go_directories(counts, b"// ours\nmodule example.com/m // of this repository\n")
    assert [case.file for case in located.cases] == ["a_test.go", "add/a_test.go", "a_test.go"]
    assert [each.location for each in located.failures] == ["a_test.go:9", "add/a_test.go:9", "a_test.go:9"]
    assert with_go_directories(counts, b"no module\n") == counts


JEST = {
    "numTotalTests": 3,
    "testResults": [
        {
            "name": "/workspace/src/add.test.js",
            "status": "failed",
            "assertionResults": [
                {
                    "fullName": "add adds",
                    "status": "failed",
                    "failureMessages": [
                        "Error: \x1b[2mexpect(\x1b[22m\x1b[31mreceived\x1b[39m).toBe(expected)\n\n"
                        "Expected: \x1b[32m5\x1b[39m\nReceived: \x1b[31m-1\x1b[39m\n"
                        "    at Object.toBe (/workspace/src/add.test.js:4:21)\n"
                        "    at Promise.completed (/workspace/node_modules/jest-circus/utils.js:298:28)\n"
                        "    at new Promise (<anonymous>)\n"
                    ],
                },
                {"fullName": "add zero", "status": "passed", "failureMessages": []},
                {"fullName": "add later", "status": "pending", "failureMessages": []},
            ],
        },
        {
            "name": "/workspace/src/broken.test.js",
            "status": "failed",
            "message": "Cannot find module './x' from 'src/broken.test.js'\n    at src/broken.test.js:1:1",
            "assertionResults": [],
        },
    ],
}


def test_jest_counts_cases_and_files_that_do_not_load() -> None:
    counts = jest(json.dumps(JEST).encode())
    assert counts is not None and (counts.passed, counts.failed, counts.skipped) == (1, 2, 1)
    case, file = counts.failures
    assert (case.name, case.location) == ("add adds", "src/add.test.js:4")
    assert case.message.startswith("Error: expect(received).toBe(expected)\n\nExpected: 5\nReceived: -1")
    assert "node_modules" not in case.message
    assert file.location == "src/broken.test.js:1"


CARGO = b"""
running 4 tests
test tests::adds ... FAILED
test tests::quits ... FAILED
test tests::slow ... ignored
test tests::zero ... ok

failures:

---- tests::adds stdout ----

thread 'tests::adds' (26258) panicked at src/lib.rs:10:17:
assertion `left == right` failed
  left: -1
 right: 5
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5
   1: core::panicking::assert_failed::<i32, i32>
             at /rustc/59807616e1fa/library/core/src/panicking.rs:394:5
   2: adding::tests::adds
             at ./src/lib.rs:10:17
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.

---- tests::quits stdout ----

thread 'tests::quits' (26259) panicked at src/lib.rs:17:18:
no way
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tests::adds
    tests::quits

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.11s

running 1 test
test src/lib.rs - add (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.21s
"""


def test_cargo_sums_its_parts() -> None:
    counts = cargo(CARGO)
    assert counts is not None and (counts.passed, counts.failed, counts.skipped) == (2, 2, 1)
    adds, quits = counts.failures
    assert (adds.name, adds.location) == ("tests::adds", "src/lib.rs:10")
    assert adds.message.splitlines()[1:4] == ["assertion `left == right` failed", "  left: -1", " right: 5"]
    assert "/rustc/" not in adds.message
    assert quits.message == "thread 'tests::quits' (26259) panicked at src/lib.rs:17:18:\nno way"
    assert cargo(b"error: could not compile `adding`") is None


def test_tap_without_a_plan_or_details() -> None:
    assert tap(b"TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP no\nnot ok 4 - c # TODO\n") == Counts(
        1, 1, 2, (Failure("b", ""),)
    )
    assert tap(b"ok 1 - a") is None


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("collected 3 items\n\n==== 1 failed, 2 passed, 1 skipped in 0.12s ====\n", Counts(2, 1, 1)),
        ("1 failed, 2 passed in 0.12s", Counts(2, 1)),
        ("3 passed, 1 warning in 61.20s (0:01:01)", Counts(3)),
        ("2 errors in 0.05s", Counts(0, 2)),
        ("=== no tests ran in 0.01s ===", Counts()),
        ("Tests:       1 failed, 1 skipped, 2 passed, 4 total\nTime: 1 s", Counts(2, 1, 1)),
        ("\x1b[2m      Tests \x1b[22m \x1b[31m1 failed\x1b[39m | \x1b[32m4 passed\x1b[39m (5)", Counts(4, 1)),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)", Counts(1, 2, 1)),
        ("Ran 0 tests in 0.000s\n\nOK", Counts()),
        ("  3 passing (5ms)\n  1 failing\n", Counts(3, 1)),
        ("all good", None),
        ("I have passed 3 tests", None),
        ("", None),
    ],
)
def test_the_last_lines_of_any_command(text: str, counts: Counts | None) -> None:
    assert summary(text.encode()) == counts


@pytest.mark.parametrize("name", sorted(READERS))
@pytest.mark.parametrize(
    "data",
    [
        b"a" * 2_000_000,
        b"a/" * 1_000_000,
        b"a.a" * 700_000,
        b"1 a11 a" * 100_000,
        b"TAP version 13\n" + b"not ok 1 - x\n" * 100_000,
        b"test result: FAILED. 0 passed; 99999999999 failed; 0 ignored",
        b"---- x stdout ----\n" * 100_000 + b"test result: FAILED. 0 passed; 100000 failed; 0 ignored",
        b'{"testResults": [{"assertionResults": [1, null, {"status": "failed", "failureMessages": 3}]}, 7]}',
        b'{"testResults": {"a": 1}}',
        b"[" * 200_000,
        b'{"Action": "fail", "Package": 3, "Test": ["x"]}\n' * 1000,
        bytes(range(256)) * 1000,
    ],
    ids=range(12),
)
def test_readers_survive_hostile_output(name: str, data: bytes) -> None:
    """A quadratic reader would take minutes here; each must end, with counts or None."""
    counts = READERS[name](data)
    assert counts is None or len(counts.failures) <= MAX_FAILURES


@pytest.mark.parametrize(
    ("runner", "data"),
    [
        ("jest", b'{"testResults":[' + b"{}," * 10_000_000 + b"{}]}"),
        ("jest", b'{"testResults":[' + b'"ab",' * 6_000_000 + b"{}]}"),
        ("go", b'{"Action":[' + b"{}," * 10_000_000 + b"{}]}"),
        ("tap", b"TAP version 13\n" + b"ab\n" * 10_000_000),
        ("cargo", b"ab\n" * 10_000_000),
    ],
)
def test_a_report_of_very_many_parts_takes_little_memory(runner: str, data: bytes) -> None:
    tracemalloc.start()
    counts = READERS[runner](data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts in (None, Counts())
    assert peak < 3 * len(data)


def cases(counts: Counts | None) -> list[tuple[object, ...]]:
    assert counts is not None
    return [(case.name, case.outcome, case.file, case.line, case.selector) for case in counts.cases]


def test_pytest_reports_the_place_and_the_id_of_each_test() -> None:
    xml = b"""<testsuites><testsuite><testcase classname="tests.test_a.TestAdd" name="test_zero[1-2]"
    file="tests/test_a.py" line="6" time="0.25"/><testcase classname="tests.test_a" name="test_b"
    file="tests/test_a.py" line="11" time="x"><failure message="m">tests/test_a.py:13: E</failure></testcase>
    </testsuite></testsuites>"""
    counts = READERS["pytest"](xml)
    assert cases(counts) == [
        (
            "tests.test_a.TestAdd.test_zero[1-2]",
            "passed",
            "tests/test_a.py",
            7,
            "tests/test_a.py::TestAdd::test_zero[1-2]",
        ),
        ("tests.test_a.test_b", "failed", "tests/test_a.py", 13, "tests/test_a.py::test_b"),
    ]
    assert counts is not None
    assert [case.duration_s for case in counts.cases] == [0.25, 0.0]


def test_ctest_reports_a_name_once_and_disabled_tests_as_skipped() -> None:
    xml = b"""<testsuite><testcase name="adds" classname="adds" time="0.5" status="run"/>
    <testcase name="later" classname="later" status="disabled"/>
    <testcase name="breaks" classname="breaks" status="fail"><failure message=""/>
    <system-out>expected 5, not -1</system-out></testcase></testsuite>"""
    counts = junit(xml)
    assert [case[:2] for case in cases(counts)] == [
        ("adds", "passed"),
        ("later", "skipped"),
        ("breaks", "failed"),
    ]
    assert counts is not None and counts.cases[2].message == "expected 5, not -1"


def test_every_format_names_each_test() -> None:
    go = (
        b'{"Action":"pass","Package":"m/p","Test":"TestA","Elapsed":0.5}\n{"Action":"pass","Package":"m/p"}\n'
    )
    assert cases(go_events(go)) == [("m/p.TestA", "passed", "", 0, "m/p TestA")]
    case = {"fullName": "add adds", "status": "passed", "duration": 12, "location": {"line": 3, "column": 1}}
    suite = {"name": "/workspace/src/a.test.js", "status": "passed", "assertionResults": [case]}
    assert cases(jest(json.dumps({"testResults": [suite]}).encode())) == [
        ("add adds", "passed", "src/a.test.js", 3, "add adds")
    ]
    text = b"test a::b ... ok\ntest c ... FAILED\n\n---- c stdout ----\nboom at src/x.rs:4:5\n"
    text += b"\nfailures:\n    c\n"
    text += b"\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"
    assert [case[:2] for case in cases(cargo(text))] == [("a::b", "passed"), ("c", "failed")]


def test_tap_names_tests_by_their_groups() -> None:
    text = b"""TAP version 13
# Subtest: group
    # Subtest: inner \\# 1
    ok 1 - inner \\# 1
      ---
      duration_ms: 250.5
      ...
    1..1
ok 1 - group
not ok 2 - other # TODO later
ok 3 - last
"""
    counts = tap(text)
    assert [case[:2] for case in cases(counts)] == [
        ("group > inner # 1", "passed"),
        ("other", "skipped"),
        ("last", "passed"),
    ]
    assert counts is not None and counts.cases[0].duration_s == 0.2505


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        (b'<testsuite><testcase name="a"/></testsuite>', Counts(passed=1)),
        (b"1..2\nok 1 - a\nok 2 - b\n", Counts(passed=2)),
        (b'{"Action":"skip","Package":"p","Test":"T"}\n', Counts(skipped=1)),
        (b"nothing\n", None),
    ],
)
def test_a_report_is_recognised_by_its_content(data: bytes, counts: Counts | None) -> None:
    assert READERS["any"](data) == counts


def test_the_output_of_a_command_may_be_a_report() -> None:
    assert READERS["summary"](b"1..1\nok 1 - a\n") == Counts(passed=1)
    assert READERS["summary"](b"1..3\n2 passed in 0.1s\n") == Counts(passed=2)


def test_a_test_that_leaves_a_million_results_is_counted_and_bounded() -> None:
    xml = b"<s>" + b'<testcase name="a\x7f" time="1e999"/>' * 900_000 + b"</s>"
    counts = junit(xml)
    assert counts is not None
    assert (counts.passed, len(counts.cases)) == (900_000, MAX_CASES)
    assert counts.cases[0].name.isprintable() and counts.cases[0].duration_s == 0


def test_tap_reads_the_details_of_a_failure() -> None:
    text = b"""TAP version 14
not ok 1 - yaml
  ---
  message: "boom"
  severity: fail
  at:
    file: t/a.js
    line: 3
  duration_ms: 5.5
  ...
not ok 2 - comments
#   Failed test 'comments'
#   at t/b.t line 5.
ok 3 - later # SKIP no database
1..3
"""
    counts = tap(text)
    assert counts is not None
    first, second, third = counts.cases
    assert (first.message, first.file, first.line, first.duration_s) == ("boom", "t/a.js", 3, 0.0055)
    assert "Failed test 'comments'" in second.message and (second.file, second.line) == ("t/b.t", 5)
    assert (third.outcome, third.message) == ("skipped", "no database")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"1..50\nok 1\n", "the plan of the report names 50 tests, and it lists 1"),
        (b"1..1\nok 1\nok 2\n", "the plan of the report names 1 tests, and it lists 2"),
        (b"TAP version 13\nok 1\n1..1\nTAP version 13\n1..2\nok 1\nok 2\n", ""),
        (b"TAP version 13\n    ok 1\n    1..1\nok 1 - group\n1..1\n", ""),
    ],
)
def test_the_plan_of_tap_is_compared(text: bytes, problem: str) -> None:
    counts = tap(text)
    assert counts is not None and counts.problem == problem


def test_junit_has_the_reason_of_a_skip() -> None:
    counts = junit(
        b"<testsuite><testcase name='a'><skipped message='no db'/></testcase>"
        b"<testcase name='b'><skipped>slow</skipped></testcase></testsuite>"
    )
    assert counts is not None
    one, two = counts.cases
    assert (one.message, two.message) == ("no db", "slow")


def test_a_message_has_no_characters_that_reverse_text() -> None:
    report = "<testsuite><testcase name='a'><failure message='x\u202ey'/></testcase></testsuite>"
    counts = junit(report.encode())
    assert counts is not None
    (case,) = counts.cases
    assert case.message == "x\\u202ey"
