"""Commands that run `git push`: a rule against it must see them, or call them unclear.

Each is shown to work: bash runs it with a git that only writes down how it was called.
"""

import os
import shlex
import subprocess
from functools import reduce
from pathlib import Path

import pytest

from hutch.agent.shell_command_parser import parse
from hutch.agent.tool_call_rules import Policy, parse_rule

RULES = Policy((parse_rule("deny bash git push"),))

NOTATIONS = [
    "git push",
    "gi\\\nt push",
    'git "pu\\\nsh"',
    "{git,push}",
    "bin/gi? push",
    "git pus?",
    "git {push,}",
    "git pus{h,}",
    "git pu{s..s}h",
    "bash <<EOF\ngit push\nEOF",
    "sh <<'EOF'\ngit push\nEOF",
    "bash <<< 'git push'",
    "echo git push | bash",
    "bash -c -- 'git push'",
    "bash -O extglob -c 'git push'",
    "echo git push > s.sh; bash s.sh",
    "echo git push > s.sh; . ./s.sh",
    "echo git push > s.sh; BASH_ENV=s.sh bash -c :",
    ". <(echo git push)",
    "env -S 'git push'",
    "env --split-string='git push'",
    "env - PATH=$PATH git push",
    "env A-B=1 git push",
    "env A.B=1 git push",
    "echo push | xargs git",
    "echo git push | xargs -n2 env",
    "echo | xargs --max-args 1 git push",
    "echo push | xargs -I{} git {}",
    "echo push | xargs -IX git X",
    "echo push | xargs -i git {}",
    "echo push | xargs -I{} sh -c 'git {}'",
    "timeout --kill-after=1 5 git push",
    "timeout --kill 1 5 git push",
    "nice --adj 3 git push",
    "nice -3 git push",
    "stdbuf --output L git push",
    "find . -maxdepth 0 -exec git push \\;",
    "flock l git push",
    "flock l -c 'git push'",
    "script -qc 'git push' /dev/null",
    "timeout 2 watch -n9 -t -x git push",
    "trap 'git push' EXIT",
    "coproc git push; wait",
    "coproc X { git push; }; wait",
    "git -c alias.z=push z",
    "git --attr-source HEAD push",
    "git --config-env a=b push",
    "git submodule foreach 'git push'",
    "shopt -s expand_aliases\nalias zz='git push'\nzz",
    "hash -p bin/git zz; zz push",
    "f() { git $1; }; f push",
    'f() { "$@"; }; f git push',
    "printf -v 'a[$(git push)]' x",
    "test -v 'a[$(git push)]'",
    "declare -a 'a[$(git push)]=1'",
    "let 'a[$(git push)]=1'",
    "(( a[$(git push)] ))",
    "x='a[$(git push)]'; (( x ))",
    "mapfile -C 'git push' -c 1 <<< x",
    "cat <<E\n`git push`\nE",
    "cat <<E\n$(git push)\nE",
    "cat <<'E'\n E\n'\nE\ngit push; echo ' '",
    "cat <<E\nE \n'\nE\ngit push; echo ' '",
    ": ${x:-$(git push)}",
    ": ${x:-`git push`}",
    ': "${x:-`git push`}"',
    "x=ab; : ${x/a/`git push`}",
    'a=(git push); "${a[@]}"',
    "case x in $(git push)) ;; esac",
    "HOME=$PWD/bin; ~/git push",
    "HOME=git; ~ push",
    '$"git" push',
    "git $'push'",
    "IFS=,; x=git,push; $x",
    "git$x push",
    "git $x push",
    "x='push origin'; git $x",
    "eval -- 'git push'",
    "eval 'gi''t' pu\\\\sh",
    "exec -a x git push",
    "builtin eval 'git push'",
    "command eval 'git push'",
    "2>&1 >/dev/null git push",
    "git > out push",
    "git 2>&1 push",
    "git <<< x push",
    "git <<E push\nx\nE",
    "true | git > out push",
    "echo a\f# ; git push",
    "echo a\r# ; git push",
    "PS4='$(git push)'; set -x; :",
    "/bin/bash -c 'git push'",
    "rbash -c 'git push'",
    "env nice nohup env nice env git push",
    "git push #" + "x" * 100_001,
    reduce(lambda inner, _: f"bash -c {shlex.quote(inner)}", range(7), "git push"),
]
# Their effect depends on a program's own language, which Hutch does not parse.
PROGRAMS = [
    "python3 -c 'import os; os.system(\"git push\")'",
    "awk 'BEGIN{system(\"git push\")}'",
    "ln -s bin/git zz; ./zz push",
]
UNSHOWN = {"git -c alias.z=push z", "git submodule foreach 'git push'"}  # the git here knows no alias


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "push").touch()
    git = tmp_path / "bin" / "git"
    git.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/ran\n')
    git.chmod(0o755)
    return tmp_path


def ran(command: str, place: Path) -> str:
    """How git was called when bash was given a command."""
    env = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place), "TERM": "xterm"}
    try:
        subprocess.run(
            ["bash"],
            input=command.encode(),
            cwd=place,
            env=env,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"bash does not come back from {command!r}")
    return (place / "ran").read_text() if (place / "ran").exists() else ""


@pytest.mark.parametrize("command", NOTATIONS, ids=lambda command: command[:40])
def test_a_rule_sees_a_command_in_every_form_or_asks(command: str, place: Path) -> None:
    assert RULES.decide("bash", command=command).action in ("ask", "deny")
    if command not in UNSHOWN:
        assert "push" in ran(command, place)


@pytest.mark.parametrize("command", PROGRAMS)
def test_the_inner_workings_of_a_program_are_not_seen(command: str, place: Path) -> None:
    assert RULES.decide("bash", command=command).action == "allow"
    assert "push" in ran(command, place)


@pytest.mark.parametrize(
    "command",
    [
        "ls *.py | head -3",
        "git -C x --no-pager log --oneline -5 | cat",
        "GIT_PAGER=cat git log",
        'for f in src/*.py; do wc -l "$f"; done',
        "cat > a.md <<'EOF'\nuse `git push`, or $(it)\nEOF",
        "cat > a.py <<EOF\nprint(1)\nEOF\npython a.py",
        "pip install \\\n  foo \\\n  bar",
        "i=$((i+1)); echo ${x:-1} ${#x} ${y%%.*}",
        "find . -name '*.py' -print0 | xargs -0 grep -n push",
        "uv run pytest -k 'git and push' -x",
        "npm run build -- --watch",
        "git stash show stash@{0}",
        "git commit -m 'then git push'",
        "git rebase -i main",
        "sed -n '1,5p' a[0-9].txt",
        "timeout 60 make test 2>&1 | tail -5",
        '[ -f x ] && [[ $y == *.py ]] && test -n "$z"',
        "awk '{print $(NF-1)}' x",
        "sh -c 'ls -l'",
        "grep -rn 'git push' .",
    ],
)
def test_everyday_commands_need_no_approval(command: str) -> None:
    assert RULES.decide("bash", command=command).action == "allow"


def test_nested_texts_are_parsed_up_to_a_limit() -> None:
    command = "; ".join(f"bash -c 'echo {number}'" for number in range(100))
    assert not parse(command).clear
