"""Runs inside the jail: calls the code of one case, and prints the result after a mark.

Standard library only, Python 3.9 or newer. Reads the case from standard input. Modules that few cases
need are loaded when they are needed: they would double the time of a small case.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import importlib
import json
import os
import sys


def settle(value):
    """The value, after awaiting it if it is awaitable."""
    if not hasattr(value, "__await__"):
        return value

    async def result():
        return await value

    return importlib.import_module("asyncio").run(result())


def encoded(value):
    """The value, if it is JSON."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the result cannot be written as JSON: {error}") from None
    return json.loads(text)


def show(error: BaseException) -> str:
    """The error in one line; its traceback goes to standard error, without the frames of this file."""
    traceback = importlib.import_module("traceback")
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    last = "".join(traceback.format_exception_only(type(error), error))
    sys.stderr.write("".join(traceback.format_list(frames)) + last)
    return last.strip()[-2000:]


def perform(case, results):
    module = importlib.import_module(case["module"])
    if case.get("call"):
        results.append(encoded(settle(getattr(module, case["call"])(*case["args"]))))
        return
    made = getattr(module, case["create"])(*case["args"])
    for name, arguments in case["steps"]:
        results.append(encoded(settle(getattr(made, name)(*arguments))))


def main() -> None:
    case = json.loads(sys.stdin.buffer.read())
    output = os.dup(1)  # so that the code cannot close it by accident
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    results: list[object] = []
    report: dict[str, object] = {"results": results}
    try:
        perform(case, results)
    except BaseException as error:  # noqa: BLE001 (also SystemExit: every end must be reported)
        report["error"] = show(error)
    sys.stdout.flush()
    data = f"\n{case['mark']} {json.dumps(report)}\n".encode()
    while data:
        data = data[os.write(output, data) :]
    sys.stderr.flush()
    os._exit(0)  # threads of the code must not delay the end


if __name__ == "__main__":
    main()
