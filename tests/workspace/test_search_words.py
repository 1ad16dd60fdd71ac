"""The words of texts and queries."""

import pytest

from hutch.workspace.code_search.search_words import MAX_REPEATS, index_words, query_words, split


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("getUserNames", ("getusernames", "get", "user", "nam")),
        ("HTTPServer", ("httpserver", "http", "serv")),
        ("find_by_path", ("find_by_path", "find", "by", "path")),
        ("__init__", ("init",)),
        ("sha256", ("sha256", "sha", "256")),
        ("größe", ("größe", "gr", "öß")),
        ("x" * 65, ()),
    ],
)
def test_identifiers_are_split(run: str, words: tuple[str, ...]) -> None:
    assert split(run) == words


def test_forms_of_a_word_are_one_word() -> None:
    assert len({split(form) for form in ("parse", "parses", "parsed", "parsing", "parser")}) == 1
    assert len({split(form) for form in ("stop", "stops", "stopped", "stopping")}) == 1
    assert len({split(form) for form in ("match", "matches", "matching")}) == 1
    assert split("class") != split("clas")


def test_a_query_has_no_common_words_unless_it_has_no_others() -> None:
    assert query_words("where is the retry of a request") == ["retry", "request", "retry_request"]
    assert query_words("all of it") == ["all", "of", "it", "all_of", "of_it"]
    assert query_words("!? … ''") == []


def test_addresses_in_a_query_say_nothing_about_code() -> None:
    query = "Fix the ring buffer, see https://forge.example/team/project/issues/137."
    assert query_words(query) == query_words("Fix the ring buffer, see")
    assert "forg" in query_words("https://forge.example/team")


def test_credits_and_numbers_of_issues_say_nothing_about_code() -> None:
    words = query_words("Fix the ring buffer (PR 12, #30). Thanks @mona, who reported this in issue 7!")
    assert words == ["ring", "buf", "ring_buffer"]
    assert query_words("@dataclass, by @mona") == ["dataclass"]
    assert query_words("thanks") == ["thank"]


def test_one_word_counts_only_a_few_times() -> None:
    assert index_words("spam " * 1_000).split() == ["spam"] * MAX_REPEATS
