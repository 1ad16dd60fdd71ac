"""The files and commands that run cases in each language: the given code, a driver that calls it, and how
both are started. Pure: nothing is written or run here.
"""

import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from hutch.domain.errors import BadRequest
from hutch.domain.given_code_test_case import CodeCase, Language, spell
from hutch.domain.user_given_starter_files import StarterFile, StarterFiles
from hutch.flows.code_execution.language_toolchains import LanguageToolchain
from hutch.system.lazy_dataclass import dataclass

DRIVER_DIRECTORY = "hutch_case_driver"  # in the directory of the code; no given file may lie there
BINARY_DIRECTORY = "hutch_case_binary"
RESERVED = (DRIVER_DIRECTORY, BINARY_DIRECTORY)
EXTENSIONS: dict[Language, tuple[str, ...]] = {
    "python": (".py",),
    "javascript": (".js", ".mjs", ".cjs"),
    "typescript": (".ts", ".mts"),
    "go": (".go",),
}
DEFAULT_MODULE = "solution"
GO_MODULE = "solution"
NODE_OPTIONS = ("--disable-warning=ExperimentalWarning", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON")
GO_VARIABLES = {
    "GOTOOLCHAIN": "local",
    "GOPROXY": "off",
    "GOSUMDB": "off",
    "GOFLAGS": "-trimpath -buildvcs=false -mod=mod",
    "GOENV": "off",
    "GOTELEMETRY": "off",
    "GOWORK": "off",
    "GOPATH": "/tmp/go",
    "CGO_ENABLED": "0",
    # Go would index files that are older than two seconds, and fail because its cache is read-only.
    "GODEBUG": "goindex=0",
}
PACKAGE_LINE = re.compile(rb"^package\s+(\w+)", re.MULTILINE)
MODULE_LINE = re.compile(rb"^module\s+\"?([^\s\"]{1,200})\"?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CaseProgram:
    """The files of one execution, and the commands that compile them and run a case."""

    language: Language
    files: StarterFiles  # the given ones and the driver
    module: str  # the path of the file with the code
    builds: tuple[tuple[str, ...], ...] = ()  # commands that compile, in order
    call_argv: tuple[str, ...] = ()
    stdin_argv: tuple[str, ...] = ()

    def argv(self, case: CodeCase) -> tuple[str, ...]:
        return self.stdin_argv if case.stdin is not None else self.call_argv

    def standard_input(self, case: CodeCase, mark: str) -> bytes:
        """The input of a case's process. It never holds an expected result."""
        if case.stdin is not None:
            return case.stdin.encode()
        spelled = {"call": case.call, "create": case.create}
        fields: dict[str, Any] = {key: _spell(name, self) for key, name in spelled.items() if name}
        if case.create and self.language == "go":
            fields["create"] = f"New{spell(case.create, 'go')}"
        steps = [[spell(step.call, self.language), list(step.args)] for step in case.steps]
        module = self.module.removesuffix(".py").replace("/", ".")
        fields["module"] = module if self.language == "python" else self.module
        return json.dumps({"mark": mark, "args": list(case.args), "steps": steps, **fields}).encode()


def build_program(
    toolchain: LanguageToolchain,
    language: Language,
    files: StarterFiles,
    cases: Sequence[CodeCase],
    module: str,
) -> CaseProgram:
    """The program for these cases; refuses files that cannot be run."""
    check_reserved(files)
    if language == "go":
        return _go_program(toolchain, files, cases)
    path = _module_file(language, files, module)
    if language == "python":
        driver, name = "python_driver.py", "driver.py"
        start: tuple[str, ...] = (toolchain.program, "-I", "-B")
        stdin_argv: tuple[str, ...] = (toolchain.program, "-B", path)
    else:
        driver, name = "node_driver.mjs", "driver.mjs"
        start = (toolchain.program, *NODE_OPTIONS)
        stdin_argv = (*start, path)
    own = {f"{DRIVER_DIRECTORY}/{name}": StarterFile(driver_source(driver).encode())}
    return CaseProgram(
        language,
        {**files, **own},
        path,
        call_argv=(*start, f"{DRIVER_DIRECTORY}/{name}"),
        stdin_argv=stdin_argv,
    )


def driver_source(name: str) -> str:
    return resources.files("hutch.flows.code_execution.drivers").joinpath(name).read_text()


def check_reserved(files: StarterFiles) -> None:
    for path in files:
        if path.split("/")[0] in RESERVED:
            raise BadRequest(f"The name {path.split('/')[0]!r} is reserved. Rename the directory.")


def _spell(name: str, program: CaseProgram) -> str:
    return spell(name, program.language)


def _module_file(language: Language, files: StarterFiles, module: str) -> str:
    """The file that cases call: the named module, or the only file of the language."""
    wanted = [f"{module}{extension}" for extension in EXTENSIONS[language]]
    for path in wanted:
        if path in files:
            return path
    own = [path for path in files if path.endswith(EXTENSIONS[language]) and "/" not in path]
    if len(own) == 1 and module == DEFAULT_MODULE:
        return own[0]
    raise BadRequest(f"There is no file {wanted[0]} for the cases to call. Add it, or name another module.")


def with_go_module(files: StarterFiles) -> dict[str, StarterFile]:
    """The files with a go.mod, which is added if there is none."""
    own = {"go.mod": StarterFile(f"module {GO_MODULE}\n\ngo 1.21\n".encode())}
    return {**own, **files}


def _go_program(toolchain: LanguageToolchain, given: StarterFiles, cases: Sequence[CodeCase]) -> CaseProgram:
    files = with_go_module(given)
    package = _go_package(files)
    builds: list[tuple[str, ...]] = []
    call_argv: tuple[str, ...] = ()
    stdin_argv: tuple[str, ...] = ()
    compile_ = (toolchain.program, "build", "-o")
    if any(case.stdin is not None for case in cases):
        if package != "main":
            raise BadRequest(f"A program that reads its input needs `package main`; this is {package!r}.")
        builds.append((*compile_, f"{BINARY_DIRECTORY}/program", "."))
        stdin_argv = (f"./{BINARY_DIRECTORY}/program",)
    if any(case.stdin is None for case in cases):
        if package == "main":
            raise BadRequest("Functions of `package main` cannot be called. Give the package another name.")
        files[f"{DRIVER_DIRECTORY}/main.go"] = StarterFile(_go_driver(files, cases).encode())
        builds.append((*compile_, f"{BINARY_DIRECTORY}/cases", f"./{DRIVER_DIRECTORY}"))
        call_argv = (f"./{BINARY_DIRECTORY}/cases",)
    return CaseProgram("go", files, "", tuple(builds), call_argv, stdin_argv)


def _go_package(files: StarterFiles) -> str:
    """The name of the package in the top directory."""
    for path, file in sorted(files.items()):
        if path.endswith(".go") and "/" not in path and not path.endswith("_test.go"):
            found = PACKAGE_LINE.search(file.content)
            if found:
                return found[1].decode()
    raise BadRequest("There is no Go file with a `package` line in the top directory.")


def _go_driver(files: StarterFiles, cases: Sequence[CodeCase]) -> str:
    """The source of the driver: Go finds no function by its name, so the cases' functions are listed."""
    found = MODULE_LINE.search(files["go.mod"].content)
    if found is None or not re.fullmatch(rb"[A-Za-z0-9._~/-]+", found[1]):
        raise BadRequest("go.mod has no line `module NAME`.")
    names = {spell(case.call, "go") for case in cases if case.call}
    names |= {f"New{spell(case.create, 'go')}" for case in cases if case.create}
    listed = "".join(f"\t{json.dumps(name)}: given.{name},\n" for name in sorted(names))
    source = driver_source("go_driver.go.txt")
    return source.replace("{{PACKAGE}}", found[1].decode()).replace("{{FUNCTIONS}}", listed)
