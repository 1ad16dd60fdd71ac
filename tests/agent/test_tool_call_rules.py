"""Rules about what the agent may do, and the commands that they see through."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.agent.shell_command_parser import MAX_LENGTH, Parsed, parse
from hutch.agent.tool_call_rules import FILE_TOOLS, Action, Decision, Policy, Rule, parse_rule
from hutch.agent.tools.builtin import TOOLS
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
        "bash -euo pipefail -c 'git push'",
        "bash -ceuo pipefail 'git push'",
        "bash --rcfile x +o posix -c 'git push'",
        "sudo --user root git push",
        "env A=b git push $WHERE",
        "find . -exec find . -exec git push \\;",
        "find . -name x -exec git push \\; -o -execdir sh -c 'ls' \\;",
    ],
)
def test_a_rule_sees_a_command_anywhere_in_the_line(command: str) -> None:
    assert policy("deny bash git push").decide("bash", command=command).action == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "echo git push",
        "git pull",
        "# git push",
        "cat 'git push'",
        "ls",
        "find . -name 'git push'",
        "env A=b ls -S",
    ],
)
def test_text_that_mentions_a_command_is_not_the_command(command: str) -> None:
    assert policy("deny bash git push").decide("bash", command=command).action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "$CMD push",
        "git${IFS}push",
        'echo "unclosed',
        'bash -c "$X"',
        "echo git push | sh",
        "bash -s <<END\ngit push\nEND",
        "bash -ex",
        "bash $HOW x",
        "env -S 'git push'",
        "bash build.sh -c x",
        "bash -eu -o pipefail build.sh",
    ],
)
def test_unclear_commands_need_approval(command: str) -> None:
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


def test_a_search_needs_an_allow_for_all_files_below_and_is_denied_by_any() -> None:
    rules = policy("allow grep src/**", "allow grep docs/*", "deny grep src/secrets/**", default="ask")
    for path, action in (("src", "allow"), ("docs", "ask"), ("", "ask"), ("src/secrets", "deny")):
        assert (path, rules.decide("grep", below=[path]).action) == (path, action)
    hidden = rules.hides("grep", "src")
    assert [hidden(path) for path in ("src/a", "src/secrets/a/b", "src/secrets.py")] == [False, True, False]


def test_an_answer_covers_only_its_command() -> None:
    rules = policy("ask bash git push", "deny bash rm")
    asked = rules.decide("bash", command="git push origin main")
    assert asked.covers == (Rule("allow", "bash", "git push"),)
    granted = rules.granted(asked.covers)
    assert granted.decide("bash", command="git push origin other").action == "allow"
    assert granted.decide("bash", command="git push && rm -rf x").action == "deny"
    both = policy("ask bash git", "ask bash npm").decide("bash", command="git push && npm publish")
    assert both.covers == (Rule("allow", "bash", "git push"), Rule("allow", "bash", "npm publish"))


def test_an_unclear_command_is_never_covered() -> None:
    asked = policy("ask bash git push").decide("bash", command="git push; $X")
    assert (asked.action, asked.covers) == ("ask", ())


@pytest.mark.parametrize(
    ("shown", "other"),
    [
        ("git status", "LD_PRELOAD=./x.so git status > mod.py"),
        ("git status", "git -c core.fsmonitor=./x status"),
        ("git status", "git -C /elsewhere status"),
        ("git status", "git() { ./x; }; git status"),
        ("git status", "PATH=.:$PATH; git status"),
        ("git status", "export LD_PRELOAD=x; git status"),
        ("git status", "./git status"),
        ("git status", "env LD_PRELOAD=x git status"),
        ("git status", "sudo git status"),
        ("cat a.txt", "cat a.txt > .git/hooks/pre-commit"),
        ("cat a.txt", "> .git/hooks/pre-commit cat a.txt"),
        ("cat a.txt", "{ cat a.txt; } >> x"),
        ("python", "python <<END\nimport os\nEND"),
        ("git $A", "git $B --force"),
        ("rm 'x*'", "rm xyz"),
    ],
)
def test_an_answer_does_not_cover_another_command(shown: str, other: str) -> None:
    rules = policy("ask bash")
    granted = rules.granted(rules.decide("bash", command=shown).covers)
    asked = granted.decide("bash", command=other)
    assert asked.action == "ask"
    covered = policy(*(str(rule) for rule in rules.decide("bash", command=shown).covers), default="ask")
    assert covered.decide("bash", command=other).action == "ask"


@pytest.mark.parametrize(
    "command", ["git status", "git status 2>&1", "cd x && git status -s", "timeout 9 git status 2>/dev/null"]
)
def test_an_answer_covers_the_command_wherever_it_is_plain(command: str) -> None:
    rules = policy("ask bash git")
    granted = rules.granted(rules.decide("bash", command="git status").covers)
    assert granted.decide("bash", command=command).action == "allow"


def test_narrowing_rules_cannot_allow() -> None:
    rules = policy("ask bash git push").narrowed(map(parse_rule, ["allow bash git push", "deny bash curl"]))
    assert rules.decide("bash", command="git push").action == "ask"
    assert rules.decide("bash", command="curl x").action == "deny"


@pytest.mark.parametrize("line", ["", "permit bash", "deny", "deny bash 'git"])
def test_an_invalid_rule_is_refused(line: str) -> None:
    with pytest.raises(BadRequest, match="rule"):
        parse_rule(line)


UNREADABLE = {
    "takes the parser minutes": "a|" * 50_000,
    "too long": "x" * (MAX_LENGTH + 1),
    "too deep": "bash -c '" * 9 + "ls",
    "nothing but substitutions": "$(" * 20_000,
    "searches that search": "find -exec " * 9_000 + "$X",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_text_that_the_parser_gives_up_on_is_not_allowed_by_a_narrower_rule(text: str) -> None:
    assert not parse(text).clear
    command = f"git status; {text}"
    assert policy("deny bash git push").decide("bash", command=command).action == "ask"
    assert policy("deny bash").decide("bash", command=text).action == "deny"
    assert policy("ask bash").decide("bash", command=command).action == "ask"
    for default in ("ask", "deny"):
        decision = policy("allow bash git status", default=default).decide("bash", command=command)
        assert (decision.action, decision.covers) == (default, ())
    assert parse("ls") == Parsed((("ls",),), clear=True)  # whatever became of the process


@pytest.mark.parametrize("command", ["> precious", "x=1", "# nothing", ""])
def test_a_rule_for_all_commands_holds_for_lines_without_a_command(command: str) -> None:
    assert policy("deny bash").decide("bash", command=command).action == "deny"
    asked = policy("ask bash").decide("bash", command=command)
    assert (asked.action, asked.covers) == ("ask", ())
    assert policy("deny bash git push").decide("bash", command=command).action == "allow"


def test_no_grammar_is_loaded_where_the_rules_are() -> None:
    script = (
        "import sys; from hutch.agent.tool_call_rules import Policy, parse_rule\n"
        "rules = Policy((parse_rule('deny bash git push'),))\n"
        "assert rules.decide('bash', command='cd x && git push').action == 'deny'\n"
        "print([name for name in sys.modules if name.startswith('tree_sitter')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_commands_are_parsed_by_one_process_that_stays() -> None:
    parse("ls")
    before = parsers()
    assert len(before) == 1
    for number in range(100):
        assert parse(f"echo {number} | cat").clear
    assert parsers() == before


def parsers() -> set[str]:
    """The processes below this one that parse commands."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1] if line else ""
        except OSError:
            continue  # it has ended meanwhile
        if b"tree_sitter_bash" in line and parent == str(os.getpid()):
            found.add(entry.name)
    return found


