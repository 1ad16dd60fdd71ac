"""Secrets go, everything else stays, and no text makes it slow."""

import itertools
import re
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain import credential_patterns, unescaped_text_positions
from hutch.domain.redaction import MAX_HELD_CHARS, Redactor, redacted_excerpt
from hutch.domain.stream_redactor import StreamRedactor

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 3 + ["Mw=="])
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("secret", "name"),
    [
        ("sk-ant-api03-" + "aB3_-" * 12, "anthropic_key"),
        ("sk-proj-" + "aB3_-" * 12, "openai_key"),
        ("sk-svcacct-" + "aB3_-" * 12, "openai_key"),
        ("sk-" + "a1B2" * 12, "openai_key"),
        ("AIza" + "aB3_-" * 7, "google_key"),
        ("ghp_" + "a1B2" * 9, "github_token"),
        ("gho_" + "a1B2" * 9, "github_token"),
        ("ghs_" + "a1B2" * 9, "github_token"),
        ("ghu_" + "a1B2" * 9, "github_token"),
        ("ghr_" + "a1B2" * 9, "github_token"),
        ("github_pat_" + "a1B2_" * 16, "github_token"),
        ("hutch_" + "a1B2" * 10 + "xyz", "hutch_token"),
        ("hutchlink_" + "a1B2" * 10 + "xyz", "hutch_token"),
        ("hutchinvite_" + "a1B2" * 10 + "xyz", "hutch_token"),
        ("AKIAIOSFODNN7EXAMPLE", "aws_key"),
        ("ASIAIOSFODNN7EXAMPLE", "aws_key"),
        ("xoxb-123456789012-abcdefghijkl", "slack_token"),
        ("xapp-1-A0123456-123456789012-abcdef", "slack_token"),
        (JWT, "jwt"),
        (PEM, "private_key"),
    ],
)
def test_a_well_known_shape_is_replaced_by_its_name(secret: str, name: str) -> None:
    redactor = Redactor()
    for before, after in [
        ("", ""),
        ("key=", " rest"),
        ('{"k": "', '"}'),
        ("line\\n", "\\n"),
        ("\x1b[31m", "\x1b[0m"),
    ]:
        assert redactor.redact(before + secret + after) == f"{before}[redacted:{name}]{after}"


def test_a_private_key_is_redacted_whole_when_indented_escaped_encrypted_or_cut_off() -> None:
    indented = PEM.replace("\n", "\n    ")
    escaped = PEM.replace("\n", "\\n")
    encrypted = PEM.replace(
        "KEY-----\nMII", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\nMII"
    )
    for text in (indented, escaped, encrypted, PEM.partition("\n-----END")[0]):
        assert Redactor().redact(f"a {text} b") == "a [redacted:private_key] b"


@pytest.mark.parametrize(
    "header", ["Authorization: Bearer ", "authorization: bearer ", '"Authorization": "Basic ']
)
def test_an_authorization_header_keeps_its_name_and_loses_its_value(header: str) -> None:
    assert Redactor().redact(f"{header}abc.DEF-123~+/==\nnext") == f"{header}[redacted:authorization]\nnext"


def test_known_values_are_replaced_wherever_they_stand() -> None:
    redactor = Redactor(["correct horse", "short"])
    assert redactor.redact("Xcorrect horseX short") == "X[redacted:secret]X short"


def test_a_known_value_is_found_inside_json_and_urls() -> None:
    redactor = Redactor(['pa"ss\nwörd&'])
    assert redactor.redact(r"{'pa\"ss\nw\u00f6rd&'}") == "{'[redacted:secret]'}"
    assert redactor.redact("?p=pa%22ss%0Aw%C3%B6rd%26") == "?p=[redacted:secret]"


HARD = "hunter2'\"\\pass\tw0rd-é\x00\u200b🐇"


@pytest.mark.parametrize("around", ["", "'", '"', "'\"", "é", "\\", "\n"])
@pytest.mark.parametrize("value", [HARD, "hunter2's", 'hunter "2"', "hunter\\'2'", "plain-value"])
def test_a_known_value_is_found_however_python_prints_it(value: str, around: str) -> None:
    redactor, whole = Redactor([value]), f"before {around}{value}{around} after"
    for text in (repr(whole), ascii(whole), repr([whole, 1]), repr(whole.encode()), repr({whole.encode()})):
        cleaned = redactor.redact(text)
        assert "[redacted:secret]" in cleaned
        assert "hunter" not in cleaned and "plain" not in cleaned


def test_a_value_that_is_no_text_is_taken_all_the_same() -> None:
    assert Redactor(["half-\udc80-value"]).redact("half-\udc80-value") == "[redacted:secret]"


