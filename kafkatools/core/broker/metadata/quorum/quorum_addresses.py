"""The voters of a quorum by the log of this member, and the addresses of voters, leaders and bootstrap servers."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import Address, VoterHistory, VoterSet, static_voters

MAX_OTHER_ADDRESSES = 100


class QuorumAddresses:
    """In a dynamic quorum a leader or a voter may be missing in the log of this member, or be there with an old
    address. So addresses that messages name are used too, but those of controller.quorum.voters never change."""

    def __init__(self, static: Mapping[int, Address], history: VoterHistory, settings: RaftSettings) -> None:
        self._static = static_voters(static, settings.listener_name)
        self._history, self._settings = history, settings
        self._known: tuple[VoterSet, dict[int, Address]] = (self._static, dict(static))
        self._others: dict[int, Address] = {}

    @property
    def voter_set(self) -> VoterSet:
        """The voters of the log, committed or not; without any those of controller.quorum.voters."""
        return self._history.last if self._history.last.voters else self._static

    @property
    def is_dynamic(self) -> bool:
        """Return whether the voters of the quorum are in its log, or may be there since this node was last up:
        it has no controller.quorum.voters, or controller.quorum.bootstrap.servers too."""
        may_become = not self._static.voters or bool(self._settings.bootstrap)
        return self._history.last.kraft_version > 0 or may_become

    @property
    def of_voters(self) -> Mapping[int, Address]:
        """The address of each voter by node id."""
        before, voters = self._known, self.voter_set
        if before[0] is not voters:
            addresses = voters.addresses(self._settings.listener_name)
            # A leader that removed itself leads on until this is committed, so its address must stay known.
            others = {**before[1], **self._others}
            self._others = {node: others[node] for node in others.keys() - addresses.keys()}
            self._known = (voters, addresses)
        return self._known[1]

    def of(self, node_id: int) -> Address | None:
        """Return the address of a voter, a leader or a bootstrap server; None if it is unknown."""
        address = self.of_voters.get(node_id)
        if self.is_dynamic:
            address = self._others.get(node_id, address)
        return address or self._settings.bootstrap_addresses.get(node_id)

    def note(self, node_id: int, address: Address) -> None:
        """Note the address of a leader or a new voter, which a message names. A static quorum ignores it."""
        if not (address[0] and address[1] > 0 and self.is_dynamic):
            return
        if self.of_voters.get(node_id) == address:
            self._others.pop(node_id, None)
            return
        if len(self._others) >= MAX_OTHER_ADDRESSES:
            self._others.clear()
        self._others[node_id] = address

    def of_leader(self, leader_id: int | None, own_id: int) -> Mapping[int, Address]:
        """Return the address of the leader by its node id, for responses; empty if it is unknown."""
        if leader_id is None:
            return {}
        points = self._settings.end_points
        address = points[0].address if points and leader_id == own_id else self.of(leader_id)
        return {} if address is None else {leader_id: address}
