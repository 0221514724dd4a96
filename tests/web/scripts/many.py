#!/usr/bin/python3
"""Writes a header of 100 fields, some of a kilobyte, some twice, some empty."""

print("Content-Type: text/plain")
for number in range(90):
    print(f"X-Field-{number}: {'v' * (number * 13 % 1024)}{number}")
for number in range(8):
    print(f"X-Twice: {number}")
print("x-LOWER-and-upper:   blanks   around   ")
print("X-Bytes: ;,=\"'<>\\`{}|~")
print()
print("a hundred")
