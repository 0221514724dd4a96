#!/bin/sh
# One test of a suite of shell tests: `cases.sh CASE NUMBER`. Each asserts what small programs say of small files, as suites of command line
# tools do. It runs in an empty folder.
# expr is one of the programs; the inner shells expand what stands in single quotes.
# shellcheck disable=SC2003,SC2016
set -eu

# Fails when two texts differ.
same() {
    if [ "$1" != "$2" ]; then
        echo "expected: $2, found: $1" >&2
        exit 1
    fi
}

n=$2
case $1 in
1)
    printf 'a %s\nb %s\n' "$n" "$n" >in
    same "$(sed -n 's/^a //p' in)" "$n"
    same "$(grep -c . in)" 2
    ;;
2) same "$(expr "$n" + 1)" $((n + 1)) && same "$(expr "$n" \* 2)" $((n + n)) && same "$(expr "x$n" : 'x\(.*\)')" "$n" ;;
3)
    echo "one:two:$n" >in
    same "$(cut -d: -f3 in)" "$n"
    same "$(tr : '\n' <in | tail -n 1)" "$n"
    same "$(tr : '\n' <in | head -n 1)" one
    ;;
4)
    seq "$n" >in
    same "$(wc -l <in)" "$n"
    same "$(sort -n in | tail -n 1)" "$n"
    ;;
5)
    mkdir -p a/b
    touch "a/b/$n"
    same "$(ls a/b)" "$n"
    rm -r a
    same "$(ls)" ""
    ;;
6)
    same "$(basename "/x/$n.c" .c)" "$n"
    same "$(dirname "/x/$n/y")" "/x/$n"
    ;;
7)
    echo "$n" >in
    cp in out
    cmp in out
    same "$(cat in out | sort -u)" "$n"
    ;;
8)
    echo "$n" | tee one >two
    diff one two
    mv one three
    same "$(cat three)" "$n"
    ;;
9) same "$(echo b "$n" a | tr ' ' '\n' | sort | head -n 1)" "$(printf '%s\na\n' "$n" | sort | head -n 1)" ;;
10)
    printf 'k=%s\nz=1\n' "$n" >in
    same "$(sed -e '/^z/d' -e 's/k=//' in)" "$n"
    if grep -q missing in; then exit 1; fi
    ;;
11)
    echo "$n" >in
    ln -s in link
    same "$(readlink link)" in
    same "$(cat link)" "$n"
    ;;
12) same "$(sh -c 'echo $1' sh "$n")" "$n" && same "$(env X="$n" sh -c 'echo $X')" "$n" ;;
13)
    printf '%s\n%s\nx\n' "$n" "$n" | uniq -c >out
    same "$(wc -l <out)" 2
    same "$(sed -n 1p out | tr -d ' ')" "2$n"
    ;;
14)
    echo "x $n" >in
    chmod 600 in
    same "$(stat -c %a in)" 600
    same "$(cut -c3- in)" "$n"
    ;;
15) same "$(printf '%s\n' "$n" 0 | sort -n | head -n 1)" 0 && same "$(printf '%05d' "$n" | wc -c)" 5 ;;
16)
    seq "$n" | paste -sd+ - >sum
    same "$(tr -d 0-9 <sum | wc -c)" "$n"
    ;;
17)
    echo "$n" | od -An -c | tr -d ' \n' >out
    same "$(cat out)" "$n\\n"
    ;;
18)
    touch a b c
    same "$(find . -type f | sort | tr -d './\n')" abc
    same "$(find . -name b | wc -l)" 1
    ;;
19)
    echo "$n" | md5sum | cut -d' ' -f1 >one
    echo "$n" | md5sum | cut -d' ' -f1 >two
    cmp one two
    same "$(wc -c <one)" 33
    ;;
20) same "$(echo 1 2 3 | xargs -n1 expr "$n" + | tail -n 1)" $((n + 3)) && same "$(date -u -d "@$n" +%s)" "$n" ;;
*) exit 2 ;;
esac
