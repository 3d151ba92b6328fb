# Checks the order of the rooms, by the #include lines of all sources and by what the linker sees: a declaration needs no
# include, so only the symbols of the objects tell who needs whom. See tests/check, which runs this with
#
#     -v public="..."   the public headers' paths
#     -v map=1          draws the order as well
#     SOURCE... FILE    the sources, and a file with what `nm -A -P` says of the objects, which may be nothing
#
# By their symbols, the objects of a room may need what the includes of the room may name, and no more than largest_circle
# of them may need each other. As nothing needs a higher room, no circle is in two rooms.
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
    row("runtime/counter runtime/watch runtime/wait runtime/stall")
    row("runtime/sched", "runtime/base arch public")
    row("pprof/symbol")
    row("pprof")
    row("http testing block")
    row("preload")
    row("cmd examples bench tests/elsewhere tests/support tests/consumer")
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
    largest_circle = 4
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

function wrong(what) {
    print_wrong(FILENAME ":" FNR ": " what)
}

function print_wrong(what) {
    print what
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

# Returns whether one room may use another one, or what is public of it.
function may_use(from, to, is_public,    i, n, part) {
    if (height_of[to] >= height_of[from])
        return 0
    n = split(alone_of[from], part, " ")
    for (i = 1; i <= n; i++)
        if (part[i] == to || (part[i] == "public" && is_public))
            return 1
    return n == 0
}

function which_is(from, to) {
    return height_of[to] < height_of[from] ? "" : ", which is not below it"
}

function note(from, path,    to) {
    to = room_of(path)
    if (to == from)
        return
    if (may_use(from, to, public_path[base_of(path)] == path))
        arrows[from, to]++
    else
        wrong(from "/ must not include " path which_is(from, to))
}

# ---- Sources ----

FILENAME ~ /\.[chS]$/ && FNR == 1 {
    from = room_of(FILENAME)
    if (!(from in height_of)) {
        wrong("the order of the rooms in tests/rooms.awk does not have " folder_of(FILENAME) "/")
        nextfile
    }
}

FILENAME ~ /\.[chS]$/ && /^[ \t]*#[ \t]*include[ \t]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    path = path_of(name, folder_of(FILENAME))
    if (path != "")
        note(from, path)
}

# ---- Objects ----

# A line is "OBJECT: SYMBOL TYPE ...". The type is U, or w or v if it is weak, of a symbol that the object needs; a small
# letter of one that is the object's own; and a capital, u or i of one that it has for others, W or V if another object's
# may take its place.
FILENAME !~ /\.[chS]$/ && $1 ~ /:$/ {
    object = substr($1, 1, length($1) - 1)
    if (!(object in seen_object)) {
        seen_object[object] = 1
        objects[++object_count] = object
    }
    if ($3 ~ /^[Uwv]$/)
        needs[object] = needs[object] " " $2
    else if ($3 ~ /^[A-Zui]$/ && ($3 !~ /^[VW]$/ || !($2 in home)))
        home[$2] = object
}

# Finds what each object needs of others: of other rooms, which are checked, and of its own.
function find_needs(    o, i, n, part, from, to, name) {
    for (o = 1; o <= object_count; o++) {
        from = room_of(objects[o])
        if (!(from in height_of))
            print_wrong("the order of the rooms in tests/rooms.awk does not have " folder_of(objects[o]) "/")
        n = split(needs[objects[o]], part, " ")
        for (i = 1; i <= n; i++) {
            name = part[i]
            if (!(name in home) || home[name] == objects[o])
                continue
            to = room_of(home[name])
            if (to == from)
                add_edge(objects[o], home[name], name)
            else if (!may_use(from, to, name ~ /^cp_[^_]/))
                print_wrong(objects[o] ": " from "/ must not need " name " of " home[name] which_is(from, to))
        }
    }
}

function add_edge(from, to, name) {
    if (!((from, to) in edge))
        edges[from] = edges[from] " " to
    edge[from, to] = name
}

# Finds the objects that need each other in a circle, by Tarjan's algorithm: low[] is the first object in the order of
# the visits to which what was visited since leads back.
function visit(v,    i, n, part, w) {
    seen[v] = low[v] = ++visits
    stack[++depth] = v
    n = split(edges[v], part, " ")
    for (i = 1; i <= n; i++) {
        w = part[i]
        if (!(w in seen))
            visit(w)
        else if (w in is_done)
            continue
        if (low[w] < low[v])
            low[v] = low[w]
    }
    if (low[v] == seen[v])
        take_circle(v)
}

# Takes the objects from the stack, down to v, which need each other.
function take_circle(v,    i, j, size, names, bottom, room) {
    for (bottom = depth; stack[bottom] != v; bottom--)
        continue
    size = depth - bottom + 1
    room = room_of(v)
    if (size > circle[room])
        circle[room] = size
    if (size > largest_circle) {
        for (i = bottom; i <= depth; i++)
            names = names " " base_of(stack[i])
        print_wrong(room "/: " size " objects need each other in a circle, " largest_circle " are allowed:" names)
        for (i = bottom; i <= depth; i++)
            for (j = bottom; j <= depth; j++)
                if ((stack[i], stack[j]) in edge)
                    print "    " base_of(stack[i]) " needs " edge[stack[i], stack[j]] " of " base_of(stack[j])
    }
    for (; depth >= bottom; depth--)
        is_done[stack[depth]] = 1
}

END {
    find_needs()
    for (o = 1; o <= object_count; o++)
        if (!(objects[o] in seen))
            visit(objects[o])
    if (map)
        draw()
    exit bad
}

# Prints a line for each room, from the highest to the lowest, with the rooms that it includes and, if objects were given,
# its largest circle.
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
               circle[rooms[i]] > 1 ? "; a circle of " circle[rooms[i]] " objects" : "")
    }
}