LINES = "first-line-of-it\n  second-line-of-it\r\nshort\nand-the-last-line"


def test_a_value_of_several_lines_is_found_line_by_line() -> None:
    redactor = Redactor([LINES])
    assert redactor.redact(f"a {LINES} b") == "a [redacted:secret] b"
    assert redactor.redact("x=second-line-of-it\n") == "x=[redacted:secret]\n"
    assert (
        redactor.redact(r"'and-the-last-line\nfirst-line-of-it'") == r"'[redacted:secret]\n[redacted:secret]'"
    )
    assert redactor.redact("short") == "short"


@pytest.mark.parametrize("prefix", ["    ", "  | ", "  | | ", "\t"])
def test_a_value_of_several_lines_is_found_when_its_lines_are_indented(prefix: str) -> None:
    text = "first-line-of-it\nshort\nnot-so-long\nend"
    indented = text.replace("\n", f"\n{prefix}")
    assert Redactor([text]).redact(f"{prefix}{indented}\n") == f"{prefix}[redacted:secret]\n"


RED, PLAIN = "\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"


@pytest.mark.parametrize(
    "between",
    [
        RED,
        "\r",
        " \r",
        "\x1b[1;5H",
        "\x1b]0;a title\x07",
        "\x1b]8;;http://a.test\x1b\\",
        "\x1b(B",
        "\\x1b[31m",
        "\\u001b[0;31m",
        "\x1b7",
        "\0",
        "\b",
    ],
)
@pytest.mark.parametrize("secret", ["Zq7-vaultvalue-93kxl", "ghp_" + "a1B2" * 9])
def test_a_secret_is_found_with_escapes_and_controls_in_it(secret: str, between: str) -> None:
    redactor = Redactor(["Zq7-vaultvalue-93kxl"])
    for cut in range(1, len(secret)):
        shown = redactor.redact(f"a {secret[:cut]}{between}{secret[cut:]}{PLAIN} b")
        assert shown.startswith("a [redacted:") and shown.endswith(f"{PLAIN} b"), shown
        masked = redactor.mask(f"a {secret[:cut]}{between}{secret[cut:]} b".encode())
        assert masked == f"a {'*' * cut}{between}{'*' * (len(secret) - cut)} b".encode()


def test_the_colour_of_text_after_a_secret_stays() -> None:
    redactor = Redactor(["Zq7-vaultvalue-93kxl"])
    assert redactor.redact(f"Zq7-{RED}vault{PLAIN}value-93kxl b") == f"[redacted:secret]{RED}{PLAIN} b"


@pytest.mark.parametrize(
    "end",
    [
        *("\n", "\r\n", "\n    ", "\n+", "\n-", "\n  12\t", "\n12:", "\n  | "),
        *("\n+    ", "\n-\t", "\n  12\t    ", "\\n", "\\r\\n", "\\n    ", "\\n\\t\\t"),
    ],
)
def test_a_known_value_is_found_where_it_goes_on_in_the_next_line(end: str) -> None:
    redactor = Redactor(["Zq7+vault/value93kxlPmw0Tt=="])
    for cut in range(4, 24):
        text = "Zq7+vault/value93kxlPmw0Tt=="
        text = f"+{text[:cut]}{end}{text[cut:]} b"
        assert redactor.redact(text) == "+[redacted:secret] b", text


@pytest.mark.parametrize(
    "spelled",
    [
        "k%2fV%3d%26w%20\u0022%c3%a9%2d1",
        "k%2FV%3D%26w+%22%C3%A9-1",
        'k\\/V=&w \\"\\u00e9-1',
        "k\\u002fV\\u003d\\u0026w \\u0022\\u00E9-1",
        "k/V=&amp;w &quot;\u00e9-1",
        "k&#47;V=&#38;w &#x22;&#233;&#x2D;1",
    ],
)
def test_a_known_value_is_found_as_other_programs_spell_it(spelled: str) -> None:
    redactor = Redactor(['k/V=&w "\u00e9-1'])
    assert redactor.redact(f"a={spelled}&b") == "a=[redacted:secret]&b"
    stream = StreamRedactor(redactor)
    assert "".join([*map(stream.add, f"a={spelled}&b"), stream.end()]) == "a=[redacted:secret]&b"


def test_a_private_key_is_redacted_whole_when_its_lines_are_numbered_or_signed() -> None:
    lines = PEM.splitlines()
    for before in ("{:>6}\t", "{:>6}: ", "{:>6}- ", "{}:", "+", "-", " "):
        text = "\n".join(before.format(number) + line for number, line in enumerate(lines, start=9))
        assert Redactor().redact(text) == before.format(9) + "[redacted:private_key]", before


