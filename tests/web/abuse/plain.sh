#!/bin/sh
# The request that is asked after every misuse.
printf 'Content-Type: text/plain\n\nstill here\n'
