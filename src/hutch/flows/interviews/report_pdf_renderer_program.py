"""The renderer process of report_pdf.py: run as a program, it imports nothing of Hutch.

It reads the blocks of a report as JSON, and writes a PDF. Candidates wrote much of the text, and C code
shapes it, so this process has little memory and time, and ends after one report.
"""

import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]
from fpdf import FPDF
from fpdf.errors import FPDFException

MAX_MEMORY_BYTES = 2 << 30
MAX_CPU_S = 120
MAX_PAGES = 300
FONTS = Path(__file__).parent / "fonts"
SYSTEM_FONTS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
# Parts of names of fonts for scripts that the bundled font lacks; the first that has a character is used.
FURTHER_FONTS = (
    *("NotoSansCJK", "NotoSansSC", "NotoSansJP", "NotoSansKR", "wqy", "DroidSansFallback"),
    *("NotoSans", "NotoEmoji", "Symbola", "unifont"),
)
MAX_FURTHER_FONTS = 6
MISSING = (
    "Characters that no font of this server has are shown by their numbers, such as [U+4E2D]. "
    "The web page shows them."
)
TRUNCATED = "The report is longer than this document can be. The web page and the JSON have all of it."
MARGIN, BOTTOM = 15.0, 17.0  # mm
BODY, SMALL = 9.0, 8.0  # pt
HEADINGS = {1: 17.0, 2: 13.0, 3: 10.5}
LINE = 1.35  # times the size
PADDING = 1.2  # mm
POINT_MM = 25.4 / 72
LINK, GREY, RULE, SHADE = (11, 87, 164), (105, 105, 105), (190, 190, 190), (240, 240, 242)
WEIGHTS = {  # of the widths of columns
    **dict.fromkeys(("From", "To", "Share", "Lines"), 1.6),
    **dict.fromkeys(("Time", "By", "Who"), 2.4),
    **dict.fromkeys(("Moment", "Moments", "Fact"), 3.4),
    **dict.fromkeys(("What", "Why", "Comment", "Value", "Note", "Message", "Around it"), 8.0),
    **dict.fromkeys(("Before and after it",), 9.0),
}
DEFAULT_WEIGHT = 3.0

Word = tuple[str, str]  # a text and the address that it leads to
Line = list[Word]


class TooLong(Exception):
    """The document has its maximum of pages."""


class Document(FPDF):
    """A report in A4 with its number and the interview's name on each page."""

    def __init__(self, title: str) -> None:
        super().__init__(format="A4")
        self.report_title = title
        self.set_margins(MARGIN, MARGIN, MARGIN)
        self.set_auto_page_break(auto=False)
        for style, name in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf")):
            self.add_font("sans", style, FONTS / name)
        self.set_font("sans", size=BODY)
        self.c_margin = 0.0
        self.set_text_shaping(True)
        self.alias_nb_pages("{pages}")
        self.set_title(title)
        self.set_creator("Hutch")

    def footer(self) -> None:
        self.set_y(-12)
        self.set_font("sans", size=7)
        self.set_text_color(*GREY)
        self.cell(self.epw / 2, 4, fit(self, self.report_title, self.epw / 2))
        self.cell(self.epw / 2, 4, f"{self.page_no()} / {{pages}}", align="R")

    def new_page(self) -> None:
        if self.page_no() >= MAX_PAGES:
            raise TooLong
        self.add_page()
        self.set_y(MARGIN)

    def need(self, height: float) -> bool:
        """Begin a page unless there is so much space; True if one was begun."""
        if self.page_no() and self.get_y() + height <= self.h - BOTTOM:
            return False
        self.new_page()
        return True

    def write_line(self, line: Line, x: float, y: float, size: float, style: str = "") -> None:
        for text, link in joined(line):
            self.set_font("sans", style, size)
            self.set_text_color(*(LINK if link else (0, 0, 0)))
            self.set_xy(x, y)
            width = self.width(text, size, style)
            self.cell(width, size * POINT_MM * LINE, text, link=link)
            x += width

    @lru_cache(maxsize=20_000)  # noqa: B019 (one document for each process)
    def width(self, text: str, size: float, style: str) -> float:
        self.set_font("sans", style, size)
        return float(self.get_string_width(text))


def joined(line: Line) -> Line:
    """Adjacent words as one text, so that words that are read from right to left stand in their order."""
    found: Line = []
    for text, link in line:
        if found and (found[-1][1] == link):
            found[-1] = (found[-1][0] + text, link)
        else:
            found.append((text, link))
    return found


