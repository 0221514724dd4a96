#!/usr/bin/python3
"""Writes 100 MiB to standard error around a small reply."""

import os

import noted

noted.note()
line = b"noise " * 170 + b"\n"
for half in range(2):
    for _ in range((50 << 20) // len(line)):
        os.write(2, line)
    os.write(1, b"Content-Type: text/plain\n\nfirst half\n" if half == 0 else b"second half\n")
