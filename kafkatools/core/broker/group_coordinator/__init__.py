"""The coordinator of consumer groups: membership by the classic protocol, committed offsets, `__consumer_offsets`."""
