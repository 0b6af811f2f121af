#!/bin/sh
# Report lag to the webhook WEBHOOK.
set -eu
: "${KAFKA:=localhost:9092}" "${INTERVAL:=10s}" "${LAG:=lag_seconds>300 for 5m}"
export WEBHOOK

exec kt monitor --bootstrap-server "$KAFKA" --interval "$INTERVAL" --view alerts \
    --alert "$LAG" --alert 'under_replicated>0 for 10m' --webhook env:WEBHOOK
