"""Types of the JSON that processes of a sandbox exchange. All times are in ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class RunInfo(TypedDict):
    """A running broker, as its run file and its first report describe it; `node_id` only for `kt server-start`."""

    bootstrap: str
    pid: int
    directory: str
    idle_ms: int
    started_ms: int
    node_id: NotRequired[int]


class PlaceContent(TypedDict):
    """The ports and the data directory of one node of a sandbox."""

    node_id: int
    port: int
    controller_port: int
    directory: str
    rack: str | None


class LayoutContent(TypedDict):
    """The nodes of a sandbox and what they share: the content of `cluster.json`."""

    cluster_id: str
    root: str
    places: list[PlaceContent]
    settings: Mapping[str, str]
    idle_ms: int
    parent: int | None
    removes_home: bool


class NodeRequest(TypedDict):
    """The request that starts a process of a sandbox.

    A sandbox of one has `port`, `directory` and `settings`; a node of several has `layout`, `node` and `wait_for`
    (ids).
    """

    run_file: str
    idle_ms: int
    parent: NotRequired[int | None]
    remove: NotRequired[str | None]
    port: NotRequired[int | None]
    directory: NotRequired[str]
    settings: NotRequired[Mapping[str, str]]
    layout: NotRequired[LayoutContent]
    node: NotRequired[int]
    wait_for: NotRequired[list[int]]
    used_file: NotRequired[str]
    others: NotRequired[list[str]]
    files: NotRequired[list[str]]
