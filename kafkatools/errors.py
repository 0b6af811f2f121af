"""The exceptions of kafkatools' Python interface, such as `kafkatools.errors.TopicAlreadyExists`;
`kafkatools.KafkaError` is the base class of most. `kafkatools.scan` raises `PipelineError`.

There is a class for each error of Kafka's protocol, named after it, and local errors (`ConfigError`, `Timeout`,
`SerializationError`, `PartialFailure`, ...). An error has `code` (-1 for a local error), `name` (Kafka's), `message`
and `retriable`: whether the same call may succeed later.
"""

from kafkatools.core.consumer.ends import EndUnreachable as EndUnreachable
from kafkatools.core.consumer.errors import CorruptBatch as CorruptBatch
from kafkatools.core.consumer.errors import FetchFailed as FetchFailed
from kafkatools.core.consumer.errors import FetchOffsetOutOfRange as FetchOffsetOutOfRange
from kafkatools.core.consumer.errors import RetriableCommitFailed as RetriableCommitFailed
from kafkatools.core.consumer.poison import RecordDeserializationError as RecordDeserializationError
from kafkatools.core.errors import *  # noqa: F403
from kafkatools.pipeline.errors import PipelineError as PipelineError
from kafkatools.sandbox.single import SandboxError as SandboxError
