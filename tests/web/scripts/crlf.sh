#!/bin/sh
# A header whose lines end as those of HTTP do; the body has both kinds, and begins with an empty line.
printf 'Content-Type: text/plain\r\nX-Ends: crlf\r\n\r\n\r\none\ntwo\r\nthree'
