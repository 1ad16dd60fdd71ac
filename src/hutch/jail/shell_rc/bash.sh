# Marks prompts and commands for Hutch: see jail/shell_prompt_marks.py. Read by bash in place of ~/.bashrc.
IFS= read -r -u 3 __hutch_key
exec 3<&-
if [[ -r ~/.bashrc ]]; then . ~/.bashrc; fi

__hutch_controls=$'\001\002\003\004\005\006\007\010\013\014\016\017\020\021\022\023\024\025\026\027\030\031\032\033\034\035\036\037\177'
__hutch_prompt_end=$'\\[\e]133;B\e\\\\\\]'

__hutch_prompt() {
    local status=$? number='\!'
    __hutch_number=${number@P}
    [[ $__hutch_number != 1 || -n $(builtin history 1) ]] || __hutch_number=0
    [[ ${PS1-} == *"$__hutch_prompt_end" ]] || PS1=${PS1-}$__hutch_prompt_end
    builtin printf '\e]133;D;%s;hutch=%s;cwd=%s\e\\\e]133;A\e\\' \
        "$status" "$__hutch_key" "${PWD//[$__hutch_controls]/?}"
    return "$status"
}

# Runs in a subshell after a command was read. A command that made no new entry in the history repeats the
# newest one, or was left out, for example because it begins with a space.
__hutch_start() {
    local number='\!' field=command text
    [[ ${number@P} != "${__hutch_number-}" || -o history && ${HISTCONTROL-} != *ignore[sb]* && -z ${HISTIGNORE-} ]] ||
        field=perhaps
    text=$(HISTTIMEFORMAT= builtin history 1)
    [[ $text =~ ^\ *[0-9]+[\ *]\ (.*)$ ]] && text=${BASH_REMATCH[1]} || text=
    (( ${#text} <= 60000 )) || text=
    builtin printf '\e]133;C;hutch=%s;%s=%s\e\\' "$__hutch_key" "$field" "${text//[$__hutch_controls]/?}"
}

if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
    PROMPT_COMMAND=(__hutch_prompt "${PROMPT_COMMAND[@]}")
else
    PROMPT_COMMAND=__hutch_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}
fi
PS0='$(__hutch_start)'${PS0-}
