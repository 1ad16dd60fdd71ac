"""The report of an interview as one plain HTML page, without scripts."""

from collections.abc import Iterable
from html import escape

from hutch.flows.interviews.report_blocks import Block, Cell

STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border:1px solid #bbb;padding:.3rem .5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere;\
white-space:pre-wrap}
th{background:#f2f2f2}
a{color:#0b57a4}
@media print{body{margin:0;max-width:none}h2{break-before:page}}
"""


def report_page(title: str, blocks: Iterable[Block], base: str) -> str:
    """The page. Every value is escaped: candidates and models wrote most of them. `base` is the address of
    the server, to which its links lead."""
    body = "".join(_block(each, base) for each in blocks)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _block(block: Block, base: str) -> str:
    text = _cell(block.spans, base)
    if block.kind == "heading":
        return f"<h{block.level}>{text}</h{block.level}>"
    if block.kind == "paragraph":
        return f"<p>{text}</p>"
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in block.head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(each, base)}</td>' for each in row)}</tr>" for row in block.rows
    )
    return f"<table><caption>{text}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(spans: Cell, base: str) -> str:
    return "".join(
        f'<a href="{escape(base + each.path)}">{escape(each.text)}</a>' if each.path else escape(each.text)
        for each in spans
    )
