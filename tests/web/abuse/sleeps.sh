#!/bin/sh
# Never ends, and neither does what it has started; where the query says so, its header or all of its reply has gone out before.
# shellcheck source-path=SCRIPTDIR
. ./noted.sh
sleep 100000 &
echo $! >>"$REGROW_TEST_NOTES/pids"
if [ "$QUERY_STRING" = head ]; then
    printf 'Content-Type: text/plain\n\nthe beginning\n'
elif [ "$QUERY_STRING" = whole ]; then
    setsid sleep 100000 &
    echo $! >>"$REGROW_TEST_NOTES/pids"
    printf 'Content-Type: text/plain\nContent-Length: 3\n\nok\n'
fi
echo >>"$REGROW_TEST_NOTES/started"
wait
