"""Run tests in stages, each test once, and add up the results: `python -m scripts.run_tests TIER`.

    check      the house rules and the modules of tests/pure.txt
    test       all tests but those marked soak or control: side by side, then the serial ones alone
    controls   the attacks with their guards off
    soak       the long tests, and the properties with all their examples

The exit code is 0 only if every test of every stage ran and none failed, and the command of --beside, which
runs at the same time as the first stage, ended with 0.
"""

import argparse
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from scripts.affected_tests import UnknownChange, affected, changed_files
from scripts.attack_control_freshness import ATTACKS, digest, record

ROOT = Path(__file__).resolve().parents[1]
PURE = "tests/pure.txt"
LISTED_S = 1.0  # a module that starts no process and takes at most this belongs into tests/pure.txt
SLOWEST = 15
GRACE_S = 20.0  # for pytest to clean up after an interrupt
DEFAULT_SIGNALS = ("env", "--default-signal=INT,HUP,QUIT,TERM")  # also under nohup and in the background
MAX_UNCOMPILED = 50  # test modules; so few are compiled in a moment
NO_TESTS = 5  # pytest's exit code
MEANINGS = {2: "interrupted", 3: "an internal error", 4: "wrong usage", NO_TESTS: "no tests were collected"}


@dataclass
class Stage:
    """One run of pytest. Without workers, nothing runs beside a test."""

    name: str
    marks: str
    paths: list[str] = field(default_factory=list)
    workers: int = 0
    problem: str = ""
    stopped: bool = False
    elapsed_s: float = 0.0
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    serial: list[str] = field(default_factory=list)  # deselected here, to be run alone

    def run(self) -> None:
        began = time.monotonic()
        place = Path(tempfile.mkdtemp(prefix="hutch-tests-"))
        results = place / "results.json"
        code = self._pytest(results, place / "files")
        written = json.loads(results.read_text()) if results.exists() else None
        if written:
            self.tests, self.serial = written["tests"], written["serial"]
        self.problem = self._judge(code, written)
        if self.failed or self.problem:
            print(f"The files of these tests stay in {place}", flush=True)
        else:
            # Hundreds of thousands of files, which Python would take minutes to remove.
            subprocess.run(["rm", "-rf", "--one-file-system", place], stderr=subprocess.DEVNULL, check=False)
        self.elapsed_s = time.monotonic() - began

    def _judge(self, code: int, written: dict[str, Any] | None) -> str:
        """Why not all tests were run; empty if they were."""
        if self.stopped:
            return "stopped by a signal"
        if written is None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            return f"pytest {how} before it could report"
        if code == NO_TESTS and self.serial:
            return ""  # only serial tests were selected
        if code not in (0, 1):
            return f"pytest ended with code {code}: {MEANINGS.get(code, 'not one of its own')}"
        if written["wanted"] > len(self.tests):
            return f"{written['wanted'] - len(self.tests)} tests were collected but not run"
        return "pytest failed, though no test did" if code and not self.failed else ""

    def _pytest(self, results: Path, files: Path) -> int:
        shown = os.dup(1)
        words = ["-p", "tests.progress_plugin", "--progress-to", str(shown), "--results", str(results)]
        words += ["-p", "tests.hang_plugin"]
        words += ["--no-header", "--basetemp", str(files), "-m", self.marks]
        if self.workers:
            compile_tests(self.paths)
            # Neighbouring tests go to the same worker, so that a module's shared fixtures are made once.
            words += ["-n", str(self.workers), "--dist", "worksteal"]
        process = subprocess.Popen(
            [*DEFAULT_SIGNALS, sys.executable, "-m", "pytest", *words, *self.paths],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[shown],
            process_group=0,  # so that its workers can be ended with it
        )
        os.close(shown)
        ended = os.pidfd_open(process.pid)
        try:
            select.select([ended], [], [])
        except KeyboardInterrupt:
            self.stopped = True
            os.killpg(process.pid, signal.SIGINT)
            select.select([ended], [], [], GRACE_S)
        finally:
            # It was not waited for yet, so its process id is still its own.
            os.killpg(process.pid, signal.SIGKILL)
            os.close(ended)
        return process.wait()

    @property
    def failed(self) -> list[str]:
        return [name for name, test in self.tests.items() if test["outcome"] == "failed"]


