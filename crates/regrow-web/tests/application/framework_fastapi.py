"""A minimal application of FastAPI, and with it of Starlette."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


@contextlib.asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    print("begins", file=sys.stderr)
    yield {"pool": "a pool"}
    print("ends", file=sys.stderr)


app = FastAPI(lifespan=lifespan)
counter = 0


class Item(BaseModel):
    name: str
    number: int = 5


@app.get("/count")
async def count() -> int:
    global counter
    counter += 1
    return counter


@app.post("/items/{key}")
async def item(key: str, item: Item, request: Request, later: BackgroundTasks) -> Any:
    later.add_task(print, "in the background", file=sys.stderr)
    return {"key": key, "number": item.number + 1, "pool": request.state.pool, "url": str(request.url)}


@app.get("/thread")
def thread() -> str:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "a thread"
    return "the loop"


@app.get("/anyio")
async def by_anyio() -> str:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0.01)
    with anyio.move_on_after(0.01):
        await anyio.sleep_forever()
    return await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(anyio.sleep, 0) or "by anyio")


@app.get("/stream")
async def stream() -> StreamingResponse:
    def numbers() -> Iterator[str]:
        for number in range(5):
            yield str(number)

    return StreamingResponse(numbers())


@app.get("/fails")
async def fails() -> str:
    raise LookupError("in the view")
