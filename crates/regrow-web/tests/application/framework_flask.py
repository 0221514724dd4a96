"""A minimal application of Flask."""

from __future__ import annotations

import io
from typing import Any

import flask

app = flask.Flask(__name__)
counter = 0


@app.route("/count")
def count() -> str:
    global counter
    counter += 1
    return str(counter)


@app.route("/r\u00e9sum\u00e9/<name>", methods=["GET", "POST"])
def form(name: str) -> Any:
    return {"name": name, "form": flask.request.form.get("a"), "url": flask.request.url}


@app.route("/stream")
def stream() -> Any:
    return flask.Response((str(number) for number in range(5)), mimetype="text/plain")


@app.route("/file")
def file() -> Any:
    return flask.send_file(__file__ if flask.request.args else io.BytesIO(b"in memory"), mimetype="text/plain")


@app.route("/fails")
def fails() -> str:
    raise LookupError("in the view")
