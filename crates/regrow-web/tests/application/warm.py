"""Has the front end for Python answer requests out of an image: `warm.py SOURCE PROGRAM KIND TARGET FOLDER RUNS PATH`.

Prints, as JSON, for each run how its process was made, its exit status, its reply, and what it has written to its standard
error. Is run by an interpreter that has the package `regrow`; the image is of PROGRAM.
"""

from __future__ import annotations

import base64
import json
import os
import sys

from regrow import _core

CALL = b"regrow_application:serve\n"


def bootstrap(source: str, kind: str, target: str) -> str:
    """What the image is set up with."""
    return (
        "import sys\nmodule = type(sys)('regrow_application')\nsys.modules[module.__name__] = module\n"
        f"exec(compile({source!r}, '<regrow_application>', 'exec'), vars(module))\n"
        f"module.prepare({kind!r}, {target!r})\n"
    )


def run(pool: _core.Pool, image: _core.Image, number: int) -> dict[str, object]:
    """A request. The variables of a call are those of this process."""
    os.environ["QUERY_STRING"] = str(number)
    output, theirs = os.pipe()
    errors, their_errors = os.pipe()
    process = pool.start(image, ["x"], call=CALL, fds=[(theirs, 1), (their_errors, 2)])
    os.close(theirs)
    os.close(their_errors)
    texts = []
    for descriptor in (output, errors):
        with open(descriptor, "rb") as file:
            texts.append(file.read().decode("latin-1"))
    process.wait()
    return {"creation": process.creation, "status": process.returncode, "reply": texts[0], "errors": texts[1]}


def main() -> None:
    """Makes the image, and runs."""
    path, program, kind, target, folder, runs, request = sys.argv[1:]
    with open(path, encoding="ascii") as file:
        setup = base64.b64encode(bootstrap(file.read(), kind, target).encode()).decode()
    os.environ.update(REQUEST_METHOD="GET", SCRIPT_NAME="", PATH_INFO=request, SERVER_PROTOCOL="HTTP/1.1")
    os.environ.update(SERVER_NAME="localhost", SERVER_PORT="80", HTTP_HOST="localhost")
    pool = _core.Pool(4, warm_only=True)
    image = _core.Image(program, [], ["--path", folder, "--setup", f"builtins:exec:{setup}"])
    point, why = pool.prepare(image, ["x"], call=CALL)
    made = [run(pool, image, number) for number in range(int(runs))] if point == "warm" else []
    print(json.dumps({"point": point, "why": why, "runs": made}))


if __name__ == "__main__":
    main()
