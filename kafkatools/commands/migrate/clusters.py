"""The two clusters of kt migrate, and the names of topics in the target."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.topic_renames import target_names
from kafkatools.tools.backup.manifest import Manifest


class Clusters(NamedTuple):
    """The clients and ids of source and target."""

    source: AdminClient
    target: AdminClient
    source_id: str
    target_id: str

    @property
    def are_same(self) -> bool:
        """Return whether the topics are copied within one cluster."""
        return self.source_id == self.target_id


def migrated_names(manifest: Manifest, args: Args, clusters: Clusters) -> dict[str, str]:
    """Return the target names by source name. Raises UsageError and CommandError as `target_names`, and UsageError for
    a copy within a cluster into a topic that is itself copied: its records would be copied again and again."""
    names = target_names(manifest.topics, args.topic, args.rename)
    if clusters.are_same:
        for source, target in names.items():
            if target in names:
                raise UsageError(
                    f"Source and target are the same cluster, and topic {source} would be copied to {target}, which is "
                    "copied itself",
                    "Give each topic a new name with --rename.",
                )
    return names
