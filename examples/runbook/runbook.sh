#!/bin/sh
# The same with kt. The earlier values are in the directory UNDO.
set -eu
: "${KAFKA:=localhost:9092}" "${UNDO:=undo}"
mkdir -p "$UNDO"

kt monitor --bootstrap-server "$KAFKA" --once --fail-if 'offline>0'
kt configs --bootstrap-server "$KAFKA" --alter --topic payments --add-config retention.ms=1209600000 \
    --undo-file "$UNDO/retention.jsonl"
reset="kt consumer-groups --bootstrap-server $KAFKA --reset-offsets --group billing --topic payments"
$reset --to-datetime "$SINCE" --dry-run
$reset --to-datetime "$SINCE" --execute --undo-file "$UNDO/offsets.csv"
kt consumer-groups --bootstrap-server "$KAFKA" --describe --group billing --json
