"""Read segments, indexes and snapshots, valid or damaged, in order to show them (Apache Kafka's DumpLogSegments).

Nothing here prints or writes. `Damage` is raised where Kafka's reader would give up. The caller stops there, or
continues at `resync.next_valid_batch`.
"""
