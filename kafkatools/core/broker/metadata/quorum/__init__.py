"""The controller quorum: elections and the replicated metadata log (KRaft)."""
