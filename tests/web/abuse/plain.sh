#!/bin/sh
# The request that is asked after every misuse.
# shellcheck source-path=SCRIPTDIR
. ./noted.sh
printf 'Content-Type: text/plain\n\nstill here\n'
