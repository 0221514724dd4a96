#!/usr/bin/python3
"""Prints the whole environment, a line for each variable."""

import os

import noted

noted.note()
print("Content-Type: text/plain\n")
for name in sorted(os.environ):
    print(f"{name}={os.environ[name]!r}")
