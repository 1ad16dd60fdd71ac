"""Programs that run another program, and how they are told which.

An option that is not in these tables may take the next word for itself, so that the
program named is another one than it seems: then nobody can tell for sure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from hutch.agent.shell_words import Words


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program: letters and long names, of those that take a value and those that do not."""

    flags: str = ""
    values: str = ""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Given:
    """The options that were given, and the words after them; `sure` when these are all."""

    options: tuple[tuple[str, str | None], ...]
    rest: Words
    sure: bool

    def value(self, *names: str) -> str | None:
        return next((value for name, value in self.options if name in names), None)

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


def _names(line: str) -> frozenset[str]:
    return frozenset(line.split())


MOST_SUFFIXES = 50
SHELLS = _names("sh bash rbash dash ash zsh ksh mksh")

# Those that run what is named after their own options.
WRAPPERS: Mapping[str, Options] = {
    "sudo": Options(
        "AbEHnPSiks",
        "ughpCDRTU",
        _names("--askpass --background --preserve-env --set-home --non-interactive --stdin --login --shell"),
        _names("--user --group --host --prompt --chdir --close-from --chroot --command-timeout --other-user"),
    ),
    "doas": Options("nLs", "uC"),
    "env": Options(
        "i0v",
        "uC",
        _names("--ignore-environment --null --debug --block-signal --default-signal --ignore-signal"),
        _names("--unset --chdir"),
    ),
    "nohup": Options(),
    "nice": Options("0123456789", "n", frozenset(), _names("--adjustment")),
    "ionice": Options("t", "cnpPu", _names("--ignore"), _names("--class --classdata")),
    "time": Options(
        "apqvV", "fo", _names("--append --portability --quiet --verbose"), _names("--format --output")
    ),
    "timeout": Options(
        "fpv", "ks", _names("--foreground --preserve-status --verbose"), _names("--kill-after --signal")
    ),
    "stdbuf": Options("", "ioe", frozenset(), _names("--input --output --error")),
    "setsid": Options("cfw", "", _names("--ctty --fork --wait")),
    "xargs": Options(
        "0oprtx",
        "IadEnPLs",
        _names(
            "--null --open-tty --interactive --no-run-if-empty --verbose --exit --replace --eof --max-lines"
        ),
        _names("--arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"),
    ),
    "command": Options("pvV"),
    "builtin": Options(),
    "exec": Options("cl", "a"),
    "busybox": Options(),
    "toybox": Options(),
}
QUIET = _names("nohup nice ionice time timeout stdbuf command builtin")  # the program does as it does without

# Those where it stands somewhere among their words, or is a text that they give to a shell.
RUNNERS = _names(
    "flock script watch su runuser chroot unshare nsenter setpriv ssh strace ltrace gdb tmux screen pkexec "
    "systemd-run valgrind prlimit taskset chrt numactl setarch linux32 linux64 fakeroot unbuffer rlwrap "
    "xvfb-run dbus-run-session npx npm pnpm yarn start-stop-daemon docker podman proot firejail bwrap "
    "catchsegv ld.so ccache chronic ifne nq entr parallel at batch expect"
)
# Those that know no such text.
STARTERS = _names("uv uvx poetry pipenv pdm hatch rye tox nox bundle bun deno")
# Those that take it, or a part of it, from elsewhere: a file, their input, what was said before.
UNREADABLE = _names(
    ". source coproc alias enable bind complete compgen parallel at batch expect entr crontab fc"
)

GIT = Options(
    "pPhv",
    "Cc",
    _names(
        "--paginate --no-pager --no-replace-objects --bare --literal-pathspecs --glob-pathspecs "
        "--noglob-pathspecs --icase-pathspecs --no-optional-locks --no-advice --no-lazy-fetch --version "
        "--help --exec-path --html-path --man-path --info-path"
    ),
    _names("--git-dir --work-tree --namespace --super-prefix --attr-source --config-env"),
)
# Anything else may be an alias.
GIT_COMMANDS = _names(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore "
    "check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool clean clone commit "
    "commit-graph commit-tree config count-objects credential describe diff diff-files diff-index diff-tree "
    "difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref "
    "for-each-repo format-patch fsck gc get-tar-commit-id grep hash-object help index-pack init instaweb "
    "interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base "
    "merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes "
    "pack-objects pack-refs patch-id prune prune-packed pull push range-diff read-tree rebase reflog remote "
    "repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack "
    "shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule "
    "switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info var "
    "verify-commit verify-pack verify-tag version whatchanged worktree write-tree lfs"
)
GIT_RUNS = _names("bisect config difftool filter-branch for-each-repo mergetool rebase submodule send-email")


def after_options(words: Words, known: Options) -> Given:
    """Read the options that `words` begin with."""
    found: list[tuple[str, str | None]] = []
    sure, at = True, 0
    while at < len(words) and (word := words[at]) is not None and word[:1] == "-" and word != "-":
        at += 1
        if word == "--":
            break
        following = words[at] if at < len(words) else None
        if word.startswith("--"):
            name, has_value, value = word.partition("=")
            takes_next = not has_value and name in known.long_values
            sure = sure and name in known.long_flags | known.long_values
            found.append((name, following if takes_next else value))
            at += takes_next
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter in known.values:
                found.append((f"-{letter}", word[place:] or following))
                at += not word[place:]
                break
            sure = sure and letter in known.flags
            found.append((f"-{letter}", ""))
    return Given(tuple(found), words[at:], sure)


def suffixes(words: Words) -> tuple[Words, ...]:
    """Every command that a program may run that finds it among its words."""
    return tuple(words[at:] for at in range(1, min(len(words), MOST_SUFFIXES)) if words[at] is not None)


def texts(words: Words) -> tuple[str, ...]:
    """Words that may be a line of shell, also behind the sign of an option's value."""
    known = [word for word in words[1:] if word]
    parts = chain.from_iterable((word, word.partition("=")[2]) for word in known)
    return tuple(dict.fromkeys(part for part in parts if len(part.split()) > 1))
