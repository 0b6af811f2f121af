"""Links between nodes that can be cut one by one and in one direction, without root.

Every node listens behind proxies, and the others know only those. A proxy asks the kernel which node has opened a
connection (/proc/net/tcp names the socket, /proc/PID/fd who holds it), so that one address serves all nodes and each
pair of them has a link of its own. Clients connect to the nodes themselves.

A cut either holds the bytes, as a network does that drops packets (they arrive after the heal, as TCP repeats them), or
ends connections and refuses new ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable

from support.cutting_proxy import CuttingProxy

HOLD = "hold"
RESET = "reset"
_LOOK_S = 0.02
UNKNOWN_NODE = 0


class LinkTable:
    """The cut links from one node to another, with the kind of each cut."""

    def __init__(self) -> None:
        self._cuts: dict[tuple[int, int], str] = {}
        self.proxies: list[LinkProxy] = []
        self.pid_of: Callable[[int], int | None] = lambda node: None
        self.nodes: tuple[int, ...] = ()

    def cut(self, source: int, target: int, how: str) -> None:
        """Nothing passes from one node to another any more."""
        self._cuts[source, target] = how
        if how == RESET:
            for proxy in self.proxies:
                proxy.end_links({source, target})

    def heal(self) -> None:
        """All links pass bytes again."""
        self._cuts.clear()

    def state(self, source: int, target: int) -> str | None:
        """The kind of cut of a link, None when it is not cut."""
        return self._cuts.get((source, target))

    def node_of(self, peer_port: int, own_port: int) -> int:
        """The node that holds the socket of this connection's other end; 0 when it is none of them."""
        inode = _socket_inode(peer_port, own_port)
        if inode is None:
            return UNKNOWN_NODE
        name = f"socket:[{inode}]"
        for node in self.nodes:
            pid = self.pid_of(node)
            if pid is not None and _holds(pid, name):
                return node
        return UNKNOWN_NODE


def _socket_inode(local_port: int, remote_port: int) -> str | None:
    """The inode of a connected loopback socket, from the kernel's tables. The JVM opens IPv6 sockets by default."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(table) as lines:
            for line in lines:
                fields = line.split()
                if (
                    fields[1].endswith(f":{local_port:04X}")
                    and fields[2].endswith(f":{remote_port:04X}")
                    and fields[9] != "0"
                ):
                    return fields[9]
    return None


def _holds(pid: int, name: str) -> bool:
    directory = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(directory):
            with contextlib.suppress(OSError):
                if os.readlink(f"{directory}/{descriptor}") == name:
                    return True
    return False


class LinkProxy(CuttingProxy):
    """The address by which other nodes reach `node`; each connection belongs to the link of the node that opened it."""

    def __init__(self, node: int, links: LinkTable) -> None:
        self._node = node
        self._links = links
        self._sources: dict[tuple[socket.socket, socket.socket], int] = {}
        super().__init__()
        links.proxies.append(self)

    def _pump(self, source: socket.socket, target: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        opener = self._opener(pair)
        ends = (opener, self._node) if source is pair[0] else (self._node, opener)
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._wait_for_link(*ends):
                    break
                target.sendall(data)
            self._wait_for_link(*ends)  # the end of a connection does not pass a cut either
        self._end(pair)

    def _opener(self, pair: tuple[socket.socket, socket.socket]) -> int:
        with self._lock:
            if pair not in self._sources:
                with contextlib.suppress(OSError):
                    self._sources[pair] = self._links.node_of(pair[0].getpeername()[1], self.port)
            return self._sources.get(pair, UNKNOWN_NODE)

    def _wait_for_link(self, source: int, target: int) -> bool:
        """Wait while bytes are held; False when the link is reset."""
        while (state := self._links.state(source, target)) == HOLD:
            time.sleep(_LOOK_S)
        return state is None

    def end_links(self, ends: set[int]) -> None:
        """End the connections between two nodes."""
        with self._lock:
            pairs = [pair for pair in self._pairs if {self._sources.get(pair, 0), self._node} == ends]
        for pair in pairs:
            self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        super()._end(pair)
        with self._lock:
            self._sources.pop(pair, None)
