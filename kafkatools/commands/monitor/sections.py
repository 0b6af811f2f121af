"""The sections of kt monitor --view, the families of --metrics, and the default refresh interval."""

SECTIONS = ("brokers", "topics", "partitions", "groups", "lag", "quorum", "log-dirs", "alerts", "events")
"""The values of --view, in the order of their output."""

DEFAULT_INTERVAL_S = 2.0

LAG_EXPORTER = "lag-exporter"
FAMILIES = ("jmx-exporter", "kafka-exporter", "kt", LAG_EXPORTER, "kminion")
"""The values of --metrics: the exporters whose metric names are used."""

DEFAULT_FAMILIES = FAMILIES[:3]
