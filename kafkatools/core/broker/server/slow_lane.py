"""The slow lane: large requests, handled in slices between the turns of the listener.

Rules:
- Each request has a thread, which runs only while the listener's thread waits for it: `turn` lets one request work for
  a slice. So one thread at a time works on the broker's state and no lock is needed. A slice ends only where the code
  calls the pause (`protocol/slices.py`).
- The active requests take turns. At most `MOST_ACTIVE` are active; the others wait, and cost nothing but their frame.
- The frame stays in the connection's buffer until the request has ended; the connection handles nothing meanwhile.
- When a connection closes, its request ends at its next pause.
- While requests are active, Python's garbage collector makes no full collection. One cannot be interrupted, and takes
  more than 50 ms with the hundreds of thousands of objects of a few large requests. Reference counts free those
  objects.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable

from kafkatools.core.broker.server.failure_reports import bug_text
from kafkatools.core.broker.server.requests import DELAYED, Client, CloseConnection, Request, Response
from kafkatools.core.clock import thread_time_ns

SLICE_NS = 5_000_000
MOST_ACTIVE = 4
NEVER = (1 << 31) - 1


class _Abandoned(BaseException):
    """Ends a request whose connection is closed. A BaseException, so that no handler catches it as an error."""


class _Job:
    """One request and its thread. The listener's thread calls `resume`, the job's own thread calls `pause`."""

    def __init__(self, request: Request, work: Callable[[], Response], slice_ns: int) -> None:
        self.request = request
        self.connection = request.connection
        self.is_done = False
        self.is_abandoned = False
        self.outcome: Response | CloseConnection = ()
        self._work = work
        self._slice_ns = slice_ns
        self._end_ns = 0
        self._may_work = threading.Semaphore(0)
        self._has_paused = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def resume(self) -> None:
        """Let the request work for one slice; on return its thread waits or has ended."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-slow-request", daemon=True)
            self._thread.start()
        self._may_work.release()
        self._has_paused.acquire()
        if self.is_done:
            self._thread.join()

    def pause(self) -> None:
        """Return control to the listener if the slice is over, until the next `resume`. Ends the request if its
        connection was closed meanwhile."""
        if thread_time_ns() < self._end_ns:
            return
        self._has_paused.release()
        self._begin_slice()

    def _begin_slice(self) -> None:
        self._may_work.acquire()
        if self.is_abandoned:
            raise _Abandoned
        self._end_ns = thread_time_ns() + self._slice_ns

    def _run(self) -> None:
        try:
            self._begin_slice()
            with self.request.paced_by(self.pause):
                self.outcome = self._work()
        except CloseConnection as error:
            self.outcome = error
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - the boundary of a thread: the listener must get the control back
            self.outcome = CloseConnection(bug_text(error))
        finally:
            self.is_done = True
            self._has_paused.release()


class _FullCollections:
    """Counts the lanes of the process that need the garbage collector's full collections put off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._every = 0

    def put_off(self) -> None:
        """Put full collections off until each `put_off` was followed by an `allow`."""
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                young, middle, self._every = gc.get_threshold()
                gc.set_threshold(young, middle, NEVER)

    def allow(self) -> None:
        """Allow full collections again, when each `put_off` was followed by a call of this."""
        with self._lock:
            self._holders -= 1
            young, middle, every = gc.get_threshold()
            if not self._holders and every == NEVER:
                gc.set_threshold(young, middle, self._every)


_full_collections = _FullCollections()


class SlowLane:
    """The slow lane of one listener. Only the listener's thread calls its methods."""

    def __init__(self, slice_ns: int = SLICE_NS) -> None:
        self._slice_ns = slice_ns
        self._active: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()

    @property
    def is_busy(self) -> bool:
        """Return whether `turn` has work to do."""
        return bool(self._active or self._waiting)

    def submit(self, request: Request, work: Callable[[], Response]) -> None:
        """Queue a request; when it has ended, `turn` passes its outcome to the connection (`end_slices`)."""
        self._waiting.append(_Job(request, work, self._slice_ns))

    def turn(self) -> None:
        """Run one slice of one request, and give its outcome to the connection when the request has ended. Does nothing
        without requests."""
        if self._waiting and not self._active:
            _full_collections.put_off()
        while self._waiting and len(self._active) < MOST_ACTIVE:
            self._active.append(self._waiting.popleft())
        if not self._active:
            return
        job = self._active[0]
        job.resume()
        if not job.is_done:
            self._active.rotate(-1)
            return
        self._active.popleft()
        if not self._active:
            _full_collections.allow()
        if not job.is_abandoned:
            if job.request.throttle_ms and job.outcome is not DELAYED:
                job.connection.throttle(job.request.throttle_ms)
            job.connection.end_slices(job.outcome)

    def abandon(self, connection: Client) -> None:
        """Drop the waiting request of a connection that was closed; an active one ends at its next pause."""
        self._waiting = deque(job for job in self._waiting if job.connection is not connection)
        for job in self._active:
            if job.connection is connection:
                job.is_abandoned = True

    def close(self) -> None:
        """Drop all requests and end their threads."""
        self._waiting.clear()
        if self._active:
            _full_collections.allow()
        while self._active:
            job = self._active.popleft()
            job.is_abandoned = True
            while not job.is_done:
                job.resume()
