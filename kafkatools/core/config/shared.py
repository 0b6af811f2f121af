"""Rows that stand in more than one table of settings."""

from kafkatools.core.config.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    PER_BROKER,
    STRING,
    Setting,
    at_least,
    between,
    gzip_level,
    one_of,
)

COMPRESSION: tuple[Setting, ...] = (
    Setting(
        "compression.gzip.level",
        INT,
        -1,
        "Level of gzip, 1 to 9; -1 is the library's own.",
        gzip_level(),
        update_mode=CLUSTER_WIDE,
    ),
    Setting("compression.lz4.level", INT, 9, "Level of lz4, 1 to 17.", between(1, 17), update_mode=CLUSTER_WIDE),
    Setting(
        "compression.type",
        STRING,
        "producer",
        "The codec batches are stored with: producer keeps theirs, uncompressed removes it, others recompress.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update_mode=CLUSTER_WIDE,
    ),
    Setting(
        "compression.zstd.level",
        INT,
        3,
        "Level of zstd, -131072 to 22.",
        between(-131_072, 22),
        update_mode=CLUSTER_WIDE,
    ),
)
METRICS: tuple[Setting, ...] = (
    Setting(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Classes that are told about metrics.",
        update_mode=PER_BROKER,
    ),
    Setting("metrics.num.samples", INT, 2, "Samples kept per metric.", at_least(1)),
)
SETUP_TIMEOUTS: tuple[Setting, ...] = (
    Setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "Upper bound of the growing time allowed for a connection to be made.",
        is_used=True,
    ),
    Setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "First time allowed for a connection to be made.",
        is_used=True,
    ),
)
RETRIES = Setting(
    "retries",
    INT,
    INT_MAX,
    "Times a retriable failure is tried again; delivery.timeout.ms is the better bound.",
    at_least(0),
)
TWO_PHASE_COMMIT = Setting(
    "transaction.two.phase.commit.enable",
    BOOLEAN,
    False,
    "Whether prepared transactions are left to an external coordinator (KIP-939).",
)
UNCLEAN_ELECTION = Setting(
    "unclean.leader.election.enable",
    BOOLEAN,
    False,
    "Whether a replica that is not in sync may lead when none other is left; records may be lost.",
    is_used=True,
    update_mode=CLUSTER_WIDE,
)
