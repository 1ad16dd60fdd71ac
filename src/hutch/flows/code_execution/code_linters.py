"""Runs the linter of a language on given code, in a throw-away jail, and reads its findings.

The rules of the linter count: configuration and comments in the code that silence rules are ignored.
Linters are found on the machine. One that is missing is reported as such.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from hutch.domain.given_code_test_case import LANGUAGE_NAMES, Language
from hutch.flows.code_execution.case_runs import to_text
from hutch.flows.code_execution.execution_limits_and_results import ExecutionLimits
from hutch.flows.code_execution.jail_policies import ExecutionPlace, build_policy
from hutch.flows.code_execution.language_toolchains import VISIBLE, LanguageToolchain
from hutch.jail.jail_startup import open_jail
from hutch.system.lazy_dataclass import dataclass

MAX_FINDINGS = 200
MAX_MESSAGE_CHARS = 300
RUFF_RULES = "E4,E7,E9,F,W,B,C4,SIM,UP,RUF,PLR1,PLW,N"
ESLINT_RULES = dict.fromkeys(
    (
        *("no-unused-vars", "no-unreachable", "no-redeclare", "eqeqeq", "no-var", "prefer-const", "no-empty"),
        *("no-fallthrough", "no-shadow", "no-useless-return", "no-else-return", "no-self-compare"),
    ),
    "warn",
)
TSC = (
    *("--noEmit", "--strict", "--noUnusedLocals", "--noUnusedParameters", "--noImplicitReturns"),
    *("--pretty", "false", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"),
    "--allowImportingTsExtensions",
)
RUFF = ("check", "--isolated", "--no-cache", "--ignore-noqa", "--exit-zero", "--output-format", "json")
ADVICE: dict[Language, str] = {
    "python": "Install the package ruff beside Hutch.",
    "javascript": "Install eslint for all users: npm install -g eslint",
    "typescript": "Install TypeScript for all users: npm install -g typescript",
    "go": "It comes with Go.",
}
_AT = re.compile(r"^(?:vet: )?(?:\./)?([^\s:]+):(\d+):(?:\d+:)? (.*)$")
_TSC_AT = re.compile(r"^([^\s(]+)\((\d+),\d+\): \w+ (TS\d+): (.*)$")


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding of a linter."""

    path: str
    line: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of one run. `problem` says why there is none."""

    linter: str = ""
    findings: tuple[LintFinding, ...] = ()
    total: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Linter:
    """A program that finds faults in code, and how to read its output."""

    name: str
    words: tuple[str, ...]
    read: Callable[[str, str], Iterable[LintFinding]]  # stdout and stderr
    shown: tuple[Path, ...] = field(default=())  # directories that its jail must be shown


def find_linter(
    language: Language, toolchain: LanguageToolchain, cache: Path, named: Sequence[str]
) -> Linter | None:
    """The linter of a language, if this machine has it. Blocks the thread."""
    match language:
        case "python":
            return _ruff(cache)
        case "go":
            return Linter(f"go vet {toolchain.version}", (toolchain.program, "vet", "./..."), _read_vet)
        case "javascript":
            found = _node_package("eslint", "bin/eslint.js", toolchain, named)
            options = ("--no-config-lookup", "--no-inline-config", "--format", "json")
            rules = ("--rule", json.dumps(ESLINT_RULES))
            return found and replace(found, words=(*found.words, *options, *rules), read=_read_eslint)
        case "typescript":
            found = _node_package("typescript", "bin/tsc", toolchain, named)
            return found and replace(found, words=(*found.words, *TSC), read=_read_tsc)


def without_silencing(language: Language, content: bytes) -> bytes:
    """The code without comments that silence tsc, which has no option to ignore them. Positions stay."""
    return content.replace(b"@ts-", b"-ts-") if language == "typescript" else content


def missing_linter(language: Language) -> LintReport:
    name = LANGUAGE_NAMES[language]
    return LintReport(problem=f"There is no linter for {name} on this machine. {ADVICE[language]}")


def _ruff(cache: Path) -> Linter | None:
    """Ruff below /usr, or a copy of the one beside Hutch: its own directory has more than a jail may see."""
    for program in (Path("/usr/local/bin/ruff"), Path("/usr/bin/ruff"), Path(sys.executable).parent / "ruff"):
        if not program.is_file():
            continue
        shown: tuple[Path, ...] = ()
        if not program.is_relative_to(VISIBLE):
            stat = program.stat()
            folder = cache / "linters" / f"ruff-{stat.st_size}-{stat.st_mtime_ns}"
            copy = folder / "ruff"
            if not copy.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                partial = folder / "partial"
                shutil.copyfile(program, partial)
                partial.chmod(0o755)
                partial.replace(copy)
            program, shown = copy, (folder,)
        words = (*RUFF, "--select", RUFF_RULES)
        return Linter("ruff", (str(program), *words), _read_ruff, shown)
    return None


def _node_package(
    name: str, script: str, toolchain: LanguageToolchain, named: Sequence[str]
) -> Linter | None:
    for folder in _node_modules(toolchain, named):
        package = folder / name
        if (package / script).is_file():
            version = json.loads((package / "package.json").read_text()).get("version", "")
            shown = () if package.is_relative_to(VISIBLE) else (folder,)
            return Linter(f"{name} {version}", (toolchain.program, str(package / script)), _read_tsc, shown)
    return None


def _node_modules(toolchain: LanguageToolchain, named: Sequence[str]) -> Iterator[Path]:
    for prefix in (*map(Path, named), toolchain.directory, Path("/usr/local"), Path("/usr")):
        yield prefix.expanduser() / "lib/node_modules"
        yield prefix.expanduser() / "node_modules"


async def run_linter(
    place: ExecutionPlace, linter: Linter, paths: Sequence[str], limits: ExecutionLimits
) -> LintReport:
    """The findings of a linter about the files `paths` of the directory."""
    location = replace(place.location, beside=(*place.location.beside, *linter.shown))
    words = linter.words if "vet" in linter.words else (*linter.words, *paths)
    async with open_jail(location, build_policy(limits, place)) as jail:
        ran = await jail.run(words, timeout_s=limits.timeout_s)
    if ran.timed_out or ran.limit_hit:
        why = "took too long" if ran.timed_out else f"was stopped by the limit {ran.limit_hit}"
        return LintReport(linter.name, problem=f"The linter {why}.")
    stdout, stderr = to_text(ran.stdout_output, limits), to_text(ran.stderr_output, limits)
    try:
        findings = [each for each in linter.read(stdout, stderr) if each.path in paths]
    except (ValueError, KeyError, TypeError, AttributeError):
        return LintReport(
            linter.name, problem=f"The linter's output is not readable: {(stderr or stdout)[:200]}"
        )
    if ran.exit_code != 0 and not findings:
        return LintReport(linter.name, problem=f"The linter failed: {(stderr or stdout)[:200]}")
    return LintReport(linter.name, tuple(findings[:MAX_FINDINGS]), len(findings))


def _finding(path: str, line: Any, code: Any, message: Any) -> LintFinding:
    found = path.split("/workspace/")[-1].removeprefix("./")
    return LintFinding(found, int(line or 1), str(code or "syntax")[:40], str(message)[:MAX_MESSAGE_CHARS])


def _read_ruff(stdout: str, stderr: str) -> Iterator[LintFinding]:
    for each in json.loads(stdout):
        yield _finding(each["filename"], each["location"]["row"], each["code"], each["message"])


def _read_eslint(stdout: str, stderr: str) -> Iterator[LintFinding]:
    for file in json.loads(stdout):
        for each in file["messages"]:
            yield _finding(file["filePath"], each.get("line"), each.get("ruleId"), each["message"])


def _read_tsc(stdout: str, stderr: str) -> Iterator[LintFinding]:
    for line in stdout.splitlines():
        if found := _TSC_AT.match(line):
            yield _finding(found[1], found[2], found[3], found[4])


def _read_vet(stdout: str, stderr: str) -> Iterator[LintFinding]:
    for line in stderr.splitlines():
        if found := _AT.match(line):
            yield _finding(found[1], found[2], "vet", found[3])
