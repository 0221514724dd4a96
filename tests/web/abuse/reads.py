#!/usr/bin/python3
"""Reads the whole body, and says how long it was and what its digest is; notes when it has begun."""

import hashlib
import os
import sys

import noted

noted.note()
noted.note("started")
digest = hashlib.sha1(usedforsecurity=False)
length = 0
while piece := sys.stdin.buffer.read1(1 << 20):
    digest.update(piece)
    length += len(piece)
print(f"Content-Type: text/plain\n\n{os.environ.get('CONTENT_LENGTH', 'none')} {length} {digest.hexdigest()}")
