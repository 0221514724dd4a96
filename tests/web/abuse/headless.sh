#!/bin/sh
# Writes what is no header, in the way that the query says.
# shellcheck source-path=SCRIPTDIR
. ./noted.sh
case $QUERY_STRING in
nothing) ;;
text) echo 'this is no header' ;;
unfinished) printf 'Content-Type: text/plain\nX-More: to come\n' ;;
colon) printf ': nameless\n\nbody\n' ;;
blank) printf 'X Name: value\n\nbody\n' ;;
return) printf 'X-Name: a\rb: c\n\nbody\n' ;;
zero) printf 'X-Name: a\000b\n\nbody\n' ;;
status) printf 'Status: none\n\nbody\n' ;;
empty) printf '\nbody\n' ;;
endless)
    printf 'X-Name: '
    while echo 'X-Name: and on and on and on and on and on and on and on and on and on and on'; do :; done
    ;;
esac
