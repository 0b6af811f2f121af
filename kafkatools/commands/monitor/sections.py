"""The sections of a view, and how often it is drawn when no option says."""

SECTIONS = ("brokers", "topics", "partitions", "groups", "lag", "quorum", "log-dirs", "events")
"""What --view takes, in the order in which it is shown."""

DEFAULT_INTERVAL_S = 2.0
