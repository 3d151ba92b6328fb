# Completes the command line of counterpoint in fish. What can be completed is read from what the program prints, as
# counterpoint.bash says.

# The options of a command, each with the rest of its line in the help.
function __counterpoint_options
    $argv --help 2>/dev/null | string replace -rf '^ {1,6}(?:-\S+, +)?(--?[a-z][-a-z0-9]*)[ =]*(.*)' '$1\t$2'
end

function __counterpoint_events
    set -l before (string match -r '^.*,' -- (commandline -ct))
    $argv[1] events --names 2>/dev/null | string replace -r '^' -- "$before"
end

function __counterpoint_complete
    set -l words (commandline -opc)
    if test (count $words) -eq 1
        $words[1] --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
        printf '%s\n' --help --version
        return
    end
    set -l option (string escape --style=regex -- $words[-1])
    set -l value ($words[1..2] --help 2>/dev/null |
        string replace -rf -- "^ {1,6}(?:-\S+ +)?$option(?:, +-\S+)?[ =]([A-Z]+).*" '$1')
    switch "$value[1]"
        case 'EVENT*'
            __counterpoint_events $words[1]
        case '?*'
            __fish_complete_path (commandline -ct)
        case '*'
            if string match -q -- '-*' (commandline -ct)
                __counterpoint_options $words[1..2]
                echo --help
            else if test "$words[2]" = events
                __counterpoint_events $words[1]
            else if $words[1..2] --help 2>/dev/null | sed '/^$/,$d' | string match -q '*PROGRAM*'
                __fish_complete_subcommand --fcs-skip=2
            else
                __fish_complete_path (commandline -ct)
            end
    end
end

complete -c counterpoint -f -a '(__counterpoint_complete)'
