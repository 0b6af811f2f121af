"""The quorum of controllers: elections and the replicated metadata log (KRaft)."""
