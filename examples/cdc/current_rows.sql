SELECT
  key.payload.id AS id,
  value.payload.after.name AS name,
  value.payload.after.email AS email,
  timestamp_millis(value.payload.ts_ms) AS changed_at,
  partition, offset, timestamp,
  tombstone OR value.payload.op = 'd' AS tombstone
FROM input
WHERE tombstone OR value.payload.op IS NOT NULL
