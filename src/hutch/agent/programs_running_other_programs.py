"""Programs that run another program, and where their arguments name it.

Options are in the notation of getopt. An option that is not in these tables may take the next word as its
value, so that another word names the program: then the command is unclear.
"""

from collections.abc import Mapping
from getopt import GetoptError, getopt
from itertools import chain

from hutch.agent.shell_words_and_ambiguities import Words

MAX_SUFFIXES = 50
UNKNOWN_WORD = "\0"  # no word of a command holds it


def _names(line: str) -> frozenset[str]:
    return frozenset(line.split())


SHELLS = _names("sh bash rbash dash ash zsh ksh mksh")

# Programs that run the command after their own options.
WRAPPERS: Mapping[str, str] = {
    "sudo": "AbEHnPSiksu:g:h:p:C:D:R:T:U: non-interactive preserve-env set-home login user= group= chdir=",
    "doas": "nLsu:C:",
    "env": "i0vu:C: ignore-environment unset= chdir=",
    "nohup": "",
    "nice": "0123456789n: adjustment=",
    "ionice": "tc:n:p:P:u: ignore class= classdata=",
    "time": "apqvVf:o: portability verbose format= output=",
    "timeout": "fpvk:s: foreground preserve-status verbose kill-after= signal=",
    "stdbuf": "i:o:e: input= output= error=",
    "setsid": "cfw ctty fork wait",
    "xargs": "0oprtxI:a:d:E:n:P:L:s: null no-run-if-empty verbose delimiter= max-args= max-procs=",
    "command": "pvV",
    "builtin": "",
    "exec": "cla:",
    "busybox": "",
    "toybox": "",
}
QUIET = _names("nohup nice ionice time timeout stdbuf command builtin")  # the program behaves as without them


# Programs with the command anywhere among their words, or in a text that they pass to a shell.
RUNNERS = _names(
    "flock script watch su runuser chroot unshare nsenter setpriv ssh strace ltrace gdb tmux screen pkexec "
    "systemd-run valgrind prlimit taskset chrt numactl setarch linux32 linux64 fakeroot unbuffer rlwrap "
    "xvfb-run dbus-run-session npx npm pnpm yarn start-stop-daemon docker podman proot firejail bwrap "
    "catchsegv ld.so ccache chronic ifne nq"
)
# The same, without such a text.
STARTERS = _names("uv uvx poetry pipenv pdm hatch rye tox nox bundle bun deno")
# Programs that read the command, or a part of it, from elsewhere: a file, their input, earlier commands.
UNREADABLE = _names(
    ". source coproc alias enable bind complete compgen parallel at batch expect entr crontab fc"
)

GIT = (
    "pPhvC:c: paginate no-pager no-replace-objects bare literal-pathspecs glob-pathspecs noglob-pathspecs "
    "icase-pathspecs no-optional-locks no-advice version help git-dir= work-tree= namespace= config-env="
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


def split_options(words: Words, known: str) -> tuple[list[tuple[str, str | None]], Words] | None:
    """The options that `words` begin with, and the words after them; None when an option is unknown."""
    short, *long = known.split(" ")
    try:
        options, rest = getopt([UNKNOWN_WORD if word is None else word for word in words], short, long)
    except GetoptError:
        return None
    return [(name, _known(value)) for name, value in options], tuple(_known(word) for word in rest)


def _known(word: str) -> str | None:
    return None if word == UNKNOWN_WORD else word


def suffixes(words: Words) -> tuple[Words, ...]:
    """Every command that a program may run when it finds the command among its words."""
    return tuple(words[at:] for at in range(1, min(len(words), MAX_SUFFIXES)) if words[at] is not None)


def texts(words: Words) -> tuple[str, ...]:
    """Words that may be a line of shell, also after the equals sign of an option."""
    known = [word for word in words[1:] if word]
    parts = chain.from_iterable((word, word.partition("=")[2]) for word in known)
    return tuple(dict.fromkeys(part for part in parts if len(part.split()) > 1))
