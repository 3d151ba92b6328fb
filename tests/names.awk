# Fails if two static functions of different files have one name: a backtrace and a profile show the name alone. Prints
# such names, a line each, with their files. The instruction sets' parts (arch/) are never in one program, and count as one
# file each.

BEGIN {
    # Names that pprof/, http/, testing/ and cmd/ shared before there was this check: for them, and until they have others.
    n = split("add after_fork_in_child begin check collect compare end explain find find_name finish fold " \
              "function_of handle is_chosen is_empty is_gone is_listed is_same keep look_up make make_room matches " \
              "must narrow now_ns parse_line period_of print print_all print_event print_frame print_member " \
              "print_modes print_name print_string print_working read_all redirect release report reserve run " \
              "set_up show show_end show_note show_result start take", part, " ")
    for (i = 1; i <= n; i++)
        is_known[part[i]] = 1
}

{
    line = $0
    gsub(/__attribute__\(\(([^()]|\([^()]*\))*\)\) */, "", line)
}

line ~ /^static [^=;]*[a-z_0-9]\(/ && line !~ /;$/ {
    match(line, /[A-Za-z_0-9]+\(/)
    name = substr(line, RSTART, RLENGTH - 1)
    file = FILENAME
    sub(/^arch\/[a-z0-9]+/, "arch/*", file)
    if (!((name, file) in seen)) {
        files[name] = files[name] " " file
        is_core[name] = is_core[name] || file ~ /^(arch|runtime)\//
        count[name]++
    }
    seen[name, file] = 1
}

END {
    for (name in count)
        if (count[name] > 1 && (is_core[name] || !(name in is_known))) {
            print name "() is the name of " count[name] " static functions:" files[name]
            bad = 1
        }
    exit bad
}
