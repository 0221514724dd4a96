#!/usr/bin/python3
"""Writes a body of 5 MiB in which every line is another one."""

import sys

LENGTH = 5 << 20

out = sys.stdout.buffer
out.write(b"Content-Type: text/plain\nX-Length: %d\n\n" % LENGTH)
written = number = 0
while written < LENGTH:
    line = b"%d: %s\n" % (number, b"abcdefghijklmnopqrstuvwxyz"[: number % 27])
    line = line[: LENGTH - written]
    out.write(line)
    written += len(line)
    number += 1
