# Reads the #include lines of all sources, and checks the order of the rooms: see tests/check, which runs this with
#
#     -v public="..."   the public headers' paths
#     -v map=1          draws the order instead
#
# Prints what is wrong, a line each; fails if anything is.

# A room may include what is in the rooms on the lines above its own line, but no other room of its own line. A room
# with "alone" may include only what "alone" lists; "public" stands for all public headers.
function list_rooms() {
    row("arch")
    row("runtime/base")
    row("runtime/event", "runtime/base arch")
    row("runtime/perf", "runtime/base runtime/event arch")
    row("runtime/unwind")
    row("runtime")
    row("runtime/engine")
    row("runtime/counter")
    row("runtime/sched", "runtime/base arch public")
    row("pprof/symbol")
    row("pprof")
    row("http testing")
    row("cmd examples bench tests/elsewhere tests/support")
    row("tests/unit")
    row("tests/system tests/live", "tests/support public")
}

# row(ROOMS [, ALONE])
function row(names, alone,    i, n, part) {
    height++
    n = split(names, part, " ")
    for (i = 1; i <= n; i++) {
        rooms[++room_count] = part[i]
        height_of[part[i]] = height
        alone_of[part[i]] = alone
    }
}

BEGIN {
    list_rooms()
    n = split(public, part, " ")
    for (i = 1; i <= n; i++)
        public_path[base_of(part[i])] = part[i]
    for (i = 1; i < ARGC; i++)
        if (ARGV[i] ~ /\//)
            exists[ARGV[i]] = 1
    largest_circle = 7
}

function base_of(path) {
    sub(/.*\//, "", path)
    return path
}

function folder_of(path) {
    sub(/\/[^\/]*$/, "", path)
    return path
}

# Returns the longest name of a room with which the path begins.
function room_of(path,    folder) {
    for (folder = folder_of(path); !(folder in height_of) && folder ~ /\//; folder = folder_of(folder))
        continue
    return folder
}

# A header and its .c are one module; so are NAME.h and NAME_linux.c.
function unit_of(path) {
    sub(/\.[chS]$/, "", path)
    sub(/_linux$/, "", path)
    return path
}

function wrong(what) {
    print FILENAME ":" FNR ": " what
    bad = 1
}

# Returns the path of an included file; "" if the file is none of the sources. A header is named in one way: a public
# header, one of the same folder and one of the processor's (arch/ARCH) by its bare name, and any other header by its
# path from the root.
function path_of(name, folder,    path) {
    if (name !~ /\//) {
        if ((folder "/" name) in exists)
            return folder "/" name
        if (name in public_path)
            return public_path[name]
        for (path in exists)
            if (path ~ /^arch\/[a-z0-9]+\// && base_of(path) == name)
                return path
        if (name == "profile.pb-c.h")
            return ""
        wrong("include \"" name "\" with its folder from the root")
        return ""
    }
    if (!(name in exists)) {
        wrong("there is no " name)
        return ""
    }
    if (folder_of(name) == folder || public_path[base_of(name)] == name)
        wrong("include \"" base_of(name) "\" without its folder")
    return name
}

function is_allowed_alone(to, path, list,    i, n, part) {
    n = split(list, part, " ")
    for (i = 1; i <= n; i++)
        if (part[i] == to || (part[i] == "public" && public_path[base_of(path)] == path))
            return 1
    return n == 0
}

function note(from, path,    to) {
    to = room_of(path)
    edge[unit_of(FILENAME), unit_of(path)] = 1
    if (to == from)
        return
    if (height_of[to] < height_of[from] && is_allowed_alone(to, path, alone_of[from])) {
        arrows[from, to]++
        return
    }
    wrong(from "/ must not include " path (height_of[to] < height_of[from] ? "" : ", which is not below it"))
}

FNR == 1 {
    units[unit_of(FILENAME)] = 1
    from = room_of(FILENAME)
    if (!(from in height_of)) {
        wrong("the order of the rooms in tests/rooms.awk does not have " folder_of(FILENAME) "/")
        nextfile
    }
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    path = path_of(name, folder_of(FILENAME))
    if (path != "")
        note(from, path)
}

END {
    find_circles()
    if (map)
        draw()
    exit bad
}

# reach(UNIT): fills seen[] with the files of UNIT's room to which UNIT leads.
function reach(unit,    other) {
    for (other in units)
        if (((unit, other) in edge) && !(other in seen) && room_of(other) == room_of(unit)) {
            seen[other] = 1
            reach(other)
        }
}

# Finds the files of each room that lead to each other in a circle.
function find_circles(    unit, other, name, size, names, key) {
    for (unit in units) {
        split("", seen)
        reach(unit)
        for (other in seen)
            leads[unit, other] = 1
    }
    for (unit in units) {
        size = 1
        names = base_of(unit)
        for (other in units)
            if (other != unit && ((unit, other) in leads) && ((other, unit) in leads)) {
                size++
                names = names " " base_of(other)
            }
        key = room_of(unit)
        if (size > circle[key]) {
            circle[key] = size
            circle_names[key] = names
        }
    }
    for (key in circle)
        if (circle[key] > largest_circle) {
            print key "/: " circle[key] " files include each other in a circle, " largest_circle " are allowed: " \
                circle_names[key]
            bad = 1
        }
}

# Prints a line for each room, from the highest to the lowest, with the rooms that it includes and its largest circle.
function draw(    i, j, line, level) {
    for (i = room_count; i > 0; i--) {
        line = ""
        for (j = room_count; j > 0; j--)
            if ((rooms[i], rooms[j]) in arrows)
                line = line " " rooms[j] "(" arrows[rooms[i], rooms[j]] ")"
        if (level != height_of[rooms[i]])
            print ""
        level = height_of[rooms[i]]
        printf("%2d  %-16s%s%s%s\n", level, rooms[i], line == "" ? "" : " ->", line,
               circle[rooms[i]] > 1 ? "; a circle of " circle[rooms[i]] " files" : "")
    }
}
