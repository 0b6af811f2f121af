"""The KRaft controller of one node: the metadata log, the image it is replayed into, and the changes that may be made
to it."""
