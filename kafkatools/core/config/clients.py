"""Settings of the producer, the consumer and the admin client, as of Apache Kafka 4.3."""

from kafkatools.core.config import Table
from kafkatools.core.config.security import SECURITY
from kafkatools.core.config.setting import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    REQUIRED,
    SHORT,
    STRING,
    Setting,
    at_least,
    between,
    gzip_level,
    non_empty,
    offset_reset,
    one_of,
    one_of_any_case,
)
from kafkatools.core.config.shared import METRICS, RETRIES, SETUP_TIMEOUTS, TWO_PHASE_COMMIT

COMMON: tuple[Setting, ...] = (
    Setting(
        "client.dns.lookup",
        STRING,
        "use_all_dns_ips",
        "Whether each address of a name is tried in turn, or bootstrap names are made canonical.",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    Setting("client.id", STRING, "", "A name for this client in the broker's logs, quotas and metrics."),
    Setting("config.providers", LIST, (), "Names of providers that fill in indirect values."),
    Setting(
        "metadata.max.age.ms",
        LONG,
        300_000,
        "Age at which metadata is refreshed without any sign of change.",
        at_least(0),
    ),
    Setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        300_000,
        "Time without fresh metadata after which the bootstrap servers are tried again.",
        at_least(0),
    ),
    Setting(
        "metadata.recovery.strategy",
        STRING,
        "rebootstrap",
        "rebootstrap goes back to the bootstrap servers when no known broker answers; none does not.",
        one_of_any_case("REBOOTSTRAP", "NONE"),
    ),
    *METRICS,
    Setting(
        "metrics.recording.level",
        STRING,
        "INFO",
        "The finest level of metrics that is recorded.",
        one_of("INFO", "DEBUG", "TRACE"),
    ),
    Setting("metrics.sample.window.ms", LONG, 30_000, "Length of a metric's sample.", at_least(0)),
    Setting("reconnect.backoff.max.ms", LONG, 1000, "Upper bound of the growing wait before a reconnect.", at_least(0)),
    Setting("reconnect.backoff.ms", LONG, 50, "First wait before a reconnect to a broker.", at_least(0)),
    Setting("request.timeout.ms", INT, 30_000, "How long to wait for the answer to a request.", at_least(0)),
    Setting("retry.backoff.max.ms", LONG, 1000, "Upper bound of the growing wait before a retry.", at_least(0)),
    Setting("retry.backoff.ms", LONG, 100, "First wait before a retry.", at_least(0)),
    Setting(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "Seconds before expiry by which a credential must be fresh.",
        between(0, 3600),
    ),
    Setting("sasl.login.refresh.min.period.seconds", SHORT, 60, "Least seconds between refreshes.", between(0, 900)),
    Setting(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Part of a credential's life after which it is refreshed.",
        between(0.5, 1.0),
    ),
    Setting(
        "sasl.login.refresh.window.jitter", DOUBLE, 0.05, "Random part added to the refresh time.", between(0.0, 0.25)
    ),
    Setting("sasl.mechanism", STRING, "GSSAPI", "The SASL mechanism of the client."),
    Setting(
        "sasl.oauthbearer.token.command",
        STRING,
        None,
        "Program that prints a token for OAUTHBEARER; run without a shell (a setting of kafkatools).",
        is_ours=True,
    ),
    Setting(
        "sasl.oauthbearer.header.urlencode", BOOLEAN, False, "Whether id and secret are URL-encoded in the header."
    ),
    Setting(
        "security.protocol",
        STRING,
        "PLAINTEXT",
        "How to talk to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        one_of_any_case("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    ),
    Setting("send.buffer.bytes", INT, 131_072, "The socket's SO_SNDBUF; -1 leaves it to the system.", at_least(-1)),
    *SETUP_TIMEOUTS,
)

