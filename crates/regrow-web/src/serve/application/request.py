"""The request of a Python application: the variables of a CGI script, and the body on descriptor 0.

A part of the module `regrow_application` (see `reply`).
"""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from reply import PIECE, Variables, wait_for

#: The descriptor of the body.
INPUT = 0


def body_length(variables: Variables) -> Optional[int]:
    """The length of the body; `None` if only its end tells."""
    text = variables.get(b"CONTENT_LENGTH")
    if text:
        if not text.isdigit():
            raise ValueError(f"{text!r} is no CONTENT_LENGTH")
        return int(text)
    return None if b"HTTP_TRANSFER_ENCODING" in variables else 0


def is_secure(variables: Variables) -> bool:
    """Whether the client has used HTTPS."""
    return variables.get(b"HTTPS", b"").lower() in (b"on", b"1") or variables.get(b"REQUEST_SCHEME") == b"https"


class Body(io.RawIOBase):
    """The body: descriptor 0 up to the length of the body. An earlier end is an error."""

    def __init__(self, length: Optional[int]) -> None:
        self.left = length

    def readable(self) -> bool:
        """A body is always readable."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Reads what is there, or waits for it."""
        view = memoryview(buffer)
        if self.left is not None:
            view = view[: self.left]
        if not view:
            return 0
        while True:
            try:
                count = os.readv(INPUT, (view,))
                break
            except BlockingIOError:
                wait_for(INPUT)
        if self.left is not None:
            if not count:
                raise ConnectionResetError(f"the request's body has ended {self.left} bytes early")
            self.left -= count
        return count

    def readall(self) -> bytes:
        """Reads the rest."""
        return b"".join(iter(lambda: self.read(PIECE) or b"", b""))
