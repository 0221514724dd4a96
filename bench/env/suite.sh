#!/bin/sh
# Runs the 1,000 tests of `cases.sh`: `suite.sh CASES`, in an empty folder. Prints those that failed, and how many passed.
set -u
cases=$1
passed=0
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 \
    26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50; do
    for case in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        mkdir t
        cd t || exit 1
        if sh "$cases" "$case" "$number"; then
            passed=$((passed + 1))
        else
            echo "failed: $case $number"
        fi
        cd ..
        rm -r t
    done
done
echo "$passed passed"
