#!/usr/bin/python3
"""Prints the fields of the request's header that a client chose, as variables."""

import os

print("Content-Type: text/plain; charset=latin-1")
print()
for name in sorted(os.environ):
    if name.startswith("HTTP_X_") or name in ("HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_REFERER", "HTTP_USER_AGENT"):
        print(f"{name}={os.environb[name.encode()]!r}")
