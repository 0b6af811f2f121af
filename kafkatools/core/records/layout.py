"""The positions and sizes of batch header fields, for magic 2 and for what all versions share.

Nothing is imported here, so the numbers cost nothing to import. Source: KIP-98,
org.apache.kafka.common.record.DefaultRecordBatch.
"""

from struct import Struct

# base offset and length, which every version begins with
LOG_OVERHEAD = 12
HEADER_SIZE = 61
HEADER_SIZE_UP_TO_MAGIC = 17
MAGIC_OFFSET = 16
CRC_OFFSET = 17
# the checksum covers everything from the attributes on
ATTRIBUTES_OFFSET = 21
# and of a message of magic 0 or 1, from the magic on
LEGACY_CRC_START = 16
MAX_TIMESTAMP_OFFSET = 35
# the smallest message: crc, magic, attributes, key size, value size (LegacyRecord.RECORD_OVERHEAD_V0)
SMALLEST_OVERHEAD = 14

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
# producer id, producer epoch, base sequence, record count
V2_HEADER = Struct(">qiibIhiqqqhii")
CRC_FIELD = Struct(">I")
# what a leader writes into a batch it appends: base offset, the length as it was, leader epoch
LEADER_EPOCH_STAMP = Struct(">qii")
