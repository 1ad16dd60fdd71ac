"""Ids sort by age, begin with a type, and are validated when parsed."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.ids import (
    matches_id,
    new_input_id,
    new_run_id,
    new_session_id,
    parse_session_id,
    resolve_id,
)


def test_ids_made_one_after_the_other_rise_and_differ() -> None:
    ids = [new_session_id() for _ in range(10_000)]
    assert ids == sorted(set(ids))


def test_the_prefix_of_an_id_names_its_kind() -> None:
    made = [new_session_id(), new_run_id(), new_input_id()]
    assert [(id_[:4], len(id_)) for id_ in made] == [("ses_", 30), ("run_", 30), ("inp_", 30)]


def test_a_session_id_from_outside_is_taken_as_it_is() -> None:
    session_id = new_session_id()
    assert parse_session_id(session_id) == session_id


@pytest.mark.parametrize(
    "text",
    ["", "ses_", "ses_../../etc/passwd", "run_01jd2m4c9k7w6t0q8n5x3vbaeh", "SES_01JD", "ses_" + "z" * 26],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequest, match=r"is not a session id. One looks like ses_"):
        parse_session_id(text)


def test_a_huge_wrong_id_is_not_echoed_whole() -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_session_id("x" * 1_000_000)
    assert len(str(refusal.value)) < 300


def test_a_part_of_an_id_names_it() -> None:
    id = "chg_01jd2m4c9k7w6t0q8n5x3vbaeh"
    for name in (id, "chg_01j", "01jd2", "baeh", "vba" + "eh"):
        assert matches_id(id, name), name
    for name in ("", "eh", "ses_01j", "2m4c", "BAEH", "01jd2%", "../baeh"):
        assert not matches_id(id, name), name


def test_an_ambiguous_id_lists_its_matches() -> None:
    ids = [f"chg_01jd2m4c9k7w6t0q8n5x3vba{end}" for end in ("000", "001", "002", "100")]
    assert resolve_id(ids, "002", "changes") == ids[2]
    assert resolve_id(ids, ids[1], "changes") == ids[1]
    assert resolve_id(ids, "zzz", "changes") is None
    with pytest.raises(
        BadRequest, match=rf"'01jd2' matches 4 changes: {ids[0]}, {ids[1]}, {ids[2]}, …\. Give more"
    ):
        resolve_id(ids, "01jd2", "changes")
