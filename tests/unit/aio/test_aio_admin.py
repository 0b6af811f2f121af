"""kafkatools.aio.Admin against the embedded broker: calls, cancellation and closing."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Iterator

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
