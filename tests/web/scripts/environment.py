#!/usr/bin/python3
"""Prints the variables of RFC 3875 that every server must give alike; what is not set is the same as what is empty."""

import os
import sys

NAMES = (
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "GATEWAY_INTERFACE",
    "PATH_INFO",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_NAME",
)

# A body that nobody reads is trouble for Apache.
sys.stdin.buffer.read()
print("Content-Type: text/plain")
print()
for name in NAMES:
    value = os.environ.get(name, "")
    # Where the folder lies is the test's own affair.
    print(f"{name}={value[value.find('/scripts/') :] if name == 'SCRIPT_FILENAME' else value}")
print(f"protocol begins with {os.environ['SERVER_PROTOCOL'][:5]}")
print(f"port is a number: {os.environ['SERVER_PORT'].isdigit()}")
print(f"software is named: {bool(os.environ['SERVER_SOFTWARE'])}")
print(f"there is a search path: {'PATH' in os.environ}")