def fit(pdf: Document, text: str, width: float) -> str:
    while text and pdf.get_string_width(text) > width:
        text = text[: len(text) * 9 // 10]
    return text


def wrap(words: Iterable[Word], width: float, measure: Callable[[str], float]) -> Iterator[Line]:
    """Lines that are not wider than `width`. Words that are wider are split anywhere."""
    line: Line = []
    used = 0.0
    for text, link in words:
        if text == "\n":
            yield line
            line, used = [], 0.0
            continue
        taken = measure(text)
        if used + taken > width and line and not text.isspace():
            yield line
            line, used = [], 0.0
        while taken > width and len(text) > 1:
            part = text
            while len(part) > 1 and measure(part) > width:
                part = part[: len(part) * 4 // 5 or 1]
            yield [(part, link)]
            text = text[len(part) :]
            taken = measure(text)
        if not (text.isspace() and not line):
            line.append((text, link))
            used += taken
    yield line


def words_of(spans: Sequence[dict[str, str]], base: str) -> Iterator[Word]:
    for span in spans:
        link = base + span["path"] if base and span["path"] else ""
        for number, part in enumerate(span["text"].replace("\t", "    ").split("\n")):
            if number:
                yield "\n", ""
            for index, word in enumerate(part.split(" ")):
                if index:
                    yield " ", ""
                if word:
                    yield word, link


def draw_text(pdf: Document, block: dict[str, Any], base: str) -> None:
    is_heading = block["kind"] == "heading"
    size, style = (HEADINGS[block["level"]], "B") if is_heading else (BODY, "")
    height = size * POINT_MM * LINE
    if is_heading:
        pdf.need(height + 25)  # a heading does not stand alone at the end of a page
        pdf.set_y(pdf.get_y() + (5 if block["level"] == 2 else 2))
    for line in wrap(words_of(block["spans"], base), pdf.epw, lambda text: pdf.width(text, size, style)):
        pdf.need(height)
        y = pdf.get_y()
        pdf.write_line(line, MARGIN, y, size, style)
        pdf.set_y(y + height)
    if is_heading and block["level"] == 2:
        pdf.set_draw_color(*RULE)
        pdf.line(MARGIN, pdf.get_y() + 0.5, MARGIN + pdf.epw, pdf.get_y() + 0.5)
    pdf.set_y(pdf.get_y() + 1.5)


def draw_table(pdf: Document, block: dict[str, Any], base: str) -> None:
    weights = [WEIGHTS.get(each, DEFAULT_WEIGHT) for each in block["head"]]
    widths = [pdf.epw * each / sum(weights) for each in weights]
    title = {"kind": "heading", "level": 3, "spans": block["spans"]}
    draw_text(pdf, title, base)
    draw_head(pdf, block["head"], widths)
    for row in block["rows"]:
        draw_row(pdf, block["head"], row, widths, base)
    pdf.set_y(pdf.get_y() + 3)


def draw_head(pdf: Document, head: Sequence[str], widths: Sequence[float]) -> None:
    cells = [
        list(
            wrap(
                words_of([{"text": each, "path": ""}], ""),
                width - 2 * PADDING,
                lambda text: pdf.width(text, SMALL, "B"),
            )
        )
        for each, width in zip(head, widths, strict=True)
    ]
    height = max(map(len, cells)) * SMALL * POINT_MM * LINE + 1
    pdf.need(height)
    top = pdf.get_y()
    pdf.set_fill_color(*SHADE)
    pdf.rect(MARGIN, top, pdf.epw, height, style="F")
    draw_lines(pdf, cells, widths, top + 0.5, "B")
    pdf.set_y(top + height)


def draw_lines(
    pdf: Document, cells: Sequence[Sequence[Line]], widths: Sequence[float], top: float, style: str = ""
) -> None:
    x = MARGIN
    for lines, width in zip(cells, widths, strict=True):
        for number, line in enumerate(lines):
            pdf.write_line(line, x + PADDING, top + number * SMALL * POINT_MM * LINE, SMALL, style)
        x += width


def draw_row(
    pdf: Document, head: Sequence[str], row: Sequence[Any], widths: Sequence[float], base: str
) -> None:
    """A row. One that is higher than the rest of the page is continued on the next."""
    step = SMALL * POINT_MM * LINE
    cells = [
        list(wrap(words_of(each, base), width - 2 * PADDING, lambda text: pdf.width(text, SMALL, "")))
        for each, width in zip(row, widths, strict=True)
    ]
    height = max(map(len, cells)) * step + 1.2
    if height < pdf.h / 3 and pdf.get_y() + height > pdf.h - BOTTOM:
        pdf.new_page()
        draw_head(pdf, head, widths)
    while any(cells):
        space = int((pdf.h - BOTTOM - pdf.get_y() - 1.2) / step)
        if space < 1:
            pdf.new_page()
            draw_head(pdf, head, widths)
            continue
        now = [each[:space] for each in cells]
        cells = [each[space:] for each in cells]
        top = pdf.get_y()
        draw_lines(pdf, now, widths, top + 0.6)
        pdf.set_y(top + max(map(len, now)) * step + 1.2)
        pdf.set_draw_color(*RULE)
        pdf.line(MARGIN, pdf.get_y(), MARGIN + pdf.epw, pdf.get_y())


class Characters:
    """The characters that fonts have. Fonts of the system are added when the bundled one lacks some."""

    def __init__(self, pdf: Document) -> None:
        self._pdf = pdf
        self.has_missing = False
        self._known = set(getattr(pdf.fonts["sans"], "cmap", ()))

    def add_fonts(self, text: str) -> None:
        missing = {ord(each) for each in text} - self._known - {ord("\n"), ord("\t")}
        added: list[str] = []
        for path in system_fonts() if missing else ():
            if not missing or len(added) == MAX_FURTHER_FONTS:
                break
            try:
                font = TTFont(path, fontNumber=0, lazy=True)
                found = missing & set(font.getBestCmap() or ()) if "glyf" in font else set()
                if found:
                    name = f"further{len(added)}"
                    self._pdf.add_font(name, "", path)
                    added.append(name)
                    self._known |= found
                    missing -= found
            except (OSError, TTLibError, FPDFException, ValueError, KeyError) as error:
                sys.stderr.write(f"the font {path} is not used: {error}\n")
        self._pdf.set_fallback_fonts(added, exact_match=False)

    def shown(self, text: str) -> str:
        """The text, with numbers instead of characters that no font has."""
        if all(ord(each) in self._known or each in "\n\t" for each in text):
            return text
        self.has_missing = True
        shown: list[str] = []
        for each in text:
            if ord(each) in self._known or each in "\n\t":
                shown.append(each)
            elif shown and shown[-1].startswith("[U+"):
                shown[-1] = f"{shown[-1][:-1]} U+{ord(each):04X}]"
            else:
                shown.append(f"[U+{ord(each):04X}]")
        return "".join(shown)


def system_fonts() -> list[Path]:
    """Fonts of the system that may have further scripts, the preferred first."""
    files = [
        file
        for folder in SYSTEM_FONTS
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in (".ttf", ".ttc", ".otf") and "Bold" not in file.name
    ]
    ranked = [
        (number, file) for file in files for number, name in enumerate(FURTHER_FONTS) if name in file.name
    ]
    return [file for _, file in sorted(ranked)]


def render(report: dict[str, Any]) -> bytes:
    pdf = Document("")
    characters = Characters(pdf)
    blocks, base = report["blocks"], report["base"]
    all_spans = [
        span
        for block in blocks
        for each in (block["spans"], *(one for row in block["rows"] for one in row))
        for span in each
    ]
    characters.add_fonts("".join({*"".join(span["text"] for span in all_spans), *report["title"]}))
    for span in all_spans:
        span["text"] = characters.shown(span["text"])
    pdf.report_title = characters.shown(report["title"].replace("\n", " "))
    pdf.set_title(report["title"])
    if characters.has_missing:
        blocks.insert(2, {"kind": "paragraph", "spans": [{"text": MISSING, "path": ""}]})
    try:
        for block in blocks:
            (draw_table if block["kind"] == "table" else draw_text)(pdf, block, base)
    except TooLong:
        pdf.set_xy(MARGIN, pdf.h - BOTTOM)
        pdf.set_font("sans", "B", SMALL)
        pdf.set_text_color(0, 0, 0)
        pdf.cell(pdf.epw, 4, TRUNCATED)
    return bytes(pdf.output())


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    sys.stdout.buffer.write(render(json.load(sys.stdin)))
