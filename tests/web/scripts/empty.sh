#!/bin/sh
# A header with nothing behind it.
printf 'Content-Type: text/plain\nX-Body: none\n\n'
