#!/usr/bin/python3
"""Says how it was called and what is beside it."""
import os
import sys

print(os.path.basename(sys.argv[0]), sys.argv[1:], sys.stdin.read())
print(sorted(os.listdir(".")), file=sys.stderr)
sys.exit(len(sys.argv) - 1)
