"""kafkatools.aio.Admin against the embedded broker: calls, cancellation and closing."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.loops import LOOPS, run_on

import kafkatools
from kafkatools import aio
from kafkatools.errors import IllegalState, PartialFailure, TopicAlreadyExists


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkatools.EmbeddedBroker]:
    with kafkatools.EmbeddedBroker() as started:
        yield started


def test_every_call_of_admin_can_be_awaited() -> None:
    methods = {name for name, _ in inspect.getmembers(kafkatools.Admin, inspect.isfunction) if not name.startswith("_")}
    for name in methods - {"metrics"}:  # asks no broker
        assert inspect.iscoroutinefunction(getattr(aio.Admin, name)), name
        assert inspect.getdoc(getattr(aio.Admin, name))


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_calls_return_and_raise_what_the_synchronous_ones_do(broker: kafkatools.EmbeddedBroker, loop: str) -> None:
    async def main() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            names = [f"{loop}-{number}" for number in range(5)]
            await asyncio.gather(*(admin.create_topics(kafkatools.NewTopic(name, 2, 1)) for name in names))
            assert set(names) <= {topic.name for topic in await admin.list_topics()}
            with pytest.raises(TopicAlreadyExists):
                await admin.create_topics(names[0])
            with pytest.raises(PartialFailure):
                await admin.create_topics([names[0], f"{loop}-new"])
            ends = await admin.list_offsets([(names[0], 0)])
            assert ends[(names[0], 0)].offset == 0
        with pytest.raises(IllegalState, match="closed"):
            await admin.list_topics()

    run_on(loop, main)


@pytest.mark.slow
def test_a_cancelled_call_leaves_the_client_usable() -> None:
    async def main(broker: kafkatools.EmbeddedBroker) -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topics("first")
            for delay_s in (0, 0.001, 0.05, 0.3):
                os.kill(broker.pid, signal.SIGSTOP)
                calls = [asyncio.create_task(admin.list_topics()) for _ in range(2)]
                await asyncio.sleep(delay_s)
                for call in calls:
                    call.cancel()
                async with asyncio.timeout(20):
                    await asyncio.wait(calls)
                assert all(call.cancelled() for call in calls)
                os.kill(broker.pid, signal.SIGCONT)
                assert [topic.name for topic in await admin.list_topics()] == ["first"]
            os.kill(broker.pid, signal.SIGSTOP)
            hanging = asyncio.create_task(admin.list_topics())
            await asyncio.sleep(0.05)
            async with asyncio.timeout(20):
                await admin.close()
                with pytest.raises(IllegalState):
                    await hanging

    with kafkatools.EmbeddedBroker() as broker:
        try:
            run_on("asyncio", lambda: main(broker))
        finally:
            broker.kill()


def test_a_call_that_waits_for_a_thread_is_cancelled_and_closed_at_once(broker: kafkatools.EmbeddedBroker) -> None:
    async def main() -> None:
        loop, released = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.list_topics()
            held = loop.run_in_executor(None, released.wait)
            try:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await admin.create_topics("never")
                waiting = asyncio.create_task(admin.list_topics())
                await asyncio.sleep(0)
                async with asyncio.timeout(20):
                    await admin.close()
                    with pytest.raises(IllegalState, match="closed"):
                        await waiting
            finally:
                released.set()  # else the end of the loop waits for the thread for ever
            await held
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as other:
            assert "never" not in [topic.name for topic in await other.list_topics()]

    run_on("asyncio", main)


def test_a_wait_for_the_instance_id_can_be_cancelled() -> None:
    async def main(broker: kafkatools.EmbeddedBroker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "enable.metrics.push": True}
        async with asyncio.timeout(20), aio.Admin(settings) as admin:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await admin.client_instance_id()

    with kafkatools.EmbeddedBroker(client_metrics=True) as broker:
        broker.faults.add("delay", api="GetTelemetrySubscriptions", delay_ms=30_000)
        run_on("asyncio", lambda: main(broker))


def test_a_client_belongs_to_one_loop(broker: kafkatools.EmbeddedBroker) -> None:
    admin = aio.Admin(bootstrap_servers=broker.bootstrap)
    asyncio.run(admin.list_topics())

    async def again() -> None:
        with pytest.raises(IllegalState, match="another event loop"):
            await admin.list_topics()
        await admin.close()

    asyncio.run(again())
