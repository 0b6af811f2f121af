"""A proxy on loopback between clients and a broker that cuts connections when requests are done and answers are not yet
there: what an acknowledgement that got lost looks like."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class CuttingProxy:
    """Passes bytes on to the port `target` of this machine; `cut` loses answers, `sever` lets nobody through."""

    def __init__(self) -> None:
        self.target = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._is_losing = False
        self._is_severed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float = 0.05) -> None:
        """Requests go on for a moment, answers do not; then all connections end."""
        self._is_losing = True
        time.sleep(seconds)
        self._end_all()
        self._is_losing = False

    def lose_answers(self) -> None:
        """From now on requests go on and answers do not, until `mend`."""
        self._is_losing = True

    def sever(self) -> None:
        """From now on nobody gets through, until `mend`."""
        self._is_severed = True
        self._end_all()

    def mend(self) -> None:
        """Everybody gets through again."""
        self._is_severed = self._is_losing = False

    def close(self) -> None:
        """No connection any more, and no new ones."""
        self._server.close()
        self.cut(0)

    def _end_all(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._end(pair)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if self._is_severed:
                    client.close()
                    continue
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target), 5)
                except OSError:
                    client.close()
                    continue
                broker.settimeout(None)
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = (client, broker)
                with self._lock:
                    self._pairs.add(pair)
                threading.Thread(target=self._pump, args=(client, broker, pair), daemon=True).start()
                threading.Thread(target=self._pump, args=(broker, client, pair), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not (self._is_losing and source is pair[1]):
                    target.sendall(data)
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
