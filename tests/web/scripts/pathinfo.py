#!/usr/bin/python3
"""Prints the bytes of the script's name and of the path behind it."""

import os

print("Content-Type: text/plain")
print()
for name in (b"SCRIPT_NAME", b"PATH_INFO", b"QUERY_STRING"):
    print(name.decode(), os.environb.get(name, b""))
