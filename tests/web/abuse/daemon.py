#!/usr/bin/python3
"""Leaves two processes behind, each in a session of its own, of which one is the other's child and nobody's when that ends."""

import os
import time

import noted

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
time.sleep(0.1)
print("Content-Type: text/plain\n\nall that there is", flush=True)
