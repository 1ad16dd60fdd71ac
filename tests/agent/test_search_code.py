"""search_code and outline on real workspaces."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.tool_call_rules import Policy, parse_rule
from hutch.domain.redaction import Redactor
from hutch.workspace.code_search import code_index
from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio

SECRET = "sk-ant-api03-" + "k9" * 20
FILES = {
    "src/retries.py": (
        b"class RetryPolicy:\n    def wait_before(self, attempt):\n        '''Exponential backoff.'''\n"
        b"        return 2 ** attempt\n\n\ndef unrelated():\n    pass\n"
    ),
    "src/client.py": b"from retries import RetryPolicy\n\npolicy = RetryPolicy()\n",
    "web/app.ts": b"export function showBanner(text: string) { return text; }\n",
    "docs/network.md": b"# Network\n\n## Timeouts\nRequests end after a while.\n",
    ".env": b"RetryPolicy=1\n",
    ".gitignore": b"ignored.py\n",
    "ignored.py": b"class RetryPolicy: pass\n",
    "keys.py": f"def retry_key():\n    return '{SECRET}'\n".encode(),
    "raw.bin": b"RetryPolicy\0\xff",
}


async def test_a_symbol_is_found_where_it_is_defined_and_then_where_it_is_used(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        found = await env.use("search_code", query="RetryPolicy")
    first, second = found.data["matches"][:2]
    assert (first["path"], first["first_line"], first["last_line"], first["symbol"]) == (
        *("src/retries.py", 1, 4, "RetryPolicy"),
    )
    assert "defines RetryPolicy" in first["why"]
    assert second["path"] == "src/client.py" and "uses RetryPolicy in lines 1, 3" in second["why"]
    paths = {match["path"] for match in found.data["matches"]}
    assert not paths & {".env", "ignored.py", "raw.bin"}
    assert "src/retries.py:1-4 class RetryPolicy (defines RetryPolicy" in found.text


async def test_words_find_parts_of_identifiers_and_other_forms(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        banner = await env.use("search_code", query="where are banners shown")
        waiting = await env.use("search_code", query="exponential waiting", limit=1)
        page = await env.use("search_code", query="timeout", path="docs")
        nothing = await env.use("search_code", query="zebra")
    assert banner.data["matches"][0]["path"] == "web/app.ts"
    (match,) = waiting.data["matches"]
    assert (match["symbol"], match["first_line"], match["last_line"]) == ("RetryPolicy.wait_before", 2, 4)
    assert match["lines"] == [
        {"line": 2, "text": "def wait_before(self, attempt):"},
        {"line": 3, "text": "'''Exponential backoff.'''"},
    ]
    assert [each["symbol"] for each in page.data["matches"]] == ["Timeouts"]
    assert nothing.data["matches"] == [] and "No match" in nothing.text


async def test_sources_come_before_data_examples_and_pages_that_match_as_well(tmp_path: Path) -> None:
    line = b"the spooler drains its queue\n"
    paths = ("data/a.json", "docs/a.md", "examples/a.py", "spool/a.py")
    async with open_tool_env(tmp_path, {**FILES, **dict.fromkeys(paths, line)}) as env:
        found = await env.use("search_code", query="drains")
    assert [each["path"] for each in found.data["matches"]] == [
        *("spool/a.py", "docs/a.md", "data/a.json", "examples/a.py"),
    ]


async def test_of_files_that_mention_a_word_the_large_one_comes_first(tmp_path: Path) -> None:
    work = "".join(f"def step_{number}():\n    drain({number})\n" for number in range(200))
    files = {**FILES, "all_steps.py": b"drain()\n", "steps.py": work.encode()}
    async with open_tool_env(tmp_path, files) as env:
        found = await env.use("search_code", query="drain")
    assert [each["path"] for each in found.data["matches"]] == ["steps.py", "all_steps.py"]


async def test_changes_are_found_at_once_and_only_they_are_parsed(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("search_code", query="RetryPolicy")
        database = env.context.workspace.directory / code_index.FILE
        before = code_index.CodeIndexTables(database)
        known = before.counts()
        before.close()
        await env.use("write_file", path="src/later.py", content="def zebra_crossing(): pass\n")
        await env.use("bash", command="mv src/client.py src/renamed.py; rm web/app.ts")
        later = await env.use("search_code", query="zebra crossing")
        renamed = await env.use("search_code", query="RetryPolicy")
        gone = await env.use("search_code", query="showBanner")
        after = code_index.CodeIndexTables(database)
        counts = after.counts()
        after.close()
    assert later.data["matches"][0]["path"] == "src/later.py"
    assert "src/renamed.py" in {each["path"] for each in renamed.data["matches"]}
    assert "web/app.ts" not in {each["path"] for each in gone.data["matches"]}
    assert counts == (known[0], known[1] + 1)  # one new version: a renamed file is not parsed again


async def test_rules_and_settings_hide_files(tmp_path: Path) -> None:
    rule = parse_rule("deny read_file src/retries.py")
    async with open_tool_env(tmp_path, FILES) as env:
        env.context = replace(env.context, ignore=("docs/",), hides=Policy(rules=(rule,)).hides)
        found = await env.use("search_code", query="RetryPolicy exponential timeouts")
        outline = await env.use("outline")
    assert not {each["path"] for each in found.data["matches"]} & {"src/retries.py", "docs/network.md"}
    lines = outline.text.splitlines()
    assert "src/client.py: policy" in lines and not [line for line in lines if line.startswith("docs")]
    assert lines[-1] == "(Left out: the files that `deny read_file src/retries.py` excludes.)"
    assert "src/retries.py" not in "".join(lines[:-1])


async def test_secrets_are_not_shown_and_readers_cannot_confirm_a_guess(tmp_path: Path) -> None:
    redactor = Redactor([SECRET])
    async with open_tool_env(tmp_path, FILES) as env:
        env.redact(redactor)
        found = await env.use("search_code", query="retry key return")
        env.context = replace(env.context, mask=redactor.mask)
        guessed = await env.use("search_code", query=f"return retry {SECRET}")
        hidden = await env.use("search_code", query="retry key")
    assert found.data["matches"][0]["path"] == "keys.py"
    assert SECRET not in found.text and "k9k9" not in str(found.data)
    for result in (guessed, hidden):
        assert "keys.py" not in {each["path"] for each in result.data["matches"]}


async def test_an_outline_shows_symbols_and_fits_into_its_limit(tmp_path: Path) -> None:
    many = {f"pkg/m{number}/f{at}.py": b"def f(): pass\n" for number in range(30) for at in range(40)}
    async with open_tool_env(tmp_path, FILES | many) as env:
        file = await env.use("outline", path="src/retries.py")
        directory = await env.use("outline", path="src")
        everything = await env.use("outline")
        missing = await env.use("outline", path="none")
    assert file.text == (
        "        1-4 class RetryPolicy\n        2-4   function wait_before\n        7-8 function unrelated"
    )
    assert directory.text == ("src/client.py: policy\nsrc/retries.py: RetryPolicy, unrelated, wait_before")
    assert len(everything.text) <= 13_000 and "pkg/m0/ (40 files)" in everything.text
    assert not missing.ok


async def test_a_query_cannot_be_a_query_of_the_database(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        for query in ('"', 'names:x" OR "y', "NEAR(a b)", "a* AND -b", "x'); DROP TABLE file; --"):
            result = await env.use("search_code", query=query)
            assert result.ok or "no words" in result.text
        assert (await env.use("search_code", query="RetryPolicy")).data["matches"]


async def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("search_code", query="RetryPolicy")
        (env.context.workspace.directory / code_index.FILE).write_bytes(b"not a database" * 1_000)
        found = await env.use("search_code", query="RetryPolicy")
    assert found.data["matches"][0]["path"] == "src/retries.py"


async def test_files_that_break_the_parser_are_found_by_their_words(tmp_path: Path) -> None:
    files = {"bomb.py": b"zebra = " + b"(" * 200_000, "fine.py": b"def zebra(): pass\n"}
    async with open_tool_env(tmp_path, files) as env:
        found = await env.use("search_code", query="zebra")
    assert [each["path"] for each in found.data["matches"]] == ["fine.py", "bomb.py"]