@pytest.mark.parametrize("named", sorted(FILE_TOOLS))
@pytest.mark.parametrize("action", ["ask", "deny"])
def test_a_rule_about_one_file_tool_holds_for_all_of_them(named: str, action: str) -> None:
    rules = policy(f"{action} {named} *.lock")
    for tool in FILE_TOOLS:
        assert rules.decide(tool, paths=["a.lock"]).action == action
        assert rules.decide(tool, paths=["a.py"]).action == "allow"
    assert rules.decide("read_file", paths=["a.lock"]).action == "allow"


def test_allowing_one_file_tool_allows_no_other() -> None:
    rules = policy("allow edit_file", default="ask")
    assert rules.decide("edit_file", paths=["a"]).action == "allow"
    assert rules.decide("write_file", paths=["a"]).action == "ask"


def test_an_answer_about_a_file_holds_for_all_file_tools() -> None:
    asked = policy("ask write_file")
    granted = asked.granted(asked.decide("apply_patch", paths=["a"]).covers)
    assert granted.decide("edit_file", paths=["a"]).action == "allow"
    assert granted.decide("edit_file", paths=["b"]).action == "ask"


def test_every_tool_that_changes_files_is_known_to_the_policy() -> None:
    """`debug` runs code: the rules about commands apply to it."""
    naming = [tool for tool in TOOLS if hasattr(tool.arguments, "touched") and not tool.parallel]
    assert {tool.name for tool in naming if not hasattr(tool.arguments, "runs_code")} == FILE_TOOLS
    assert {tool.name for tool in naming} - FILE_TOOLS == {"debug"}


