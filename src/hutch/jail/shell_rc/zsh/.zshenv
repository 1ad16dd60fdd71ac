# Marks prompts and commands for Hutch: see jail/shell_prompt_marks.py. Read by zsh in place of ~/.zshenv.
IFS= read -r -u 3 __hutch_key
exec 3<&-
if [[ -n $HUTCH_ZDOTDIR ]]; then ZDOTDIR=$HUTCH_ZDOTDIR; else unset ZDOTDIR; fi
unset HUTCH_ZDOTDIR
typeset -g __hutch_controls=$'\001\002\003\004\005\006\007\010\013\014\016\017\020\021\022\023\024\025\026\027\030\031\032\033\034\035\036\037\177'
typeset -g __hutch_prompt_end=$'%{\e]133;B\e\\%}'

__hutch_prompt() {
    local hutch_status=$?
    builtin emulate -L zsh
    [[ $PS1 == *"$__hutch_prompt_end" ]] || PS1=$PS1$__hutch_prompt_end
    builtin printf '\e]133;D;%s;hutch=%s;cwd=%s\e\\\e]133;A\e\\' \
        "$hutch_status" "$__hutch_key" "${PWD//[$__hutch_controls]/?}"
    return $hutch_status
}

__hutch_start() {
    builtin emulate -L zsh
    local text=$1
    (( $#text <= 60000 )) || text=
    builtin printf '\e]133;C;hutch=%s;command=%s\e\\' "$__hutch_key" "${text//[$__hutch_controls]/?}"
}

typeset -ga precmd_functions preexec_functions
precmd_functions=(__hutch_prompt $precmd_functions)
preexec_functions+=(__hutch_start)
if [[ -r ${ZDOTDIR:-$HOME}/.zshenv ]]; then . ${ZDOTDIR:-$HOME}/.zshenv; fi
