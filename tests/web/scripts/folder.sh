#!/bin/sh
# Says in which folder it runs, and reads a file that lies there.
echo 'Content-Type: text/plain'
echo
echo "folder ${PWD##*/}"
head -n 1 ./plain.sh
cat <sub/deeper/beside.txt
