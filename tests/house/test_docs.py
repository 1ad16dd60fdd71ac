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


def test_every_module_that_a_page_names_exists(root: Path) -> None:
    paths = [f"/{path.relative_to(root)}" for path in root.glob("*/**/*.py") if ".venv" not in path.parts]
    missing = [
        f"{page.name}: {name}"
        for page in (root / "docs").glob("*.md")
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text())
        if not any(path.endswith(f"/{name}") for path in paths)
    ]
    assert missing == []


def test_every_folder_in_a_table_of_files_exists(root: Path) -> None:
    missing = [
        f"{page.name}: {package}/{name}/"
        for page in (root / "docs").glob("*.md")
        for package, table in re.findall(
            r"^\| Files in `(\w+)/`(.*?)(?:\n\n|\Z)", page.read_text(), re.M | re.S
        )
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)/`", row.split("|")[1] if row.startswith("|") else "")
        if not (root / "src/hutch" / package / name).is_dir()
    ]
    assert missing == []


def test_the_persona_of_the_example_is_valid(root: Path) -> None:
    page = (root / "docs/personas.md").read_text()
    [text] = re.findall(r"^```markdown\n(.*?)\n```$", page, re.M | re.S)
    persona = parse_persona("deps", text, tuple(tool.name for tool in TOOLS))
    assert (persona.limits.turns, persona.limits.cost_usd) == (40, 2)
