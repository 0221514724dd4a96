#!/usr/bin/python3
"""Says the length of its body itself, and writes that much."""

import sys

body = "exactly so long: ä\n".encode()
sys.stdout.buffer.write(b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
