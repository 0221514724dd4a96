#!/usr/bin/mawk -f
# Reads no input at all: what it says comes from its variables.
BEGIN {
    printf "Content-Type: text/plain\r\n\r\n"
    count = split(ENVIRON["QUERY_STRING"], pairs, "&")
    for (i = 1; i <= count; i++) {
        printf "%d %s\n", i, pairs[i]
    }
    print ENVIRON["REQUEST_METHOD"], length(ENVIRON["PATH_INFO"])
}
