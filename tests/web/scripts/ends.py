#!/usr/bin/python3
"""What a program writes when it ends: handlers of `atexit`, a thread that outlives the last line, and a buffer."""

import atexit
import sys
import threading
import time


def late() -> None:
    time.sleep(0.1)
    print("a thread that ends later")


atexit.register(print, "registered first")
atexit.register(print, "registered last")
print("Content-Type: text/plain\n\nbody")
thread = threading.Thread(target=late)
thread.start()
sys.exit(0)
