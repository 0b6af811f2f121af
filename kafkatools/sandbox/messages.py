"""Types of the JSON that the processes of a sandbox hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class RunInfo(TypedDict):
    """The content of a run file, and the first answer of a process: a broker that runs; times in ms.

    A broker of `kt server-start` has a `node_id`, one of a sandbox the rest.
    """

    bootstrap: str
    pid: int
    directory: str
    idle_ms: int
    started_ms: int
    node_id: NotRequired[int]


class PlaceContent(TypedDict):
    """Where one node of a sandbox listens and keeps its data."""

    node_id: int
    port: int
    controller_port: int
    directory: str
    rack: str | None


class LayoutContent(TypedDict):
    """The nodes of a sandbox and what they share, as `cluster.json` holds them; times in ms."""

    cluster_id: str
    root: str
    places: list[PlaceContent]
    settings: Mapping[str, str]
    idle_ms: int
    parent: int | None
    removes_home: bool


class NodeRequest(TypedDict):
    """What a process of a sandbox is started with; times in ms.

    A sandbox of one has `port`, `directory` and `settings`, a node of several `layout`, `node` and `wait_for`.
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
