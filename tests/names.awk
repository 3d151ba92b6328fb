# Fails if two static functions of different files have the same name, because a backtrace and a profile show only the
# name. Prints such names, a line each, with their files. The instruction sets' folders (arch/) are never in one program
# together, so files of one name in two of them count as one file.

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
        count[name]++
    }
    seen[name, file] = 1
}

END {
    for (name in count)
        if (count[name] > 1) {
            print name "() is the name of " count[name] " static functions:" files[name]
            bad = 1
        }
    exit bad
}
