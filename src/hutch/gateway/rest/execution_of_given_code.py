"""Runs given code against given cases, in throw-away jails."""

import asyncio
import json
from typing import Any

import orjson
from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import BadRequest
from hutch.domain.given_code_test_case import MAX_CASES, CodeCase, Language
from hutch.domain.given_code_test_case_json import CaseFields
from hutch.domain.one_line_text import echo
from hutch.flows.code_execution.case_programs import DEFAULT_MODULE
from hutch.flows.code_execution.execution_limits_and_results import (
    CaseResult,
    Execution,
    Status,
    execution_limits,
)
from hutch.flows.code_execution.language_toolchains import MissingToolchain
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.starter_file_fields import ABOUT_FILES, FilesIn, starter_files

routes = router("execute")
MAX_RESPONSE_BYTES = 16 * 1024 * 1024  # of all output streams


class ExecuteIn(In):
    """Code and its cases."""

    language: Language
    files: FilesIn = Field(
        description=ABOUT_FILES.replace("to start with, instead of a repository", "of the code"),
        examples=[{"solution.py": "def double(n):\n    return 2 * n\n"}],
    )
    tests: list[CaseFields] = Field(
        min_length=1,
        max_length=MAX_CASES,
        description="The cases, each run in a process and a jail of its own.",
        examples=[[{"name": "two", "call": "double", "args": [2], "expected": 4}]],
    )
    module: str = Field(
        DEFAULT_MODULE,
        pattern="^[A-Za-z_][A-Za-z0-9_/-]{0,99}$",
        description="The file that cases call, without its extension; in Go, the top directory.",
    )
    timeout_s: float | None = Field(None, gt=0, description="Lowers `execution.timeout_s`, for all cases.")
    memory_bytes: int | None = Field(None, ge=1, description="Lowers `execution.memory_bytes`.")


@fields_from(CaseResult)
class CaseResultOut(Out):
    """How a case ended."""

    status: Status = Field(
        description="`failed`: another result than expected. `error`: an exception or a crash. "
        "`skipped`: not run, because the time was over."
    )
    message: str = Field(description="Why it has not passed.")
    actual: Any = Field(
        None, description="The JSON value that the call returned; of an object, a list of them."
    )
    time_s: float = Field(description="Wall-clock time of its process.")
    memory_bytes: int = Field(description="Peak memory of its largest process.")
    is_output_cut: bool = Field(description="Whether some output was omitted.")


class ExecutionOut(Out):
    """The results of all cases."""

    language: Language
    ok: bool = Field(description="Whether all cases have passed.")
    passed: int
    total: int
    problem: str = Field(description="Why no case was run, such as an error of the compiler.")
    stdout: str = Field(description="Of the compiler.")
    stderr: str
    build_s: float
    time_s: float = Field(description="Of all cases, with the start of their jails.")
    cases: list[CaseResultOut]


class LanguageOut(Out):
    """A language, and whether its code can be run here."""

    language: Language
    is_available: bool
    version: str = Field(description="Of its toolchain; empty if there is none.")
    problem: str = Field(description="What is missing, and how to get it.")


class LanguagesOut(Out):
    """All languages."""

    items: list[LanguageOut]
    next: None = None


@routes.post("/execute", operation_id="execute_code", response_model=ExecutionOut)
async def execute(request: Request, caller: Writer, keyed: ByKey, body: ExecuteIn) -> Response:
    """Run given code against given cases: a function to call, an object to use, or a program's input.

    Nothing remains of it. Expected values never enter the jail. Code that fails is a result, not an error.
    """
    server = server_of(request)
    files = await asyncio.to_thread(starter_files, body.files)
    if not files:
        raise BadRequest("There are no files. Give the code to run.")
    ran = await server.executor.run_cases(
        body.language,
        files,
        _cases(body),
        limits=execution_limits(
            server.loaded.settings.execution, timeout_s=body.timeout_s, memory_bytes=body.memory_bytes
        ),
        module=body.module,
        user=caller.user.id,
    )
    return answer(await asyncio.to_thread(_shown, ran))


@routes.get("/execute/languages", operation_id="list_execution_languages", response_model=LanguagesOut)
async def languages(request: Request, caller: Reader) -> Response:
    """The languages whose code can be run, and what is missing for the others."""
    found = await server_of(request).executor.toolchains()
    missing = {each.language: each for each in found.missing}
    there = [
        {"language": each, "is_available": True, "version": tool.version, "problem": ""}
        for each, tool in found.found.items()
    ]
    return answer({"items": there + [_missing(each) for each in missing.values()], "next": None})


def _missing(each: MissingToolchain) -> dict[str, Any]:
    return {"language": each.language, "is_available": False, "version": "", "problem": str(each)}


def _cases(body: ExecuteIn) -> list[CodeCase]:
    cases = [each.to_case() for each in body.tests]
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            raise BadRequest(f"Two cases have the name {echo(case.name, 100)}. Give each its own.")
        names.add(case.name)
    return cases


def _shown(ran: Execution) -> dict[str, Any]:
    """The results, with as much output as a response may have. No secret can be in it: these jails have none.
    Blocks the thread."""
    left = MAX_RESPONSE_BYTES

    def text(value: str) -> str:
        nonlocal left
        kept = value[: left // 4]  # a character has up to four bytes
        left -= len(kept.encode(errors="replace"))
        return kept

    def value_of(actual: Any) -> Any:
        nonlocal left
        encoded = json.dumps(actual)
        left -= len(encoded)
        if left < 0:
            return None
        try:
            orjson.dumps(actual)
        except TypeError:  # a number that most readers of JSON cannot represent
            return encoded
        return actual

    cases = []
    for case in ran.cases:
        fields = {name: getattr(case, name) for name in CaseResultOut.model_fields}
        fields |= {name: text(fields[name]) for name in ("message", "stdout", "stderr")}
        cases.append(fields | {"actual": value_of(case.actual)})
    return {
        "language": ran.language,
        "ok": ran.ok,
        "passed": ran.passed,
        "total": ran.total,
        "problem": text(ran.problem),
        "stdout": text(ran.stdout),
        "stderr": text(ran.stderr),
        "build_s": ran.build_s,
        "time_s": ran.time_s,
        "cases": cases,
    }
