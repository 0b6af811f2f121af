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


class NodeRequest(TypedDict):
    """The request that starts a process of a sandbox.

    `settings` are the user's. A sandbox of one has `port` and `directory`; a node of several has `layout`
    (`ClusterLayout.to_json`), `node` and `wait_for` (ids). With `protocol` the listener of a sandbox of one has this
    security protocol, and `scram` are the passwords of its users.
    """

    run_file: str
    idle_ms: int
    settings: Mapping[str, str]
    parent: NotRequired[int | None]
    remove: NotRequired[str | None]
    port: NotRequired[int | None]
    directory: NotRequired[str]
    layout: NotRequired[Mapping[str, object]]
    node: NotRequired[int]
    wait_for: NotRequired[list[int]]
    used_file: NotRequired[str]
    others: NotRequired[list[str]]
    files: NotRequired[list[str]]
    protocol: NotRequired[str]
    scram: NotRequired[Mapping[str, str]]
