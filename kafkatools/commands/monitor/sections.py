"""The sections of kt monitor --view, and the default refresh interval."""

SECTIONS = ("brokers", "topics", "partitions", "groups", "lag", "quorum", "log-dirs", "events")
"""What --view takes, in the order in which it is shown."""

DEFAULT_INTERVAL_S = 2.0
