#!/usr/bin/python3
"""Prints the bytes of the query, which need not be characters of any encoding, as numbers and decoded."""

import os
import urllib.parse

raw = os.environb.get(b"QUERY_STRING", b"")
print("Content-Type: text/plain")
print()
print(raw.hex(" "))
print(urllib.parse.unquote_to_bytes(raw).hex(" "))
