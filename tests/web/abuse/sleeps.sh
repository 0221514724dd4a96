#!/bin/sh
# Never ends, and neither does what it has started; where the query says so, its header has gone out before.
# shellcheck source-path=SCRIPTDIR
. ./noted.sh
sleep 100000 &
echo $! >>"$REGROW_TEST_NOTES/pids"
if [ "$QUERY_STRING" = head ]; then
    printf 'Content-Type: text/plain\n\nthe beginning\n'
fi
echo >>"$REGROW_TEST_NOTES/started"
wait
