"""The JSON routes of the page of kt monitor: the view, the history, and details of one topic, group or broker.

The view is made once for each snapshot and stays in memory as text. Details wait for brokers, so a thread of their own
makes them; it has a client of its own (`tools/monitor/details.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from kafkatools.commands.monitor.http_requests import Content
from kafkatools.commands.monitor.routes import LongContent, Route, Visit
from kafkatools.core.errors import KafkaError
from kafkatools.core.secrets import redacted
from kafkatools.output import json_line
from kafkatools.tools.monitor.background import in_thread
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.details import KINDS as DETAIL_KINDS
from kafkatools.tools.monitor.details import Busy, Details, UnknownName
from kafkatools.tools.monitor.history import CLUSTER, SERIES
from kafkatools.tools.monitor.page_data import history_data, page_data

JSON = "application/json"


def data_routes(board: Board, details: Details) -> dict[str, Route]:
    """Return the routes of the page's data, by path."""
    routes = {f"/{kind}.json": Route(_detail(details, kind)) for kind in DETAIL_KINDS}
    return {"/view.json": Route(_view(board)), "/history.json": Route(_history(board)), **routes}


def _view(board: Board) -> Callable[[Visit], Content]:
    made: tuple[object, bytes] = (None, b"")

    def content(visit: Visit) -> Content:
        nonlocal made
        view, error = board.last
        if view is None:
            return Content(JSON, json_line(page_data(board)).encode())
        if made[0] != (view.clock_ms, error):
            made = (view.clock_ms, error), json_line(page_data(board)).encode()
        return Content(JSON, made[1])

    return content


def _history(board: Board) -> Callable[[Visit], Content]:
    def content(visit: Visit) -> Content:
        named = [kind for kind in SERIES if kind in visit.query]
        unknown = sorted(visit.query.keys() - SERIES.keys())
        if unknown or len(named) > 1:
            fields = ", ".join(kind for kind in SERIES if kind != CLUSTER)
            return _error(HTTPStatus.BAD_REQUEST, f"Choose one of the fields {fields}, or none for the cluster")
        kind = named[0] if named else CLUSTER
        return Content(JSON, json_line(history_data(board, kind, visit.query.get(kind, ""))).encode())

    return content


def _detail(details: Details, kind: str) -> Callable[[Visit], Content | LongContent]:
    def content(visit: Visit) -> Content | LongContent:
        name = visit.query.get(kind, "")
        if not name or visit.query.keys() != {kind}:
            return _error(HTTPStatus.BAD_REQUEST, f"Name the {kind}, and nothing else: /{kind}.json?{kind}=...")

        return lambda: in_thread(lambda: _describe(details, kind, name))

    return content


def _describe(details: Details, kind: str, name: str) -> Content:
    try:
        return Content(JSON, json_line(details.describe(kind, name)).encode())
    except UnknownName as error:
        return _error(HTTPStatus.NOT_FOUND, str(error))
    except Busy as error:
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except KafkaError as error:
        return _error(HTTPStatus.BAD_GATEWAY, redacted(str(error)))


def _error(status: HTTPStatus, message: str) -> Content:
    return Content(JSON, json_line({"error": message}).encode(), status)
