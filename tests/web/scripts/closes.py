#!/usr/bin/python3
"""Closes its output when all is said, works on without, and ends later."""

import os
import time

os.write(1, b"Content-Type: text/plain\n\nsaid\n")
os.close(1)
os.close(2)
time.sleep(0.2)
