#!/usr/bin/python3
"""Ends and leaves a child behind, which keeps the output open and would write to it later; it ignores polite signals."""

import os
import signal
import time

import noted

print("Content-Type: text/plain\n\nall that there is", flush=True)
child = os.fork()
if child > 0:
    noted.note(pid=child)
else:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(100000)
    print("never to be seen")
