"""The sections of kt monitor --view, and the default refresh interval."""

SECTIONS = ("brokers", "topics", "partitions", "groups", "lag", "quorum", "log-dirs", "events")
"""The values of --view, in the order of their output."""

DEFAULT_INTERVAL_S = 2.0
