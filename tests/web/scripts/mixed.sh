#!/bin/sh
# A header with both kinds of line end, and names in unusual letters.
printf 'content-TYPE:text/plain\r\nX-Ends:mixed\nSTATUS: 202 Taken\r\n\nbody\n'
