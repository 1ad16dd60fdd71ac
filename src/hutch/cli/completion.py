"""`hutch completion`: scripts that teach a shell the words of `hutch`.

Each script hands the words typed so far to `hutch __complete` and offers the
lines that come back: a word, a tab, its help.
"""

from enum import StrEnum
from typing import Annotated

import typer

BASH = """\
_hutch_completion() {
    local IFS=$'\\n'
    local current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current" 2>/dev/null | cut -f1))
}
complete -o default -F _hutch_completion hutch
"""

ZSH = """\
#compdef hutch
_hutch() {
    local -a found
    local word help
    while IFS=$'\\t' read -r word help; do
        found+=("${word//:/\\\\:}:$help")
    done < <("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe hutch found; else _files; fi
}
if [ "$funcstack[1]" = _hutch ]; then _hutch "$@"; else compdef _hutch hutch; fi
"""

FISH = """\
function __hutch_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process) (commandline --current-token)
    hutch __complete $words[2..-1] 2>/dev/null
end
complete --command hutch --no-files --condition 'count (__hutch_complete) >/dev/null' \\
    --arguments '(__hutch_complete)'
"""


class Shell(StrEnum):
    """The shells that Hutch has a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


SCRIPTS = {Shell.bash: BASH, Shell.zsh: ZSH, Shell.fish: FISH}


def completion_command(shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")]) -> None:
    """Print a script that completes the words of hutch in your shell.

    \b
    bash:  hutch completion bash > ~/.local/share/bash-completion/completions/hutch
    zsh:   hutch completion zsh > ~/.zfunc/_hutch    (with ~/.zfunc in $fpath)
    fish:  hutch completion fish > ~/.config/fish/completions/hutch.fish
    """
    typer.echo(SCRIPTS[shell], nl=False)
