"""Pages of the documentation can be found, and lead somewhere."""

import re
from pathlib import Path

from hutch.agent.persona import parse_persona
from hutch.agent.tools.builtin import TOOLS


def _anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index(root: Path) -> None:
    index = (root / "docs/README.md").read_text()
    pages = {page.name for page in (root / "docs").glob("*.md")} - {"README.md"}
    assert sorted(name for name in pages if f"]({name}" not in index) == []


def test_every_link_leads_to_a_page_and_a_heading(root: Path) -> None:
    broken = []
    for page in [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            linked = (page.parent / name).resolve() if name else page
            if not linked.exists() or (anchor and anchor not in _anchors(linked)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_the_persona_of_the_example_is_valid(root: Path) -> None:
    page = (root / "docs/personas.md").read_text()
    [text] = re.findall(r"^```markdown\n(.*?)\n```$", page, re.M | re.S)
    persona = parse_persona("deps", text, tuple(tool.name for tool in TOOLS))
    assert (persona.limits.turns, persona.limits.cost_usd) == (40, 2)
