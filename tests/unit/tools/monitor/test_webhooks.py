"""Deliveries to webhooks: real servers on loopback, the clock moved by hand."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading

import pytest
from support.http_receivers import receiving
from support.manual_clock import ManualClock
from support.ports import free_port
from support.waiting import eventually

from kafkatools.core.clock import SystemClock
from kafkatools.core.secrets import redacted_line
from kafkatools.tools.monitor.alerts import webhooks
from kafkatools.tools.monitor.alerts.webhooks import GIVE_UP_MS, Webhook
from kafkatools.tools.monitor.urls import parse_url


def test_a_body_arrives_as_it_is() -> None:
    with receiving() as receiver:
        webhook = Webhook(parse_url(receiver.url + "/services/T0/B1?x=1"), ManualClock())
        webhook.post(b'{"text": "one"}')
        assert (webhook.run_once(), webhook.run_once(), webhook.reports()) == (0, 0, [])
    (posted,) = receiver.posted
    assert (posted.path, posted.body) == ("/services/T0/B1?x=1", b'{"text": "one"}')
    assert posted.headers["content-type"] == "application/json"


def test_a_server_error_is_tried_again_in_order() -> None:
    with receiving([500, 503]) as receiver:
        webhook = Webhook(parse_url(receiver.url), ManualClock())
        for body in (b"1", b"2"):
            webhook.post(body)
        pauses = [webhook.run_once() for _ in range(4)]
        reports = webhook.reports()
    assert [posted.body for posted in receiver.posted] == [b"1", b"1", b"1", b"2"]
    assert pauses[0] < pauses[1] and pauses[2:] == [0, 0]
    assert [report.message for report in reports] == [
        f"webhook {receiver.url}: status 500 Internal Server Error; it is tried again",
        f"webhook {receiver.url} accepts alerts again",
    ]
    assert [report.is_working for report in reports] == [False, True]


def test_a_refusal_drops_the_body_and_is_told_each_time() -> None:
    with receiving([404, 302, 200], {"Location": "http://127.0.0.1:1/"}) as receiver:
        webhook = Webhook(parse_url(receiver.url), ManualClock())
        for body in (b"1", b"2", b"3"):
            webhook.post(body)
        assert [webhook.run_once() for _ in range(3)] == [0, 0, 0]
    assert [posted.body for posted in receiver.posted] == [b"1", b"2", b"3"], "redirects are not followed"
    assert [report.message.split(": ", 1)[-1] for report in webhook.reports()[:2]] == [
        "status 404 Not Found; the alert was not delivered",
        "status 302 Found; the alert was not delivered",
    ]


@pytest.mark.parametrize(
    ("header", "pause_ms"),
    [("30", 30_000), ("999999999", 60_000), ("\u00b2", 1000), ("9" * 5000, 1000), ("-5", 1000), ("soon", 1000)],
    ids=["seconds", "too long", "no ASCII digit", "5000 digits", "negative", "text"],
)
def test_retry_after_is_respected_if_it_is_a_number(header: str, pause_ms: int) -> None:
    with receiving([429], {"Retry-After": header}) as receiver:
        webhook = Webhook(parse_url(receiver.url), ManualClock())
        webhook.post(b"1")
        assert webhook.run_once() == pause_ms


def test_a_server_that_is_down_for_long_loses_the_body() -> None:
    clock = ManualClock()
    url = f"http://127.0.0.1:{free_port()}"
    webhook = Webhook(parse_url(url), clock)
    webhook.post(b"1")
    assert webhook.run_once() > 0
    clock.advance_ms(GIVE_UP_MS)
    assert (webhook.run_once(), webhook.run_once()) == (0, 0)
    assert [report.message for report in webhook.reports()] == [
        f"webhook {url}: Connection refused; it is tried again",
        f"webhook {url}: Connection refused; the alert was not delivered",
    ]


def test_a_server_that_answers_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-out of a socket is one of each read: it never ends such an answer."""
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.5)
    has_ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1")
            while not has_ended.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=lambda: drip(server.accept()[0]), daemon=True)
        accepting.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        webhook = Webhook(parse_url(url), SystemClock())
        webhook.post(b"1")
        assert webhook.run_once() > 0
        has_ended.set()
        accepting.join()
    (report,) = webhook.reports()
    assert report.message == f"webhook {url}: no answer within 0.5 s; it is tried again"


def test_too_many_bodies_drop_the_oldest() -> None:
    webhook = Webhook(parse_url("http://127.0.0.1:1"), ManualClock())
    for _ in range(1002):
        webhook.post(b"x")
    assert len(webhook.reports()) == 2


def test_the_thread_delivers_and_ends() -> None:
    with receiving([500]) as receiver:
        webhook = Webhook(parse_url(receiver.url), SystemClock())
        webhook.start()
        webhook.post(b"1")
        eventually(lambda: len(receiver.posted) >= 1)
        webhook.close(30_000)  # does not wait for the pause
    assert [posted.body for posted in receiver.posted] == [b"1", b"1"]


def test_the_end_tries_again_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_FIRST_PAUSE_MS", 10)
    with receiving([500, 500, 500]) as receiver:
        webhook = Webhook(parse_url(receiver.url), SystemClock())
        webhook.post(b"1")
        webhook.start()
        webhook.close(30_000)
    assert [posted.body for posted in receiver.posted] == [b"1"] * 4
    assert [report.is_working for report in webhook.reports()] == [False, True]


def test_what_the_end_does_not_deliver_is_told() -> None:
    with receiving([500] * 9) as receiver:
        webhook = Webhook(parse_url(receiver.url), SystemClock())
        webhook.post(b"1")
        webhook.post(b"2")
        webhook.start()
        webhook.close(500)  # less than the first pause
    assert [report.message for report in webhook.reports()] == [
        f"webhook {receiver.url}: status 500 Internal Server Error; it is tried again",
        f"webhook {receiver.url}: 2 reports of alerts were not delivered before the end of kt monitor",
    ]


def test_the_secrets_of_a_url_are_hidden() -> None:
    url = parse_url("https://me:pass%40word99@hooks.example.org:8443/services/T000/B000/XXXXsecretXXXX?key=k-123456789")
    assert url.label == "https://hooks.example.org:8443"
    assert url.url == "https://hooks.example.org:8443/services/T000/B000/XXXXsecretXXXX?key=k-123456789"
    assert url.authorization == "Basic " + base64.b64encode(b"me:pass@word99").decode()
    for text in (url.url, "services/T000/B000/XXXXsecretXXXX", "pass@word99", "key=k-123456789"):
        assert "[hidden]" in redacted_line(f"failed: {text}"), text


@pytest.mark.parametrize(
    "text", ["", "hooks.example.org/x", "ftp://host/", "https://", "http://h:99999/", "http://a b/"]
)
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(ValueError, match="a URL begins with http://HOST|its host or port is invalid"):
        parse_url(text)
