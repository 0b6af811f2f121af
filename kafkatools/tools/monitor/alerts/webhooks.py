"""POST alerts to webhooks, each in a thread of its own, so that collecting never waits.

Rules: bodies arrive in order. A server error, 408, 429 and a lost connection are retried with growing pauses for ten
minutes; any other status than 2xx drops the body. Redirects are not followed. Of a URL only scheme, host and port are
printed, since the path of a webhook is often its secret.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from http import HTTPStatus
from http.client import HTTPException, responses
from urllib.error import HTTPError, URLError
from urllib.request import Request

from kafkatools.core.clock import Clock
from kafkatools.core.secrets import redacted
from kafkatools.tools.monitor.alerts.posting import post
from kafkatools.tools.monitor.reports import Report
from kafkatools.tools.monitor.urls import HttpUrl

TIMEOUT_S = 10
GIVE_UP_MS = 600_000
_FIRST_PAUSE_MS = 1000
_LONGEST_PAUSE_MS = 60_000
_MOST_BODIES = 1000
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Refused(Exception):
    """The server refused a body. `is_final`: another attempt would not help. `pause_s`: after which it may be tried."""

    def __init__(self, reason: str, *, is_final: bool, pause_s: int = 0) -> None:
        super().__init__(reason)
        self.is_final = is_final
        self.pause_s = pause_s


class Webhook:
    """Delivers bodies to one URL. `post` and `reports` may be called by any thread, `run_once` by one thread only.
    `_lock` guards the bodies, the reports and `_close_by_ms`. `name` is used in reports."""

    def __init__(self, url: HttpUrl, clock: Clock) -> None:
        self.name = f"webhook {url.label}"
        self._url = url
        self._clock = clock
        self._lock = threading.Condition()
        self._bodies: deque[tuple[int, bytes]] = deque()
        self._reports: list[Report] = []
        self._close_by_ms: int | None = None
        self._is_failing = False
        self._pause_ms = _FIRST_PAUSE_MS
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that delivers."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def post(self, body: bytes) -> None:
        """Add a body to those to deliver. Beyond 1000 bodies the oldest is dropped."""
        with self._lock:
            if len(self._bodies) == _MOST_BODIES:
                self._bodies.popleft()
                self._reports.append(Report(False, f"{self.name}: an undelivered alert was dropped"))
            self._bodies.append((self._clock.now_ms(), body))
            self._lock.notify_all()

    def reports(self) -> list[Report]:
        """Return the changes since the last call."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def close(self, patience_ms: int) -> None:
        """Wait until all bodies are delivered, at most `patience_ms`. A body that remains is reported as lost."""
        with self._lock:
            self._close_by_ms = self._clock.now_ms() + patience_ms
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(patience_ms / 1000)
        with self._lock:
            if self._bodies:
                lost = "reports of alerts were" if len(self._bodies) > 1 else "report of alerts was"
                message = f"{len(self._bodies)} {lost} not delivered before the end of kt monitor"
                self._reports.append(Report(False, f"{self.name}: {message}"))

    def run_once(self) -> int:
        """Try to deliver the oldest body. Return the pause in ms until the next attempt, 0 for none."""
        with self._lock:
            if not self._bodies:
                return 0
            posted_ms, body = self._bodies[0]
        try:
            self._send(body)
        except _Refused as error:
            is_late = self._clock.now_ms() - posted_ms >= GIVE_UP_MS
            if not error.is_final and not is_late:
                self._report_failure(f"{error}; it is tried again")
                pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
                return max(pause_ms, min(1000 * error.pause_s, _LONGEST_PAUSE_MS))
            self._report_failure(f"{error}; the alert was not delivered", is_news=True)
        else:
            self._report_success()
        with self._lock:
            if self._bodies and self._bodies[0][1] is body:
                self._bodies.popleft()
        self._pause_ms = _FIRST_PAUSE_MS
        return 0

    def _run(self) -> None:
        while True:
            pause_ms = self.run_once()
            with self._lock:
                if self._close_by_ms is not None:
                    if not self._bodies or self._clock.now_ms() + pause_ms >= self._close_by_ms:
                        return
                    self._lock.wait(pause_ms / 1000)
                elif pause_ms:
                    self._lock.wait_for(lambda: self._close_by_ms is not None, pause_ms / 1000)
                elif not self._bodies:
                    self._lock.wait_for(lambda: self._close_by_ms is not None or bool(self._bodies))

    def _send(self, body: bytes) -> None:
        """POST a body. Raises _Refused for any status but 2xx, and when the server does not answer."""
        headers = {"Content-Type": "application/json", "User-Agent": "kt-monitor"}
        if self._url.authorization is not None:
            headers["Authorization"] = self._url.authorization
        try:
            post(Request(self._url.url, body, headers, method="POST"), TIMEOUT_S)
        except HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            text = f"no answer within {TIMEOUT_S} s" if isinstance(reason, TimeoutError) else redacted(_words(reason))
            raise _Refused(text, is_final=isinstance(error, ValueError)) from None

    def _report_failure(self, reason: str, *, is_news: bool = False) -> None:
        if not self._is_failing or is_news:
            self._is_failing = True
            with self._lock:
                self._reports.append(Report(False, f"{self.name}: {reason}"))

    def _report_success(self) -> None:
        if self._is_failing:
            self._is_failing = False
            with self._lock:
                self._reports.append(Report(True, f"{self.name} accepts alerts again"))


def _refusal(error: HTTPError) -> _Refused:
    retried = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    is_final = error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in retried
    pause = error.headers.get("Retry-After", "")
    phrase = responses.get(error.code, "")
    pause_s = int(pause) if _SECONDS.fullmatch(pause) else 0
    return _Refused(f"status {error.code} {phrase}".strip(), is_final=is_final, pause_s=pause_s)


def _words(reason: object) -> str:
    text = getattr(reason, "verify_message", None) or getattr(reason, "strerror", None) or str(reason)
    return str(text) or type(reason).__name__
