"""The share coordinator (KIP-932): the state of share groups, kept in `__share_group_state`."""
