"""An executor for tests. All of them share the compiled standard library of Go, beside the other tools."""

import sys
from pathlib import Path

from hutch.domain.given_code_test_case import CodeCase, Expected, Language, Step
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.code_execution.code_executor import CodeExecutor

CACHE = Path(sys.prefix) / "hutch-execution-cache"
SOURCES: dict[Language, dict[str, str]] = {
    "python": {
        "solution.py": (
            "def double_it(n):\n    print('called')\n    if n < 0:\n        raise ValueError('negative')\n"
            "    return 2 * n\n\n\n"
            "class Box:\n    def __init__(self, value):\n        self.value = [value]\n\n"
            "    def add_one(self, more):\n        self.value[0] += more\n        return self.value\n"
        )
    },
    "javascript": {
        "solution.js": (
            "export function doubleIt(n) {\n  console.log('called');\n"
            "  if (n < 0) throw new RangeError('negative');\n  return 2 * n;\n}\n"
            "export class Box {\n  constructor(value) { this.value = [value]; }\n"
            "  addOne(more) { this.value[0] += more; return this.value; }\n}\n"
        )
    },
    "typescript": {
        "solution.ts": (
            "export function doubleIt(n: number): number {\n  console.log('called');\n"
            "  if (n < 0) throw new RangeError('negative');\n  return 2 * n;\n}\n"
            "export class Box {\n  value: number[];\n  constructor(value: number) { this.value = [value]; }\n"
            "  addOne(more: number): number[] { this.value[0] += more; return this.value; }\n}\n"
        )
    },
    "go": {
        "solution.go": (
            'package solution\n\nimport (\n\t"errors"\n\t"fmt"\n)\n\n'
            'func DoubleIt(n int) (int, error) {\n\tfmt.Println("called")\n\tif n < 0 {\n'
            '\t\treturn 0, errors.New("negative")\n\t}\n\treturn 2 * n, nil\n}\n\n'
            "type Box struct{ value []int }\n\nfunc NewBox(value int) *Box { return &Box{[]int{value}} }\n\n"
            "func (b *Box) AddOne(more int) []int {\n\tb.value[0] += more\n\treturn b.value\n}\n"
        )
    },
}
CASES = (
    CodeCase(name="right", call="double_it", args=(2,), expected=Expected(value=4)),
    CodeCase(name="raises", call="double_it", args=(-1,), expected=Expected(fails=True)),
    CodeCase(name="wrong", call="double_it", args=(2,), expected=Expected(value=5)),
    # Each result is taken before the next call changes the list.
    CodeCase(
        name="object",
        create="Box",
        args=(1,),
        steps=(
            Step(call="add_one", args=(1,), expected=Expected(value=[2])),
            Step(call="add_one", args=(3,), expected=Expected(value=[5])),
        ),
    ),
)


def executor(*, concurrency: int = 2) -> CodeExecutor:
    return CodeExecutor(CACHE, concurrency=concurrency)


def as_files(texts: dict[str, str]) -> dict[str, StarterFile]:
    return {path: StarterFile(text.encode()) for path, text in texts.items()}


def python_case(source: str, **case: object) -> tuple[dict[str, StarterFile], list[CodeCase]]:
    """A file with a function `run`, and one case that calls it."""
    fields: dict[str, object] = {"name": "case", "call": "run", **case}
    return as_files({"solution.py": source}), [CodeCase(**fields)]  # type: ignore[arg-type]
