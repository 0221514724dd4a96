#!/bin/sh -e
# Says how it was called, then works on its own text.
echo "script $0 with $# arguments: $*"
for word in "$@"; do
	case $word in
	-*) echo "option $word" ;;
	*) echo "word $word" ;;
	esac
done
grep -c echo "$0"
false && echo never
echo done
