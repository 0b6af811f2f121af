"""Start the process that reads records for a request, and end it with the request."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from typing import NamedTuple

from kafkatools.tools.monitor.messages.request import MessageRequest, Source, to_json

_MODULE = "kafkatools.tools.monitor.messages.reader_process"
_GRACE_S = 3.0
"""How much longer than the request's seconds the process may run: it starts, looks offsets up and ends."""
_LINE_BYTES = 64 << 20
_TOO_LONG = "Stopped after {} s, within one record or lookup"


class Outcome(NamedTuple):
    """The HTTP status and the JSON object of a response."""

    status: int
    body: dict[str, object]


async def read_in_process(source: Source, request: MessageRequest) -> Outcome:
    """Return the response to a request. A cancelled call ends the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # modules in the working directory are not the program's
        "-m",
        _MODULE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        limit=_LINE_BYTES,
        start_new_session=True,  # Ctrl-C on the terminal is for the monitor
    )
    progress: dict[str, object] = {}
    try:
        async with asyncio.timeout(request.seconds + _GRACE_S):
            assert process.stdin is not None and process.stdout is not None
            with suppress(ConnectionError):  # the process has ended; its lines say why
                process.stdin.write(to_json(source, request))
                await process.stdin.drain()
                process.stdin.close()
            async for line in process.stdout:
                reply = json.loads(line)
                if "progress" not in reply:
                    return Outcome(reply.get("status", 200), reply.get("result") or {"error": reply["error"]})
                progress = reply["progress"]
        return Outcome(500, {"error": "The process that reads the records ended without a result"})
    except TimeoutError:
        return _stopped(request, progress)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and close its pipes, even if the task is cancelled meanwhile."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    is_closed = False
    while not is_closed:
        with suppress(asyncio.CancelledError):
            await process.communicate()
            is_closed = True


def _stopped(request: MessageRequest, progress: dict[str, object]) -> Outcome:
    """Return the response to a request whose process did not end by itself: its progress, without records."""
    stopped = _TOO_LONG.format(request.seconds)
    search = progress.get("search")
    looked = search.get("summary", "") if isinstance(search, dict) else ""
    return Outcome(504, {"error": f"{stopped}. {looked}".removesuffix(" "), "stopped": stopped, **progress})
