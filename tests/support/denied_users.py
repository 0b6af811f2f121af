"""An embedded broker with an authorizer, and users that may do everything but some operations."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from support.embedded import embedded_broker
from support.kt import Ran, run_kt

import kafkatools
from kafkatools import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.sandbox.security import Security, SecurityOptions, prepare, settings_of

CLUSTER = "kafka-cluster"
_TYPES = {"TOPIC": "*", "GROUP": "*", "TRANSACTIONAL_ID": "*", "CLUSTER": CLUSTER}
_USERS = 64


class BrokerWithUsers(Protocol):
    """A broker, embedded or not, whose user `admin` is a superuser."""

    @property
    def directory(self) -> str: ...

    def client_settings(self, user: str) -> dict[str, str]: ...


class GuardedBroker:
    """Runs kt as `admin`, a superuser, or as a user of `user_without`."""

    def __init__(self, broker: BrokerWithUsers) -> None:
        self._broker = broker
        self._count = 0
        self._names: dict[tuple[str, ...], str] = {}
        self._admin = kafkatools.Admin(broker.client_settings("admin"))
        self.bootstrap = str(broker.client_settings("admin")["bootstrap.servers"])

    def user_without(self, *rights: str) -> str:
        """A user that lacks rights such as `READ TOPIC orders` and `ALTER CLUSTER`; DENY wins over ALLOW. The same
        rights give the same user."""
        if rights not in self._names:
            name = self._names[rights] = f"user-{self._count}"
            self._count += 1
            acls = [kafkatools.Acl(kind, target, f"User:{name}", "ALL") for kind, target in _TYPES.items()]
            for right in rights:
                operation, kind, *target = right.split()
                acls.append(
                    kafkatools.Acl(kind, target[0] if target else _TYPES[kind], f"User:{name}", operation, "DENY")
                )
            self._admin.create_acls(acls)
        return self._names[rights]

    def topic(self, name: str, *records: ProducerRecord | bytes, partitions: int = 1) -> str:
        """Create a topic with these records, or values."""
        self._admin.create_topics([kafkatools.NewTopic(name, partitions)])
        if records:
            with Producer(self._broker.client_settings("admin")) as producer:
                for record in records:
                    item = record if isinstance(record, ProducerRecord) else ProducerRecord(name, record, partition=0)
                    producer.send(item)
        return name

    def settings(self, user: str) -> dict[str, object]:
        """The settings of a user's clients."""
        return dict(self._broker.client_settings(user))

    def config_file(self, user: str) -> str:
        """The file for --command-config of a user."""
        settings = {name: str(value) for name, value in self._broker.client_settings(user).items()}
        del settings["bootstrap.servers"]
        path = pathlib.Path(self._broker.directory) / f"{user}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        path.chmod(0o600)
        return str(path)

    def kt(self, *words: str, user: str = "admin", **options: Any) -> Ran:
        """Run kt as a user."""
        return run_kt(
            *words, "--bootstrap-server", self.bootstrap, "--command-config", self.config_file(user), **options
        )

    def topics(self) -> set[str]:
        """The names of all topics."""
        return {topic.name for topic in self._admin.list_topics()}

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return str(self._admin.describe_cluster().cluster_id)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The log end offset of a partition."""
        with kafkatools.Consumer(self.settings("admin")) as consumer:
            return consumer.end_offsets([kafkatools.TopicPartition(topic, partition)])[topic, partition]

    def close(self) -> None:
        self._admin.close()


class _BrokerThread:
    """A broker on a thread of this process, which starts in a tenth of the processor time of an EmbeddedBroker."""

    def __init__(self, bootstrap: str, home: str, security: Security) -> None:
        self.directory = home
        self._bootstrap = bootstrap
        self._security = security

    def client_settings(self, user: str) -> dict[str, str]:
        return {"bootstrap.servers": self._bootstrap, **settings_of(self._security, user)}


@contextmanager
def guarded_broker() -> Iterator[GuardedBroker]:
    users = {"admin": "admin-password", **{f"user-{number}": f"password-{number}" for number in range(_USERS)}}
    with tempfile.TemporaryDirectory(prefix="kafkatools-guarded-") as home:
        pathlib.Path(home, "sandbox").mkdir()
        security = prepare(home, SecurityOptions(sasl="plain", acls=True, users=users), is_cluster=False)
        assert security is not None
        settings = {
            "listeners": f"{security.protocol}://127.0.0.1:0",
            "group.initial.rebalance.delay.ms": "0",
            **security.settings,
        }
        with embedded_broker(pathlib.Path(home, "data"), **settings) as bootstrap:
            guarded = GuardedBroker(_BrokerThread(bootstrap, home, security))
            try:
                yield guarded
            finally:
                guarded.close()
