"""A client library that loads what is used of it.

The packages of a provider's library pass on thousands of names from thousands of
modules, most of them of services that nobody asks for here. Importing one of these
packages then takes half a second and tens of megabytes. Loaded on demand, the same
package runs the same code, but a name that it only passes on is looked up when
somebody wants it. A package that does more with its names is loaded as always.
"""

import builtins
import dis
import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

# A package, and the parts of it that can wait: names that it takes from there are not loaded with it.
# `*` means all parts, in all packages beneath as well, as long as they only pass names on.
WAITING = {
    "anthropic": ("lib", "types"),
    "anthropic.resources": ("*",),
    "anthropic.types": ("*",),
    "openai.types": ("*",),
}


PASSING_ON = {
    dis.opmap.get(name)
    for name in (
        *("RESUME", "CACHE", "NOP", "EXTENDED_ARG", "LOAD_CONST", "LOAD_SMALL_INT", "STORE_NAME", "POP_TOP"),
        *("IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1", "BUILD_LIST", "LIST_EXTEND"),
        *("RETURN_VALUE", "RETURN_CONST"),
    )
}
Waiting = Mapping[str, tuple[str, ...]]


def load_on_demand(waiting: Waiting = WAITING) -> None:
    """From now on, load these packages so; those that are loaded already stay as they are."""
    if not any(isinstance(finder, _Finder) and finder.waiting == waiting for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(waiting))


@dataclass(frozen=True, slots=True)
class _Later:
    """A name that a package passes on. It can be kept under another name, and nothing else."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Stands for a module that names are taken from."""

    module: str

    def __getattr__(self, name: str) -> _Later:
        return _Later(self.module, name)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds what is found anyway, and has packages loaded by `_Loader`."""

    waiting: Waiting

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = self._parts(name)
        spec = PathFinder.find_spec(name, path, target) if parts else None
        if spec is None or spec.submodule_search_locations is None:
            return None
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path, parts)
        return spec

    def _parts(self, name: str) -> tuple[str, ...]:
        if name in self.waiting:
            return self.waiting[name]
        whole = (package for package, parts in self.waiting.items() if "*" in parts)
        return ("*",) if any(name.startswith(f"{package}.") for package in whole) else ()


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, parts: tuple[str, ...]) -> None:
        super().__init__(name, path)
        self._parts = parts

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        if code is None or ("*" in self._parts and not set(code.co_code[::2]) <= PASSING_ON):
            super().exec_module(module)
        else:
            self._exec(module, code)

    def _exec(self, module: ModuleType, code: CodeType) -> None:
        stars: list[str] = []

        def take(
            name: str,
            globals_: Any = None,
            locals_: Any = None,
            wanted: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            first = name.partition(".")[0]
            if level != 1 or not name or not wanted or not {first, "*"} & set(self._parts):
                return builtins.__import__(name, globals_, locals_, wanted or (), level)
            if "*" in wanted:
                stars.append(name)
                return ModuleType(name)  # an empty one: nothing is taken now
            return _Part(name)

        names = module.__dict__
        names["__builtins__"] = {**vars(builtins), "__import__": take}
        exec(code, names)  # as every import does
        names["__builtins__"] = builtins
        later = {name: value for name, value in names.items() if isinstance(value, _Later)}
        for name in later:
            del names[name]
        modules = {each.module.partition(".")[0] for each in later.values()}

        def find(name: str) -> Any:
            if name in later:
                value = getattr(_module(module, later[name].module), later[name].name)
                names[name] = value
                return value
            if not name.startswith("_"):
                if PathFinder.find_spec(f"{module.__name__}.{name}", module.__path__):
                    return _module(module, name)  # loaded with the package otherwise
                for star in stars:
                    if hasattr(part := _module(module, star), name):
                        return getattr(part, name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        names["__getattr__"] = find
        names["__dir__"] = lambda: sorted({*names, *later})
        for name in later.keys() & modules:  # a module of that name would take its place
            find(name)


def _module(package: ModuleType, part: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{part}")
