"""kafkatools: Apache Kafka's bin/ without the JVM, and its clients for Python.

    import kafkatools

    with kafkatools.Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("topic", b"value").result()

Exports `Producer`, `Consumer`, `ShareConsumer`, `Admin`, `scan`, and for tests `EmbeddedBroker` and `EmbeddedCluster`
with `SecurityOptions`; exceptions are in `kafkatools.errors`. The guide is docs/python.md. Each export is imported on
first use.
"""

TYPE_CHECKING = False  # as typing's, whose import would be most of this one's time

if TYPE_CHECKING:
    from kafkatools import errors as errors
    from kafkatools.core.admin.acls import Acl as Acl
    from kafkatools.core.admin.acls import AclFilter as AclFilter
    from kafkatools.core.admin.admin import Admin as Admin
    from kafkatools.core.admin.configs import ConfigChange as ConfigChange
    from kafkatools.core.admin.topics import NewPartitions as NewPartitions
    from kafkatools.core.admin.topics import NewTopic as NewTopic
    from kafkatools.core.consumer.consumer import Consumer as Consumer
    from kafkatools.core.consumer.consumer_records import ConsumerRecord as ConsumerRecord
    from kafkatools.core.consumer.consumer_records import ConsumerRecords as ConsumerRecords
    from kafkatools.core.consumer.group_subscription import RebalanceListener as RebalanceListener
    from kafkatools.core.consumer.group_subscription import SubscriptionPattern as SubscriptionPattern
    from kafkatools.core.consumer.share.acknowledgements import AcknowledgeType as AcknowledgeType
    from kafkatools.core.consumer.share.share_consumer import ShareConsumer as ShareConsumer
    from kafkatools.core.errors import KafkaError as KafkaError
    from kafkatools.core.group.metadata import ConsumerGroupMetadata as ConsumerGroupMetadata
    from kafkatools.core.group.metadata import OffsetAndMetadata as OffsetAndMetadata
    from kafkatools.core.metrics.registry import MetricName as MetricName
    from kafkatools.core.metrics.registry import MetricValues as MetricValues
    from kafkatools.core.prepared_transaction import PreparedTransaction as PreparedTransaction
    from kafkatools.core.producer.futures import ColumnsFuture as ColumnsFuture
    from kafkatools.core.producer.futures import RecordFuture as RecordFuture
    from kafkatools.core.producer.futures import RecordMetadata as RecordMetadata
    from kafkatools.core.producer.producer import Producer as Producer
    from kafkatools.core.producer.producer_record import ProducerRecord as ProducerRecord
    from kafkatools.core.records.columns import RecordColumns as RecordColumns
    from kafkatools.core.records.columns import RowColumns as RowColumns
    from kafkatools.core.topic_partition import TopicPartition as TopicPartition
    from kafkatools.pipeline.scan.scan import Scan as Scan
    from kafkatools.pipeline.scan.scan import scan as scan
    from kafkatools.sandbox.embedded_broker import EmbeddedBroker as EmbeddedBroker
    from kafkatools.sandbox.embedded_cluster import EmbeddedCluster as EmbeddedCluster
    from kafkatools.sandbox.security import SecurityOptions as SecurityOptions

    __version__: str
    KAFKA_VERSION: str

_EXPORTS = {
    "AcknowledgeType": "core.consumer.share.acknowledgements",
    "Acl": "core.admin.acls",
    "AclFilter": "core.admin.acls",
    "Admin": "core.admin.admin",
    "ColumnsFuture": "core.producer.futures",
    "ConfigChange": "core.admin.configs",
    "Consumer": "core.consumer.consumer",
    "ConsumerGroupMetadata": "core.group.metadata",
    "ConsumerRecord": "core.consumer.consumer_records",
    "ConsumerRecords": "core.consumer.consumer_records",
    "EmbeddedBroker": "sandbox.embedded_broker",
    "EmbeddedCluster": "sandbox.embedded_cluster",
    "SecurityOptions": "sandbox.security",
    "KafkaError": "core.errors",
    "MetricName": "core.metrics.registry",
    "MetricValues": "core.metrics.registry",
    "NewPartitions": "core.admin.topics",
    "NewTopic": "core.admin.topics",
    "OffsetAndMetadata": "core.group.metadata",
    "PreparedTransaction": "core.prepared_transaction",
    "Producer": "core.producer.producer",
    "ProducerRecord": "core.producer.producer_record",
    "RebalanceListener": "core.consumer.group_subscription",
    "RecordColumns": "core.records.columns",
    "RecordFuture": "core.producer.futures",
    "RecordMetadata": "core.producer.futures",
    "RowColumns": "core.records.columns",
    "Scan": "pipeline.scan.scan",
    "ShareConsumer": "core.consumer.share.share_consumer",
    "SubscriptionPattern": "core.consumer.group_subscription",
    "TopicPartition": "core.topic_partition",
    "scan": "pipeline.scan.scan",
}

_VERSIONS = ("KAFKA_VERSION", "__version__")

__all__ = [*_EXPORTS, "errors"]  # noqa: PLE0604


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import an exported name on first use, so that `kt` starts without importing every client."""
        import importlib

        if name == "errors":
            return importlib.import_module("kafkatools.errors")
        module = "version" if name in _VERSIONS else _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        exported = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        globals()[name] = exported
        return exported


def __dir__() -> list[str]:
    return sorted({*globals(), *_VERSIONS, *__all__})