PRODUCER_ONLY: tuple[Setting, ...] = (
    Setting(
        "acks",
        STRING,
        "all",
        "Replicas that must have a record before it counts as sent: all in sync (all, -1), the leader (1), none (0).",
        one_of("all", "-1", "0", "1"),
    ),
    Setting(
        "batch.size",
        INT,
        16_384,
        "Bytes of a partition's batch before it is sent at once; 0 turns batching off.",
        at_least(0),
    ),
    Setting("bootstrap.servers", LIST, REQUIRED, "Brokers (host:port) from which the rest of the cluster is found."),
    Setting(
        "buffer.memory",
        LONG,
        33_554_432,
        "Bytes of records that may wait to be sent; beyond it sends block up to max.block.ms.",
        at_least(0),
    ),
    Setting("compression.gzip.level", INT, -1, "Level of gzip, 1 to 9; -1 is the library's own.", gzip_level()),
    Setting("compression.lz4.level", INT, 9, "Level of lz4, 1 to 17.", between(1, 17)),
    Setting(
        "compression.type", STRING, "none", "The codec of batches.", one_of("none", "gzip", "snappy", "lz4", "zstd")
    ),
    Setting("compression.zstd.level", INT, 3, "Level of zstd, -131072 to 22.", between(-131_072, 22)),
    Setting("connections.max.idle.ms", LONG, 540_000, "How long a connection may be idle before it is closed."),
    Setting(
        "delivery.timeout.ms",
        INT,
        120_000,
        "Longest time from send to success or failure; at least linger.ms + request.timeout.ms.",
        at_least(0),
    ),
    Setting("enable.idempotence", BOOLEAN, True, "Whether the broker drops duplicates that retries make."),
    Setting("enable.metrics.push", BOOLEAN, True, "Whether client metrics go to the cluster when it asks for them."),
    Setting("interceptor.classes", LIST, (), "Interceptors, called in this order."),
    Setting("key.serializer", CLASS, None, "How a key becomes bytes; none takes bytes."),
    Setting("linger.ms", LONG, 5, "How long a batch waits for more records.", at_least(0)),
    Setting("max.block.ms", LONG, 60_000, "Longest time a send may wait for metadata and for memory.", at_least(0)),
    Setting(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "Requests without an answer per connection; above 5 idempotence is not possible.",
        at_least(1),
    ),
    Setting(
        "max.request.size",
        INT,
        1_048_576,
        "Bytes of the largest request, and of the largest record before compression.",
        at_least(0),
    ),
    Setting(
        "metadata.max.idle.ms", LONG, 300_000, "How long the metadata of a topic without sends is kept.", at_least(5000)
    ),
    Setting(
        "partitioner.adaptive.partitioning.enable",
        BOOLEAN,
        True,
        "Whether unkeyed records favour partitions whose brokers are fast.",
    ),
    Setting(
        "partitioner.availability.timeout.ms",
        LONG,
        0,
        "How long a broker may leave batches waiting before unkeyed records avoid it; 0 never avoids.",
        at_least(0),
    ),
    Setting("partitioner.class", CLASS, None, "A partitioner in place of the built-in one."),
    Setting("partitioner.ignore.keys", BOOLEAN, False, "Whether keyed records are spread like unkeyed ones."),
    Setting("receive.buffer.bytes", INT, 32_768, "The socket's SO_RCVBUF; -1 leaves it to the system.", at_least(-1)),
    RETRIES,
    Setting(
        "transaction.timeout.ms",
        INT,
        60_000,
        "Longest time a transaction may stay open before the coordinator aborts it.",
    ),
    TWO_PHASE_COMMIT,
    Setting(
        "transactional.id",
        STRING,
        None,
        "The lasting name of a transactional producer; turns transactions on.",
        non_empty(),
    ),
    Setting("value.serializer", CLASS, None, "How a value becomes bytes; none takes bytes."),
)

