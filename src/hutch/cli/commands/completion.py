"""`hutch completion`: completion scripts for bash, zsh and fish.

Each script passes the words typed so far to `hutch __complete` and offers the lines that it prints:
a word, a tab, its help. The single word `:files` tells the shell to complete file names itself.
"""

from typing import Annotated

import typer

from hutch.domain.errors import BadRequest

BASH = """\
_hutch_completion() {
    local IFS=$'\\n'
    local current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current" 2>/dev/null | cut -f1))
    if [ "${COMPREPLY[0]}" = :files ]; then
        COMPREPLY=()
        compopt -o default 2>/dev/null
    fi
}
complete -F _hutch_completion hutch
"""

ZSH = """\
#compdef hutch
_hutch() {
    local -a found
    local word help
    while IFS=$'\\t' read -r word help; do
        if [ "$word" = :files ]; then _files; return; fi
        found+=("${word//:/\\\\:}:$help")
    done < <("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe hutch found
}
if [ "$funcstack[1]" = _hutch ]; then _hutch "$@"; else compdef _hutch hutch; fi
"""

FISH = """\
function __hutch_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process) (commandline --current-token)
    set -l found (hutch __complete $words[2..-1] 2>/dev/null)
    if string match --quiet ':files*' -- $found[1]
        __fish_complete_path (commandline --current-token)
    else
        printf '%s\\n' $found
    end
end
complete --command hutch --no-files --arguments '(__hutch_complete)'
"""


SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion_command(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL",
            help="Your shell: bash, zsh or fish.",
            autocompletion=lambda: list(SCRIPTS),
        ),
    ],
) -> None:
    """Print a completion script for your shell.

    \b
    bash:  hutch completion bash > ~/.local/share/bash-completion/completions/hutch
    zsh:   hutch completion zsh > ~/.zfunc/_hutch    (with ~/.zfunc in $fpath)
    fish:  hutch completion fish > ~/.config/fish/completions/hutch.fish
    """
    if shell not in SCRIPTS:
        raise BadRequest(f"There is no completion script for {shell[:80]!r}. Choose bash, zsh or fish.")
    typer.echo(SCRIPTS[shell], nl=False)
