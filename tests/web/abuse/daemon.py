#!/usr/bin/python3
"""Leaves processes behind.

Two are in sessions of their own, of which one is the other's child and nobody's when that ends. Another one would join the
gateway's own group.
"""

import contextlib
import os
import time

import noted

gateway = os.getppid()
if os.fork() == 0:
    with contextlib.suppress(PermissionError):
        os.setpgid(0, os.getpgid(gateway))
    noted.note(pid=os.getpid())
    for number in range(3):
        os.close(number)
    time.sleep(100000)

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        noted.note(pid=os.getpid())
        for number in range(3):
            os.close(number)
        time.sleep(100000)
    noted.note(pid=os.getpid())
    for number in range(3):
        os.close(number)
    time.sleep(100000)
while noted.count() < 3:
    time.sleep(0.01)
print("Content-Type: text/plain\n\nall that there is", flush=True)
