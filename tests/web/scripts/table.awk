#!/usr/bin/awk -f
# Adds up the numbers of a table that comes as the body, column by column.
BEGIN {
    print "Content-Type: text/plain"
    print ""
}
{
    for (i = 1; i <= NF; i++) {
        sum[i] += $i
    }
    if (NF > columns) {
        columns = NF
    }
}
END {
    for (i = 1; i <= columns; i++) {
        printf "column %d: %d\n", i, sum[i]
    }
    printf "%d lines\n", NR
}
