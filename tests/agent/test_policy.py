"""Rules about what the agent may do, and the commands that they see through."""

import pytest

from hutch.agent.command_words import parse
from hutch.agent.policy import Policy, Rule, parse_rule
from hutch.domain.errors import BadRequest


def policy(*rules: str, default: str = "allow") -> Policy:
    return Policy(tuple(map(parse_rule, rules)), default)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "cd src && git push origin main",
        "FOO=1 BAR=2 git push",
        "git -C deep -c user.name=x push",
        "/usr/bin/git push",
        "echo x | xargs -n 1 git push",
        "sudo -u root env A=b git push",
        "timeout -k 1 10 git push",
        "bash -lc 'git push'",
        "sh -c \"bash -c 'git push'\"",
        "eval git push",
        "echo $(git push)",
        "echo `git push`",
        "cat <(git push)",
        "f() { git push; }; f",
        "if true; then git push; fi",
        "g\\it pu''sh",
        "(git push)",
        "x=$(git push)",
        "git push <<END\ntext\nEND",
        "nohup nice -n 5 git push &",
    ],
)
def test_a_rule_sees_the_command_wherever_it_stands(command: str) -> None:
    assert policy("deny bash git push").decide("bash", command=command).action == "deny"


@pytest.mark.parametrize("command", ["echo git push", "git pull", "# git push", "cat 'git push'", "ls"])
def test_words_about_a_command_are_not_the_command(command: str) -> None:
    assert policy("deny bash git push").decide("bash", command=command).action == "allow"


@pytest.mark.parametrize("command", ["$CMD push", "git${IFS}push", 'echo "unclosed', 'bash -c "$X"'])
def test_what_cannot_be_read_for_sure_is_asked_about(command: str) -> None:
    assert policy("deny bash git push").decide("bash", command=command).action in ("ask", "deny")
    assert policy().decide("bash", command=command).action == "allow"


def test_an_unknown_word_never_makes_a_command_allowed() -> None:
    careful = policy("allow bash git status", default="ask")
    assert careful.decide("bash", command="git status").action == "allow"
    assert careful.decide("bash", command="git $WHAT").action == "ask"
    assert careful.decide("bash", command="git status && rm x").action == "ask"


def test_deny_beats_ask_and_ask_beats_allow() -> None:
    rules = policy("allow bash", "ask bash git", "deny bash git push")
    assert [rules.decide("bash", command=text).action for text in ("ls", "git log", "git push")] == [
        "allow",
        "ask",
        "deny",
    ]
    assert rules.decide("bash", command="ls; git log; git push").rule == "deny bash git push"


def test_paths_and_tools_are_patterns() -> None:
    rules = policy("ask *_file *.lock", "deny write_file secrets/**")
    assert rules.decide("edit_file", paths=["deep/uv.lock"]).action == "ask"
    assert rules.decide("write_file", paths=["src/a.py", "secrets/x/y"]).action == "deny"
    assert rules.decide("read_file", paths=["src/a.py"]).action == "allow"
    assert rules.decide("grep").action == "allow"


def test_an_answer_covers_what_it_says_and_no_more() -> None:
    rules = policy("ask bash git push", "deny bash rm")
    asked = rules.decide("bash", command="git push origin main")
    assert asked.covers == (Rule("allow", "bash", "git push"),)
    granted = rules.granted(asked.covers)
    assert granted.decide("bash", command="git push origin other").action == "allow"
    assert granted.decide("bash", command="git push && rm -rf x").action == "deny"
    both = policy("ask bash git", "ask bash npm").decide("bash", command="git push && npm publish")
    assert both.covers == (Rule("allow", "bash", "git push"), Rule("allow", "bash", "npm publish"))


def test_a_command_that_cannot_be_read_is_never_covered() -> None:
    asked = policy("ask bash git push").decide("bash", command="git push; $X")
    assert (asked.action, asked.covers) == ("ask", ())


def test_who_may_only_narrow_cannot_allow() -> None:
    rules = policy("ask bash git push").narrowed(map(parse_rule, ["allow bash git push", "deny bash curl"]))
    assert rules.decide("bash", command="git push").action == "ask"
    assert rules.decide("bash", command="curl x").action == "deny"


@pytest.mark.parametrize("line", ["", "permit bash", "deny", "deny bash 'git"])
def test_what_is_not_a_rule_is_told(line: str) -> None:
    with pytest.raises(BadRequest, match="rule"):
        parse_rule(line)


def test_hostile_lines_stay_cheap() -> None:
    assert not parse("$(" * 20_000).clear
    assert not parse("x" * 200_000).clear
    assert not parse("bash -c '" * 9 + "ls").clear
