# Completes the command line of counterpoint in bash, with the package bash-completion.
#
# What can be completed is read from what the program prints: its commands from --help, a command's options from COMMAND
# --help, and names of events from "events --names". An option whose line in the help goes on with EVENT takes names of
# events, also with commas between them; one that goes on with another word in capital letters takes a file. If the usage
# of a command has PROGRAM, what follows the options is a program with its arguments.

# _counterpoint_help PROGRAM [COMMAND]
_counterpoint_help()
{
    "$@" --help 2> /dev/null
}

# _counterpoint_value OPTION: the word in capital letters that stands behind the option in the help.
_counterpoint_value()
{
    [[ $1 =~ ^-[-a-z0-9]+$ ]] || return
    _counterpoint_help "$program" "$command" |
        sed -nE "s/^ {1,6}(-[^ ]+ )*$1(, -[-a-z0-9]+)?[ =]([A-Z]+).*/\\3/p" | head -n 1
}

_counterpoint_complete_events()
{
    local before=
    [[ $cur != *,* ]] || before=${cur%,*},
    COMPREPLY=($(compgen -P "$before" -W '$("$program" events --names 2> /dev/null)' -- "${cur##*,}"))
    __ltrim_colon_completions "$cur"
}

# The place in COMP_WORDS of the first word that is neither an option of the command nor the value of one; nothing if there
# is none. readline makes words of "=" and ":", too.
_counterpoint_place_of_program()
{
    local i
    for ((i = 2; i <= COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) echo $((i + 1)); return ;;
        -*)
            if [[ ${COMP_WORDS[i + 1]-} == = ]]; then
                ((i += 2))
            elif [[ -n $(_counterpoint_value "${COMP_WORDS[i]}") ]]; then
                ((i++))
            fi
            while [[ ${COMP_WORDS[i + 1]-} == : ]]; do
                ((i += 2))
            done
            ;;
        *) echo $i; return ;;
        esac
    done
}

_counterpoint()
{
    local cur prev words cword split program command place
    _init_completion -s -n : || return
    program=${words[0]/#\~/$HOME} command=${words[1]-}

    if ((cword == 1)); then
        COMPREPLY=($(compgen -W '--help --version
            $(_counterpoint_help "$program" | sed -nE "s/^  ([a-z]+) +.*/\1/p")' -- "$cur"))
        return
    fi
    if [[ $(_counterpoint_help "$program" "$command" | sed '/^$/,$d') == *PROGRAM* ]]; then
        place=$(_counterpoint_place_of_program)
        if [[ -n $place ]] && ((place <= COMP_CWORD)); then
            _command_offset "$place"
            return
        fi
    fi
    case $(_counterpoint_value "$prev") in
    EVENT*) _counterpoint_complete_events; return ;;
    FILE | PATH | PROFILE) _filedir; return ;;
    DIR | DIRECTORY) _filedir -d; return ;;
    ?*) return ;;
    esac
    $split && return
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W '--help $(_parse_help "$program" "$command --help")' -- "$cur"))
        [[ ${COMPREPLY-} != *= ]] || compopt -o nospace
    elif [[ $command == events ]]; then
        _counterpoint_complete_events
    else
        _filedir
    fi
} &&
    complete -F _counterpoint counterpoint
