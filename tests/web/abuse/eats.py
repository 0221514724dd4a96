#!/usr/bin/python3
"""Takes as many MiB of memory as the query says, and says whether it was given them."""

import os

import noted

noted.note()
try:
    block = bytearray(int(os.environ["QUERY_STRING"]) << 20)
    answer = f"had {len(block)}"
except MemoryError:
    answer = "refused"
print(f"Content-Type: text/plain\n\n{answer}")
