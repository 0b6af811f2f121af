"""Admin for asyncio: each call of kafkatools.Admin in the executor of the event loop.

Rules: an admin call waits in many places, so it runs on a thread of the loop's default executor, one call at a time. No
client has a thread of its own. A cancelled call is interrupted at its next wait; the cancellation is raised when the
thread has left the client, so that the next call finds it unused. A call for which no thread was free is never made.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from kafkatools.core.admin import admin as blocking
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.errors import IllegalState
from kafkatools.core.metrics.registry import MetricValues
from kafkatools.core.net.requests import Interrupted

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_LOOP = "The client was used on another event loop: create one client for each loop"
_CLOSED = "Cannot perform operation after the admin client has been closed"


class _Interruptible(blocking.Admin):
    def interrupt(self, *, is_interrupted: bool = True) -> None:
        """Make the present and later calls fail at their next wait, until this is undone. Callable from any thread."""
        self._client.interrupt(is_interrupted=is_interrupted)


class _Work(Generic[R]):
    """A call that waits for a thread of the executor. The thread begins it or the event loop drops it: the first that
    takes the lock decides."""

    def __init__(self, call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._taken = threading.Lock()
        self.future: asyncio.Future[R] = loop.run_in_executor(None, self._run)

    def _run(self) -> R:
        if not self._taken.acquire(blocking=False):
            raise Interrupted
        return self._call()

    def drop(self) -> bool:
        """Cancel the call unless a thread has begun it; return whether it is cancelled."""
        return self._taken.acquire(blocking=False) and self.future.cancel()


def _awaited(
    method: Callable[Concatenate[blocking.Admin, P], R],
) -> Callable[Concatenate[Admin, P], Coroutine[None, None, R]]:
    """The awaitable form of a method of kafkatools.Admin."""

    @functools.wraps(method)
    async def call(self: Admin, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(functools.partial(method, self._admin, *args, **kwargs))

    return call


class Admin:
    """Queries and changes a cluster from an event loop: the methods of kafkatools.Admin, to be awaited, except
    `metrics`. `async with` closes it.

    Settings and errors are those of kafkatools.Admin. Calls run on threads of the loop's default executor, one at a
    time for each Admin. A cancelled call is interrupted; whether its change was made is then unknown.
    """

    def __init__(self, config: Settings | None = None, **settings: object) -> None:
        self._admin = _Interruptible(config, None, None, **settings)
        self.config = self._admin.config
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: _Work[Any] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close()

    async def _run(self, call: Callable[[], R]) -> R:
        loop = asyncio.get_running_loop()
        if (self._loop or loop) is not loop:
            raise IllegalState(_OTHER_LOOP)
        self._loop = loop
        async with self._lock:
            if self._is_closed:
                raise IllegalState(_CLOSED)
            self._work = work = _Work(call, loop)
            try:
                await asyncio.wait({work.future})
            finally:
                if not work.future.done() and not work.drop():
                    await self._interrupt(work.future)
                self._work = None
            if work.future.cancelled():  # by `close`
                raise IllegalState(_CLOSED)
            try:
                return work.future.result()
            except Interrupted:
                raise IllegalState(_CLOSED) from None

    async def _interrupt(self, work: asyncio.Future[R]) -> None:
        """Interrupt a call and wait until its thread has left the client, whatever cancels this meanwhile."""
        self._admin.interrupt()
        finished = asyncio.ensure_future(asyncio.wait({work}))
        while not work.done():
            try:
                await asyncio.shield(finished)
            except asyncio.CancelledError:
                continue
        if not work.cancelled():
            work.exception()  # taken, so that asyncio does not log it
        self._admin.interrupt(is_interrupted=False)

    async def close(self) -> None:
        """Interrupt a call in progress, which raises IllegalState, and close the connections. May be called again."""
        self._is_closed = True
        if self._work is not None and not self._work.drop():
            self._admin.interrupt()
        async with self._lock:
            if self.config.enable_metrics_push:  # the last push may wait for a broker
                await asyncio.get_running_loop().run_in_executor(None, self._admin.close)
            else:
                self._admin.close()

    def metrics(self) -> MetricValues:
        """Return the values of the client's metrics by MetricName, as kafkatools.Admin."""
        return self._admin.metrics()

    client_instance_id = _awaited(blocking.Admin.client_instance_id)
    list_topics = _awaited(blocking.Admin.list_topics)
    describe_topics = _awaited(blocking.Admin.describe_topics)
    create_topics = _awaited(blocking.Admin.create_topics)
    delete_topics = _awaited(blocking.Admin.delete_topics)
    create_partitions = _awaited(blocking.Admin.create_partitions)
    delete_records = _awaited(blocking.Admin.delete_records)
    describe_configs = _awaited(blocking.Admin.describe_configs)
    alter_configs = _awaited(blocking.Admin.alter_configs)
    list_offsets = _awaited(blocking.Admin.list_offsets)
    list_groups = _awaited(blocking.Admin.list_groups)
    describe_groups = _awaited(blocking.Admin.describe_groups)
    describe_share_groups = _awaited(blocking.Admin.describe_share_groups)
    delete_groups = _awaited(blocking.Admin.delete_groups)
    group_offsets = _awaited(blocking.Admin.group_offsets)
    alter_group_offsets = _awaited(blocking.Admin.alter_group_offsets)
    reset_group_offsets = _awaited(blocking.Admin.reset_group_offsets)
    delete_group_offsets = _awaited(blocking.Admin.delete_group_offsets)
    list_transactions = _awaited(blocking.Admin.list_transactions)
    describe_transactions = _awaited(blocking.Admin.describe_transactions)
    describe_producers = _awaited(blocking.Admin.describe_producers)
    abort_transaction = _awaited(blocking.Admin.abort_transaction)
    fence_producer = _awaited(blocking.Admin.fence_producer)
    end_transaction = _awaited(blocking.Admin.end_transaction)
    find_hanging_transactions = _awaited(blocking.Admin.find_hanging_transactions)
    describe_acls = _awaited(blocking.Admin.describe_acls)
    create_acls = _awaited(blocking.Admin.create_acls)
    delete_acls = _awaited(blocking.Admin.delete_acls)
    describe_cluster = _awaited(blocking.Admin.describe_cluster)
    list_reassignments = _awaited(blocking.Admin.list_reassignments)
    alter_reassignments = _awaited(blocking.Admin.alter_reassignments)
    elect_leaders = _awaited(blocking.Admin.elect_leaders)
    describe_log_dirs = _awaited(blocking.Admin.describe_log_dirs)
    describe_replica_log_dirs = _awaited(blocking.Admin.describe_replica_log_dirs)
    alter_replica_log_dirs = _awaited(blocking.Admin.alter_replica_log_dirs)
    unregister_broker = _awaited(blocking.Admin.unregister_broker)
    share_group_offsets = _awaited(blocking.Admin.share_group_offsets)
    alter_share_group_offsets = _awaited(blocking.Admin.alter_share_group_offsets)
    delete_share_group_offsets = _awaited(blocking.Admin.delete_share_group_offsets)
    describe_client_quotas = _awaited(blocking.Admin.describe_client_quotas)
    alter_client_quotas = _awaited(blocking.Admin.alter_client_quotas)
    describe_scram_credentials = _awaited(blocking.Admin.describe_scram_credentials)
    alter_scram_credentials = _awaited(blocking.Admin.alter_scram_credentials)
    create_delegation_token = _awaited(blocking.Admin.create_delegation_token)
    renew_delegation_token = _awaited(blocking.Admin.renew_delegation_token)
    expire_delegation_token = _awaited(blocking.Admin.expire_delegation_token)
    describe_delegation_tokens = _awaited(blocking.Admin.describe_delegation_tokens)
    describe_features = _awaited(blocking.Admin.describe_features)
    update_features = _awaited(blocking.Admin.update_features)
