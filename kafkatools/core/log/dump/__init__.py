"""Reading segments, indexes and snapshots to show them, sound or damaged, as Apache Kafka's DumpLogSegments reads them.

Nothing here prints or writes. A damaged place raises `Damage` at the point where Kafka's reader would give up; the
caller decides whether to stop there or to go on at `resync.next_valid_batch`.
"""
