# Fails if a comment names something that does not exist. Prints such places, a line each:
# - "name(), file.c", "name() in file.c" or "name() of file.c", and no file of that name defines name;
# - "cp_name()", and no file defines it;
# - "pairs with ... name()", an ordering's partner, which is to be found in the same module, in a header that the file
#   includes, or in the file that the comment names; a cp_name() may be anywhere.

# A comment's text is collected until the comment ends, because a name and its file may be on two lines.
FNR == 1 {
    text = ""
    is_in_comment = 0
    is_source[base_of(FILENAME)] = 1
}

function base_of(path) {
    sub(/.*\//, "", path)
    return path
}

# A header and its .c are one module; so are NAME.h and NAME_linux.c.
function module_of(path) {
    sub(/\.[chS]$/, "", path)
    sub(/_linux$/, "", path)
    return path
}

/^#[ \t]*include "/ {
    line = $0
    gsub(/^[^"]*"|".*/, "", line)
    includes[FILENAME] = includes[FILENAME] " " base_of(line)
}

# A definition or declaration begins a line. A test has its name in the parentheses, and a macro has its name behind
# #define.
/^[A-Za-z_].*\(|^#[ \t]*define[ \t]/ {
    line = $0
    while (match(line, /[A-Za-z_0-9]+[ \t]*[()]/)) {
        name = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/[ \t]*[()]$/, "", name)
        defines[base_of(FILENAME), name] = defines[module_of(FILENAME), name] = defines[name] = 1
    }
}

{
    line = $0
    while (line != "")
        if (is_in_comment) {
            end = index(line, "*/")
            text = text " " (end ? substr(line, 1, end - 1) : line)
            line = end ? substr(line, end + 2) : ""
            if (end)
                close_comment()
        } else {
            start = index(line, "/*")
            line = start ? substr(line, start + 2) : ""
            is_in_comment = start > 0
        }
}

# note(NAME, WHERE): notes that NAME must be defined in WHERE: a file; "here"; "" is anywhere.
function note(name, where) {
    sub(/\(\).*/, "", name)
    names[++note_count] = name
    wheres[note_count] = where
    files[note_count] = FILENAME
    lines[note_count] = FNR
}

# note_all(TEXT, WHERE): notes each name() of the text.
function note_all(text, where) {
    while (match(text, /[A-Za-z_][A-Za-z_0-9]*\(\)/)) {
        note(substr(text, RSTART, RLENGTH), where)
        text = substr(text, RSTART + RLENGTH)
    }
}

function close_comment(    found, rest, sentence) {
    is_in_comment = 0
    gsub(/[ \t]+\*?[ \t]+/, " ", text)
    while (match(text, /([a-z_0-9]+\(\)(,| and| or) )*[A-Za-z_0-9]+\(\)(,| in| of) ([a-z_0-9]+\/)*[a-z_0-9]+\.[chS]/)) {
        found = substr(text, RSTART, RLENGTH)
        rest = rest substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + RLENGTH)
        match(found, /[a-z_0-9]+\.[chS]$/)
        note_all(substr(found, 1, RSTART - 1), substr(found, RSTART))
    }
    rest = text = rest text
    while (match(rest, /cp_[a-z_0-9]+\(\)/)) {
        note(substr(rest, RSTART, RLENGTH), "")
        rest = substr(rest, RSTART + RLENGTH)
    }
    while (match(text, /[Pp]airs? (with|as) [^.;:]*/)) {
        sentence = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (sentence !~ /kernel/)
            note_all(sentence, "here")
    }
    text = ""
}

# is_defined(NAME, FILE): returns whether FILE's module, or a header that FILE includes, defines NAME.
function is_defined(name, file,    i, n, header) {
    if (((module_of(file), name) in defines) || (name ~ /^cp_/ && (name in defines)))
        return 1
    n = split(includes[file], header, " ")
    for (i = 1; i <= n; i++)
        if ((header[i], name) in defines)
            return 1
    return 0
}

function wrong(i, what) {
    print files[i] ":" lines[i] ": " what
    bad = 1
}

END {
    for (i = 1; i <= note_count; i++) {
        name = names[i]
        where = wheres[i]
        if (where == "") {
            if (!(name in defines))
                wrong(i, "there is no " name "()")
        } else if (where == "here") {
            if (!is_defined(name, files[i]))
                wrong(i, name "() is not in this module; say \"" name "(), file.c\"")
        } else if (!(where in is_source))
            wrong(i, "there is no " where)
        else if (!((where, name) in defines))
            wrong(i, where " does not define " name "()")
    }
    exit bad
}
