# Prints the tables of one kind (-v kind=program or victim) of manifest.toml, a line each: the values
# of the keys that -v keys names, separated by \037; each element of a list is ended by \036, and a
# list without elements is \035, so that it is not a missing one. Knows just so much TOML as
# manifest.toml uses: a value on its line; strings with \n, \" and \\; lists of strings.

function flush_table(    n, i, names, line) {
    n = split(keys, names, " ")
    for (i = 1; i <= n; i++)
        line = line (i > 1 ? "\037" : "") value[names[i]]
    if (inside) print line
    split("", value)
}

# Takes the string that `rest` starts with out of it.
function take_string(    text, c) {
    rest = substr(rest, 2)
    while (rest != "" && (c = substr(rest, 1, 1)) != "\"") {
        if (c == "\\") {
            c = c substr(rest, 2, 1)
            if (c != "\\n") c = substr(c, 2)
        }
        text = text c
        rest = substr(rest, length(c) + (c == "\"" || c == "\\") + 1)
    }
    rest = substr(rest, 2)
    return text
}

/^\[\[/ { flush_table(); inside = ($0 == "[[" kind "]]"); next }
/^[a-z_]+ = / {
    key = $1
    rest = substr($0, length(key) + 4)
    if (rest ~ /^\[/) {
        list = ""
        for (count = 0; match(rest, /^[\[,] *"/); count++) {
            rest = substr(rest, RLENGTH)
            list = list take_string() "\036"
        }
        value[key] = count ? list : "\035"
    } else
        value[key] = rest ~ /^"/ ? take_string() : rest
}
END { flush_table() }