class Beside:
    """A command that runs beside the first stage. Its output is shown when it has ended."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(
            [*DEFAULT_SIGNALS, *shlex.split(command)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # so that its children can be ended with it
        )
        self._reader = threading.Thread(target=self._show)
        self._reader.start()

    def _show(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            printed = output.read()
        os.write(1, b"\n" + printed if os.isatty(1) else printed)  # the progress line has no newline yet

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # not waited for yet, so the process id is its own

    def wait(self) -> str:
        """Why it failed; empty if it did not."""
        self._reader.join()
        code = self._process.wait()
        return f"'{self._command}' ended with code {code}" if code else ""


def stages(tier: str, paths: list[str], workers: int, command: str) -> list[Stage]:
    """Run the stages of a tier; they run one after the other, even if one has failures."""
    usual = "not soak and not control"
    match tier:
        case "check":
            first = Stage("pure", f"{usual} and not serial", [*pure(), "tests/house"], workers)
        case "controls":
            first = Stage("controls", "control and not soak", [ATTACKS])
        case "soak":
            first = Stage("soak", "soak", paths)
        case _:
            first = Stage("side by side", f"{usual} and not serial", paths, workers)
    print(f"--- {first.name}", flush=True)
    beside = Beside(command) if command else None
    first.run()
    if beside:
        if first.stopped:
            beside.stop()
        first.problem = "; ".join(filter(None, (first.problem, beside.wait())))
    done = [first]
    if tier == "soak" and not first.stopped:
        os.environ["HUTCH_TEST_EXAMPLES"] = "all"  # read by tests/hypothesis_examples.py
        properties = Stage("properties", f"{usual} and hypothesis", paths)
        print(f"--- {properties.name}", flush=True)
        properties.run()
        done.append(properties)
    if tier == "test" and not first.stopped and (first.serial or not first.tests):
        files = sorted({name.partition("::")[0] for name in first.serial})
        second = Stage("one at a time", f"{usual} and serial", files or paths)
        print(f"--- {second.name}", flush=True)
        second.run()
        done.append(second)
        if not second.problem and len(second.tests) != len(first.serial):
            second.problem = f"{len(second.tests)} tests were run, {len(first.serial)} were to be"
    return done


def compile_tests(paths: list[str]) -> None:
    """Let one process compile the tests of a new clone: else every worker compiles all of them.

    Workers report the errors that it finds.
    """
    modules = list((ROOT / "tests").rglob("test_*.py"))
    compiled = {path.name.partition(".")[0] for path in (ROOT / "tests").rglob("__pycache__/*-pytest-*.pyc")}
    if sum(module.stem not in compiled for module in modules) > MAX_UNCOMPILED:
        command = [*DEFAULT_SIGNALS, sys.executable, "-m", "pytest", "--collect-only", "-qq", *paths]
        subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


def pure() -> list[str]:
    return (ROOT / PURE).read_text().split()


def summary(done: list[Stage]) -> int:
    """Print the results of all stages, the counts last; returns the exit code."""
    tests = {name: test for stage in done for name, test in stage.tests.items()}
    counts = Counter(test["outcome"] for test in tests.values())
    print("\n--- all together")
    slowest = sorted(tests.items(), key=lambda each: -each[1]["s"])[:SLOWEST]
    print("slowest:", *(f"  {test['s']:6.1f} s  {name}" for name, test in slowest), sep="\n")
    modules: dict[str, float] = defaultdict(float)
    for name, test in tests.items():
        modules[name.partition("::")[0]] += test["s"]
    slowest_modules = sorted(modules.items(), key=lambda each: -each[1])[:SLOWEST]
    print("slowest modules:", *(f"  {taken_s:6.1f} s  {name}" for name, taken_s in slowest_modules), sep="\n")
    skipped = Counter(
        (name.partition("[")[0], test["why"]) for name, test in tests.items() if test["outcome"] == "skipped"
    )
    for (name, why), number in sorted(skipped.items()):
        print(f"skipped: {name}{f' ({number} times)' if number > 1 else ''}: {why}")
    unlisted = [each for stage in done for each in unlisted_modules(stage)]
    if unlisted:
        print(f"These start no process, so `make check` can run them too if {PURE} lists them:", *unlisted)
    for name in (name for stage in done for name in stage.failed):
        print(f"failed: {name}")
    for stage in done:
        if stage.problem:
            print(f"failed: the stage '{stage.name}': {stage.problem}")
    times = ", ".join(f"{stage.name} {minutes(stage.elapsed_s)}" for stage in done)
    print(f"elapsed: {minutes(sum(stage.elapsed_s for stage in done))} ({times})")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if any(stage.stopped for stage in done):
        return 130
    return int(any(stage.problem or stage.failed for stage in done))


def unlisted_modules(stage: Stage) -> list[str]:
    """Modules of a stage that the list of pure ones lacks."""
    if stage.name != "side by side":
        return []
    started, took = Counter[str](), Counter[str]()
    for name, test in stage.tests.items():
        module = name.partition("::")[0]
        started[module] += bool(test["started"]) or test["outcome"] != "passed"
        took[module] += test["s"]
    listed = {*pure(), *(name.partition("::")[0] for name in stage.serial)}
    return sorted(
        module
        for module in took
        if not started[module]
        and took[module] <= LISTED_S
        and module not in listed
        and not module.startswith("tests/house/")
    )


def minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60)} s" if seconds >= 60 else f"{seconds:.0f} s"


def selected(rooms: str, base: str) -> list[str]:
    """The test files to run; none means all."""
    if not rooms:
        return []
    if rooms == "changed":
        try:
            changed = changed_files(ROOT, base)
        except UnknownChange as reason:
            print(f"all tests: {reason}")
            return []
        found = affected(ROOT, changed)
        print(f"{len(found.tests)} test modules can be affected by {len(changed)} changed files:")
        print(*(f"  {line}" for line in found.why), sep="\n")
        if not found.tests:
            sys.exit("Nothing to run: no file has changed.")
        return found.tests
    paths = []
    for room in rooms.split(","):
        named = [path for path in (f"tests/{room}", f"tests/test_{room}.py") if (ROOT / path).exists()]
        if not named or not room:
            known = sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir())
            sys.exit(f"There is no room '{room}'. ROOMS is 'changed', or some of: {', '.join(known)}")
        paths += named
    print(f"the tests of {rooms}: {' '.join(paths)}")
    return paths


def stop(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tier", choices=("check", "test", "controls", "soak"))
    parser.add_argument("--rooms", default="", help="'changed', or names of folders in tests/, with commas")
    parser.add_argument("--base", default="main", help="the branch that 'changed' compares with")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--beside", default="", help="a command to run at the same time as the first stage")
    asked = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)
    before = digest(ROOT)
    code = summary(stages(asked.tier, selected(asked.rooms, asked.base), asked.workers, asked.beside))
    if asked.tier == "controls" and code == 0:
        code = record(ROOT, before)
    return code


if __name__ == "__main__":
    sys.exit(main())
