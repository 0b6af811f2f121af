SELECT after.id, after.name, after.email, changed_at
FROM (
  SELECT
    value.payload.op AS op,
    value.payload.after AS after,
    timestamp_millis(value.payload.ts_ms) AS changed_at,
    row_number() OVER (PARTITION BY key ORDER BY offset DESC) AS age
  FROM input
)
WHERE age = 1 AND op IN ('c', 'u', 'r')
