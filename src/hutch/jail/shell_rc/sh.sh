# Marks prompts for Hutch: see jail/shell_prompt_marks.py. Read by sh in place of the file that ENV names.
IFS= read -r __hutch_key <&3
exec 3<&-
if [ -n "${HUTCH_ENV-}" ]; then ENV=$HUTCH_ENV; else unset ENV; fi
unset HUTCH_ENV
if [ -r "${ENV-}" ]; then . "$ENV"; fi

__hutch_mark=$(printf '\033]133;')
__hutch_end=$(printf '\007')
PS2="${__hutch_mark}A;k=s;hutch=$__hutch_key$__hutch_end${PS2-> }"
PS1="${__hutch_mark}D;\$?;hutch=$__hutch_key;typed=1;cwd=\$PWD$__hutch_end${__hutch_mark}A$__hutch_end${PS1-\$ }${__hutch_mark}B$__hutch_end"
unset __hutch_mark __hutch_end __hutch_key