def test_a_private_key_that_is_known_hides_no_other() -> None:
    other = PEM.replace("MII", "MIX")
    assert Redactor([PEM]).redact(other) == "[redacted:private_key]"
    assert Redactor().redact(PEM.replace("\n", "\n  | ")) == "[redacted:private_key]"


def test_of_two_values_that_begin_alike_the_longer_is_redacted_whole() -> None:
    assert Redactor(["password1", "password1-and-more"]).redact("password1-and-more") == "[redacted:secret]"


@pytest.mark.parametrize(
    "text",
    [
        "task-abcdefghijklmnopqrstuvwxyz0123",
        "class sk-fading-circle sk-cube-grid",
        "the bearer of this letter",
        "Authorization: Bearer $TOKEN",
        "AKIAIOSFODNN7EXAMPLEANDMORE",
        "-----BEGIN PRIVATE KEY----- marks where a key begins",
        "-----BEGIN CERTIFICATE-----\n" + BODY,
        "commit 697f5c0d4e1b2a3c4d5e6f708192a3b4c5d6e7f8",
        "",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor().redact(text) == text


def test_the_standard_library_holds_nothing_that_looks_like_a_secret() -> None:
    redactor, hits = Redactor(), []
    for file in islice(sorted(Path(sysconfig.get_path("stdlib")).glob("*/*.py")), 500):
        text = file.read_text(encoding="utf-8", errors="replace")
        if "test" not in file.parts and redactor.redact(text) != text:
            hits.append(file.name)
    assert hits == []


PATTERNS = {
    "known and shapes": Redactor(["secret-value", "first-line-of-it\n\n\nshort", HARD])._pattern,
    **{
        name: pattern
        for name, pattern in vars(unescaped_text_positions).items()
        if isinstance(pattern, re.Pattern)
    },
    **{
        name: pattern
        for name, pattern in vars(credential_patterns).items()
        if isinstance(pattern, re.Pattern)
    },
}


def unbounded(parsed: Any) -> Iterator[str]:
    """The repeats in a pattern that may be long and are tried again with less."""
    for op, argument in parsed:
        if str(op) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] > 300:
            yield f"{op} {argument[2]}"
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            if isinstance(part, _parser.SubPattern):
                yield from unbounded(part)
            elif isinstance(part, list):
                for branch in part:
                    if isinstance(branch, _parser.SubPattern):
                        yield from unbounded(branch)


@pytest.mark.parametrize("name", PATTERNS)
def test_every_repeat_is_bounded_or_possessive(name: str) -> None:
    """So a hostile text costs no more than its length; `bench/claim_redaction.py` measures it."""
    assert list(unbounded(_parser.parse(PATTERNS[name].pattern, PATTERNS[name].flags & ~re.UNICODE))) == []


class Counting(Redactor):
    """Counts the characters that it is asked to look at."""

    looked_at = 0

    def redact_after(self, text: str, place: int) -> str:
        self.looked_at += len(text)
        return super().redact_after(text, place)

    def safe_cut(self, text: str, place: int) -> int:
        self.looked_at += len(text) if 0 < place < len(text) else 0
        return super().safe_cut(text, place)


@pytest.mark.parametrize("unit", ["\x1b", "\x1b]", "\\", "%73%65%63%72", "secr", "secr\n", "secr%61"])
def test_a_hostile_stream_is_looked_at_a_few_times(unit: str) -> None:
    redactor = Counting(["secret-value", "secret-valve", "first-line-of-it\n\n\nshort", HARD])
    stream = StreamRedactor(redactor)
    text = unit * (1_000_000 // len(unit))
    for at in range(0, len(text), 4096):
        stream.add(text[at : at + 4096])
    assert redactor.looked_at < 8 * len(text)


@pytest.mark.parametrize("place", [0, *(32 * 1024 - back for back in range(0, 40, 3)), 99_000])
@pytest.mark.parametrize("colour", ["", "\x1b[1m"])
def test_a_value_over_two_lines_is_found_anywhere_in_a_long_text(place: int, colour: str) -> None:
    value, text = "Zq7-vaultvalue-93kxl", "words of an honest text\n" * 5000
    before, after = colour + text[:place], text[place:]
    cleaned = Redactor([value]).redact(f"{before}\n{value[:9]}\n    {value[9:]}\n{value}\n{after}")
    assert cleaned == f"{before}\n[redacted:secret]\n[redacted:secret]\n{after}"


STREAMED = (
    "the key is sk-ant-api03-abcdefghijklmnopqrstuv and more\n"
    "Authorization: Bearer abcdefghijklmnop.qrst and text\n"
    "value hunter2-hunter2, spaced my secret value here; end\n"
    "hunter2-\x1b[31mhunter2\x1b[m and hunter\r\n2-hun\n  ter2 and\n"
    "+hun\n+ter2-hunter2 %68unter2%2dhunter2 hunt\x1b[3m\n"
    "-----BEGIN PRIVATE KEY-----\n"
    + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n" * 4
    + "-----END PRIVATE KEY-----\nplain words"
)


@given(st.lists(st.integers(1, len(STREAMED)), max_size=40))
def test_a_secret_that_lies_across_pieces_is_found(cuts: list[int]) -> None:
    redactor = Redactor(["hunter2-hunter2", "my secret value"])
    stream, places = StreamRedactor(redactor), sorted({0, *cuts, len(STREAMED)})
    shown = [stream.add(STREAMED[a:b]) for a, b in itertools.pairwise(places)]
    assert "".join(shown) + stream.end() == redactor.redact(STREAMED)


def test_plain_words_are_shown_as_they_come() -> None:
    stream = StreamRedactor(Redactor())
    assert [stream.add(word) for word in ("Hello ", "wor", "ld, ", "bye")] == ["Hello ", "", "world, ", ""]
    assert stream.end() == "bye"


def test_a_stream_never_holds_back_without_bound() -> None:
    stream = StreamRedactor(Redactor())
    shown = sum(len(stream.add("x" * 1000)) for _ in range(1000))
    assert shown > 1_000_000 - 2 * MAX_HELD_CHARS


def test_a_flood_of_one_value_shows_nothing_of_it() -> None:
    value = "S3cr3tVaultValue-Zq81xyPLMN"
    stream = StreamRedactor(Redactor([value]))
    shown = [*(stream.add(value * 50) for _ in range(200)), stream.end()]
    assert "".join(shown) == "[redacted:secret]" * 50 * 200
    for piece in filter(None, shown):
        assert not piece.replace("[redacted:secret]", "")


PRINTED = (
    f"grün sk-ant-{'K3y' * 12} and {PEM}\nAuthorization: Bearer K3yK3yK3y, süß-K3yK3y-süß end\n".encode()
)
NON_ASCII = Redactor(["süß-K3yK3y-süß"])


def redact(data: bytes) -> str:
    return NON_ASCII.redact(data.decode(errors="replace"))


def test_no_part_of_a_secret_is_in_an_excerpt_wherever_it_begins_and_ends() -> None:
    assert redact(PRINTED).count("[redacted") == 4
    for start in range(len(PRINTED)):
        for end in (start + 1, start + 7, start + 60, len(PRINTED)):
            shown = redacted_excerpt(PRINTED, start, end, redact)
            assert not any(part in shown for part in ("K3", "3y", "sk-a", "ant-", "MI", "cKj")), (start, end)


@given(st.lists(st.integers(1, len(PRINTED)), max_size=40), st.binary(max_size=60))
def test_excerpts_one_after_another_leave_nothing_out(cuts: list[int], more: bytes) -> None:
    for data in (PRINTED, more):
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        shown = [redacted_excerpt(data, start, end, redact) for start, end in itertools.pairwise(places)]
        # Of a key that is cut at the end of a line, that end may be shown as well as the key's.
        assert "".join(shown).split() == redact(data).split()


def test_a_line_that_is_redacted_in_another_way_by_now_is_repeated() -> None:
    def last_written(data: bytes) -> str:
        return "\n".join(line.rpartition("\r")[2] for line in redact(data).split("\n"))

    data = b"one\n40%\r45%\ntwo\n"
    assert redacted_excerpt(data, 7, len(data), last_written) == "5%\ntwo\n"
    assert redacted_excerpt(data, 7, len(data), last_written, by_line=True) == "45%\ntwo\n"
    assert redacted_excerpt(data, 12, len(data), last_written, by_line=True) == "two\n"


@pytest.mark.parametrize(
    ("data", "held"),
    [
        (b"words and more", 0),
        (b"key sk-ant-K3", 9),
        (b"a s\xc3\xbc\xc3\x9f-K3", 8),
        (b"gr\xc3", 1),
        (b"gr\xff", 0),
        (b"Authorization: Bearer K3y", 25),
        (b"-----BEGIN PRIVATE KEY-----\n" + b"x" * 2 * MAX_HELD_CHARS, 0),
        (b"", 0),
    ],
)
def test_a_possible_secret_is_held_back(data: bytes, held: int) -> None:
    assert NON_ASCII.held_start(data) == len(data) - held
