#!/usr/bin/python3
"""An upload of files, read with the standard library's parser of mail: name, type, size and digest of each part."""

import email.parser
import email.policy
import hashlib
import os
import sys

body = sys.stdin.buffer.read(int(os.environ["CONTENT_LENGTH"]))
head = f"Content-Type: {os.environ['CONTENT_TYPE']}\r\n\r\n".encode("latin-1")
message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
print("Content-Type: text/plain\n")
for part in message.iter_parts():
    content = part.get_payload(decode=True)
    name = part.get_param("name", header="content-disposition")
    print(name, part.get_filename(), part.get_content_type(), len(content), hashlib.sha256(content).hexdigest())
