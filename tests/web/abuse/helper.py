#!/usr/bin/python3
"""Has a helper in a session of its own, which is nobody's child. It helps when the test has made a file, and stays."""

import os
import time

import noted

answers, says = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        noted.note(pid=os.getpid())
        for number in range(3):
            os.close(number)
        while not (noted.NOTES / "go").exists():
            time.sleep(0.05)
        os.write(says, b"helped\n")
        time.sleep(100000)
    os._exit(0)
os.wait()
os.close(says)
print("Content-Type: text/plain\n\n" + os.read(answers, 100).decode(), end="", flush=True)