@pytest.mark.parametrize(
    ("rules", "default", "action", "rule", "covers"),
    [
        ((), "allow", "ask", "default", True),
        (("allow *",), "allow", "ask", "default", True),  # a rule for all tools is not meant for this one
        (("allow terminal_type",), "allow", "allow", "allow terminal_type", False),
        (("allow terminal_type 1",), "allow", "allow", "allow terminal_type 1", False),
        (("allow terminal_type 2",), "allow", "ask", "default", True),
        (("allow terminal_type", "ask terminal_*"), "allow", "ask", "ask terminal_*", True),
        (("allow terminal_type", "deny *"), "allow", "deny", "deny *", False),
        (("allow terminal_type",), "deny", "allow", "allow terminal_type", False),
        ((), "deny", "deny", "default", False),
        (("deny bash",), "allow", "deny", "deny bash", False),
        (("deny exec",), "allow", "deny", "deny exec", False),
        (("allow terminal_type", "deny terminal"), "allow", "deny", "deny terminal", False),
        # Text that is typed in parts cannot be compared with a rule: a user must see each text.
        (
            ("allow terminal_type", "deny bash git push"),
            "allow",
            "ask",
            "deny bash git push (it may be typed)",
            False,
        ),
        (("ask bash rm",), "allow", "ask", "default", False),
    ],
)
def test_typing_in_a_terminal_is_asked_about_unless_a_rule_names_it(
    rules: tuple[str, ...], default: Action, action: Action, rule: str, covers: bool
) -> None:
    policy = Policy(tuple(map(parse_rule, rules)), default)
    decision = policy.decide("terminal_type", paths=("1",))
    expected = (Rule("allow", "terminal_type", "1"),) if covers else ()
    assert decision == Decision(action, rule, expected)


def test_an_approved_terminal_is_not_asked_about_again_unless_commands_have_rules() -> None:
    granted = (Rule("allow", "terminal_type", "1"),)
    policy = Policy().granted(granted)
    assert policy.decide("terminal_type", paths=("1",)).action == "allow"
    assert policy.decide("terminal_type", paths=("2",)).action == "ask"
    careful = Policy((parse_rule("ask bash rm"),)).granted(granted)
    assert careful.decide("terminal_type", paths=("1",)).action == "ask"


def test_a_rule_about_glob_holds_for_lists_of_directories() -> None:
    policy = Policy((parse_rule("deny glob secrets/**"), parse_rule("deny glob secrets")))
    assert policy.hides("list_directory", "")("secrets/key")
