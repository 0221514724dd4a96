#!/usr/bin/python3
"""Reads the whole body in pieces, whatever its length is said to be, and prints its length and digest."""

import hashlib
import os
import sys

digest = hashlib.sha256()
length = 0
while piece := sys.stdin.buffer.read(1 << 16):
    digest.update(piece)
    length += len(piece)
print("Content-Type: text/plain")
print("X-Length:", length)
print()
print(os.environ["REQUEST_METHOD"], os.environ.get("CONTENT_TYPE", ""), length, digest.hexdigest())
