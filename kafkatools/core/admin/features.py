"""Feature levels of the cluster: describe and update (KafkaAdminClient, KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.results import refusals
from kafkatools.core.errors import KafkaError, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


class FeatureLevels(NamedTuple):
    """A feature's supported levels on one node, and its finalized level (0 = none)."""

    min_level: int
    max_level: int
    finalized_level: int


class Features(NamedTuple):
    """The features that a node supports, and the epoch of the finalized levels (None = not reported)."""

    levels: Mapping[str, FeatureLevels]
    epoch: int | None


def describe_features(admin: AdminClient, node: int | None = None) -> Features:
    """Return the features that `node` (None: any) supports, with their finalized levels. Raises KafkaError."""
    if node is not None:
        admin.refresh_cluster()
    fields = {"client_software_name": "kafkatools", "client_software_version": "1"}
    response = admin.send(ApiKey.API_VERSIONS, fields, node=node, min_version=3, check=error_in)
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    levels = {
        feature.name: FeatureLevels(feature.min_version, feature.max_version, finalized.get(feature.name, 0))
        for feature in response.supported_features
    }
    epoch = int(response.finalized_features_epoch)
    return Features(levels, epoch if epoch >= 0 else None)


def update_features(
    admin: AdminClient, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Set finalized feature levels; return None or the error by feature. `upgrade_type`: UPGRADE, SAFE_DOWNGRADE or
    UNSAFE_DOWNGRADE. An error of the whole request is every feature's. Raises KafkaError; UnsupportedVersion for
    `validate_only` at brokers too old for it."""

    def fields(version: int) -> Fields:
        if version == 0 and validate_only:
            raise UnsupportedVersion("The brokers are too old to validate feature updates without applying them")
        updates = []
        for name, level in levels.items():
            update: Fields = {"feature": name, "max_version_level": level}
            upgrade = {"allow_downgrade": upgrade_type != UPGRADE} if version == 0 else {"upgrade_type": upgrade_type}
            updates.append(update | upgrade)
        common = {"timeout": admin.config.request_timeout_ms, "feature_updates": updates}
        return common if version == 0 else {**common, "validate_only": validate_only}

    def once(names: list[str], deadline_ms: int) -> dict[str, KafkaError | bool]:
        response = admin.send_to_controller(ApiKey.UPDATE_FEATURES, fields, deadline_ms)
        error = error_in(response)
        outcomes: dict[str, KafkaError | bool] = dict.fromkeys(names, error or True)
        if error is None:
            for result in getattr(response, "results", ()):
                outcomes[result.feature] = error_in(result) or True
        return outcomes

    return refusals(admin.retry_items(levels, once))
