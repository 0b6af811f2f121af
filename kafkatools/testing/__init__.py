"""Kafka in the tests of other programs: `Kafka` and `Topic`, and `KafkaTestCase` for unittest (docs/testing.md).

The fixtures of pytest are in `kafkatools/pytest_plugin.py`. Each export is imported on first use.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafkatools.testing.kafka import Kafka as Kafka
    from kafkatools.testing.kafka import KafkaCluster as KafkaCluster
    from kafkatools.testing.kafka import Topic as Topic
    from kafkatools.testing.unittest_case import KafkaTestCase as KafkaTestCase

_EXPORTS = {"Kafka": "kafka", "KafkaCluster": "kafka", "KafkaTestCase": "unittest_case", "Topic": "kafka"}

__all__ = [*_EXPORTS]  # noqa: PLE0604


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import an exported name on first use: the fixtures do not need unittest."""
        import importlib

        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