CONSUMER_ONLY: tuple[Setting, ...] = (
    Setting(
        "allow.auto.create.topics",
        BOOLEAN,
        False,
        "Create a topic that does not exist when the consumer subscribes to it, if the broker allows that. Apache "
        "Kafka's default is true.",
    ),
    Setting(
        "auto.commit.interval.ms",
        INT,
        5000,
        "How often offsets are committed in the background with enable.auto.commit.",
        at_least(0),
    ),
    Setting(
        "auto.offset.reset",
        STRING,
        "latest",
        "Where to start without a committed offset: earliest, latest, by_duration:<ISO 8601>, or none to fail.",
        offset_reset(),
    ),
    Setting("bootstrap.servers", LIST, REQUIRED, "Brokers (host:port) from which the rest of the cluster is found."),
    Setting("check.crcs", BOOLEAN, True, "Whether the checksum of every batch is verified."),
    Setting("client.rack", STRING, "", "Where this client is; fetches may go to a replica in the same rack."),
    Setting("connections.max.idle.ms", LONG, 540_000, "How long a connection may be idle before it is closed."),
    Setting(
        "default.api.timeout.ms", INT, 60_000, "How long a call without a timeout of its own may take.", at_least(0)
    ),
    Setting("enable.auto.commit", BOOLEAN, True, "Whether the consumer commits offsets in the background."),
    Setting("enable.metrics.push", BOOLEAN, True, "Whether client metrics go to the cluster when it asks for them."),
    Setting("exclude.internal.topics", BOOLEAN, True, "Whether a subscribed pattern leaves internal topics out."),
    Setting(
        "fetch.max.bytes",
        INT,
        52_428_800,
        "Bytes one fetch may bring; one batch always comes, however large.",
        at_least(0),
    ),
    Setting(
        "fetch.max.wait.ms", INT, 500, "Longest time a broker waits for fetch.min.bytes to come together.", at_least(0)
    ),
    Setting("fetch.min.bytes", INT, 1, "Bytes a broker tries to gather before it answers a fetch.", at_least(0)),
    Setting("group.id", STRING, None, "The group this consumer is a member of."),
    Setting(
        "group.instance.id",
        STRING,
        None,
        "A lasting name of the member: it may restart without a rebalance (static membership).",
        non_empty(),
    ),
    Setting(
        "group.protocol",
        STRING,
        "classic",
        "classic, or consumer for the protocol of KIP-848.",
        one_of_any_case("CONSUMER", "CLASSIC"),
    ),
    Setting(
        "group.remote.assignor",
        STRING,
        None,
        "The server-side assignor to ask for; none leaves the choice to the server.",
    ),
    Setting(
        "heartbeat.interval.ms",
        INT,
        3000,
        "Time between heartbeats of the classic protocol; at most a third of the session.",
    ),
    Setting("interceptor.classes", LIST, (), "Interceptors, called in this order."),
    Setting(
        "internal.throw.on.fetch.stable.offset.unsupported",
        BOOLEAN,
        False,
        "Whether an old broker without stable offsets is an error.",
        internal=True,
    ),
    Setting(
        "isolation.level",
        STRING,
        "read_uncommitted",
        "read_committed hides records of open and aborted transactions; read_uncommitted gives all.",
        one_of("read_committed", "read_uncommitted"),
    ),
    Setting("key.deserializer", CLASS, None, "How the bytes of a key become an object; none hands over the bytes."),
    Setting(
        "max.decompressed.message.bytes",
        INT,
        268_435_456,
        "Maximum decompressed size of a fetched batch in bytes; a larger batch is an error.",
        at_least(1),
        is_ours=True,
    ),
    Setting(
        "max.partition.fetch.bytes",
        INT,
        1_048_576,
        "Bytes of one partition in one fetch; one batch always comes, however large.",
        at_least(0),
    ),
    Setting(
        "max.poll.interval.ms",
        INT,
        300_000,
        "Longest time between polls before the member leaves its group.",
        at_least(1),
    ),
    Setting("max.poll.records", INT, 500, "Most records one poll returns.", at_least(1)),
    Setting(
        "partition.assignment.strategy",
        LIST,
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
        "Assignors of the classic protocol, the preferred first.",
    ),
    Setting("receive.buffer.bytes", INT, 65_536, "The socket's SO_RCVBUF; -1 leaves it to the system.", at_least(-1)),
    Setting("session.timeout.ms", INT, 45_000, "Time without a heartbeat after which a classic member is removed."),
    Setting(
        "share.acknowledgement.mode",
        STRING,
        "implicit",
        "Whether a share consumer acknowledges by polling again or explicitly.",
        one_of("implicit", "explicit"),
    ),
    Setting(
        "share.acquire.mode",
        STRING,
        "BATCH_OPTIMIZED",
        "Whether a share fetch follows batch boundaries or stops at the limit of records.",
        one_of_any_case("batch_optimized", "record_limit"),
    ),
    Setting("value.deserializer", CLASS, None, "How the bytes of a value become an object; none hands over the bytes."),
)

ADMIN_ONLY: tuple[Setting, ...] = (
    Setting("bootstrap.controllers", LIST, (), "Controllers (host:port) to ask instead of brokers."),
    Setting("bootstrap.servers", LIST, (), "Brokers (host:port) from which the rest of the cluster is found."),
    Setting("connections.max.idle.ms", LONG, 300_000, "How long a connection may be idle before it is closed."),
    Setting(
        "default.api.timeout.ms", INT, 60_000, "How long a call without a timeout of its own may take.", at_least(0)
    ),
    Setting("enable.metrics.push", BOOLEAN, False, "Whether client metrics go to the cluster when it asks for them."),
    Setting("receive.buffer.bytes", INT, 65_536, "The socket's SO_RCVBUF; -1 leaves it to the system.", at_least(-1)),
    RETRIES,
)

PRODUCER = Table("producer", SECURITY, COMMON, PRODUCER_ONLY)
CONSUMER = Table("consumer", SECURITY, COMMON, CONSUMER_ONLY)
ADMIN = Table("admin", SECURITY, COMMON, ADMIN_ONLY)
