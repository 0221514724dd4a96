#!/bin/sh
# A header whose lines end as those of Unix do; the body has both kinds.
printf 'Content-Type: text/plain\nX-Ends: lf\n\none\ntwo\r\nthree'
