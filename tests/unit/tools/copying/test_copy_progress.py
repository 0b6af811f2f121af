"""The consumer group that holds the progress of a copy."""

from __future__ import annotations

from kafkatools.tools.copying.progress import CopyPlace


def test_copies_of_other_topics_have_groups_of_their_own() -> None:
    pairs = [("a", "b-to-c"), ("a-to-b", "c"), ("a", "to-b"), ("a-to", "b"), ("a", "b"), ("a-to-", "b")]
    groups = [CopyPlace("cluster", source, None, target).group_id for source, target in pairs]
    assert len(set(groups)) == len(pairs)


def test_an_unambiguous_pair_keeps_its_group() -> None:
    assert CopyPlace("cluster", "orders", None, "orders-backup").group_id == "kt-copy-cluster-orders-to-orders-backup"
