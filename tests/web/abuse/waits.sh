#!/bin/sh
# Answers when a file has come that the test makes.
# shellcheck source-path=SCRIPTDIR
. ./noted.sh
echo >>"$REGROW_TEST_NOTES/started"
while [ ! -e "$REGROW_TEST_NOTES/go" ]; do
    sleep 0.05
done
printf 'Content-Type: text/plain\n\nwaited\n'
