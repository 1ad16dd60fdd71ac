"""The time to redact secrets in 1 MB of text, ordinary or hostile.

For ordinary text the alternative does less: it finds literal values and shapes, but none with escapes,
line breaks or other spellings in them. It is faster (6 to 9 times when this was written). The bar
follows that figure, to show when it grows; it does not claim the same speed.
"""

import re
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.result_row import Row

from hutch.domain.credential_patterns import SHAPES
from hutch.domain.redaction import Redactor
from hutch.domain.stream_redactor import StreamRedactor

VALUES = ["Zq7vaultvalue93kxlPmw0TtRest", "secret-value", "secret-valve", 'k/V=&w "1']
CHARS = 1_000_000
PARTS = 4  # each is several times the text that a stream holds back
HOSTILE = (
    *("eyJ", "-eyJ", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN A A A A", "sk-ant-"),
    *("-----BEGIN PRIVATE KEY-----" + "\na: b" * 8, "authorization: bearer ", "A", "-", "\n", "\\n"),
    *("secret-valu", "secret-valu\n", "\x1b", "\x1b[", "\x1b]" + "a" * 300, "\x1b[31m", "\r", "sec\n"),
    *("secr" + "\x1b[m" * 20, "secr%61", "%73%65%63%72", "secr\\u0061", "secr&amp;", "&#"),
)


def best_ms(work: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        began = time.thread_time()  # without threads of other benchmarks
        work()
        taken.append(time.thread_time() - began)
    return min(taken) * 1000


def source_code() -> str:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "".join(file.read_text(errors="replace") for file in files)[:CHARS]


def stream(redactor: Redactor, text: str) -> None:
    cleaning = StreamRedactor(redactor)
    for at in range(0, len(text), 4096):
        cleaning.add(text[at : at + 4096])


def measure() -> Iterator[Row]:
    redactor = Redactor(VALUES)
    code, half = source_code(), CHARS // 2
    broken = f"{code[:half]}{VALUES[0][:9]}\n    {VALUES[0][9:]}{code[half:]}"
    naive = [re.compile(each) for each in (*map(re.escape, VALUES), *SHAPES.values())]

    def replace_each(text: str) -> None:
        for pattern in naive:
            text = pattern.sub("[redacted]", text)

    for about, text in (("source code", code), ("with a value over two lines", broken)):
        theirs = best_ms(partial(replace_each, text))
        ours = best_ms(partial(redactor.redact, text))
        yield Row(f"redact 1 MB, {about}", ours, theirs, "ms", 10, "a re.sub for each value and shape")
    worst: dict[str, tuple[float, float]] = {}
    for unit in HOSTILE:
        text = unit * (CHARS // len(unit))
        part = text[: CHARS // PARTS]
        for way, work in (("text", redactor.redact), ("stream", partial(stream, redactor))):
            ours = best_ms(partial(work, text), 2)
            theirs = PARTS * best_ms(partial(work, part), 2)
            if ours / theirs > worst.get(way, (0.0, 1.0))[0] / worst.get(way, (0.0, 1.0))[1]:
                worst[way] = ours, theirs
    for way, (ours, theirs) in worst.items():
        yield Row(
            f"redact 1 MB of the worst hostile {way}",
            ours,
            theirs,
            "ms",
            2,
            f"{PARTS} times a quarter of it",
        )
