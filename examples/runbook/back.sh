#!/bin/sh
# Back to the values before runbook.sh.
set -eu
: "${KAFKA:=localhost:9092}" "${UNDO:=undo}"

kt configs --bootstrap-server "$KAFKA" --from-file "$UNDO/retention.jsonl"
kt consumer-groups --bootstrap-server "$KAFKA" --reset-offsets --all-groups --from-file "$UNDO/offsets.csv" \
    --execute --no-undo-file
