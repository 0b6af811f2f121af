#!/bin/sh
# Merge the changes since the last load into the Delta table of current rows.
set -eu
: "${KAFKA:=localhost:9092}" "${TOPIC:=shop.public.customers}" "${TO:=customers}"
here=$(dirname "$0")
. "$here/delta.sh"

kt pipeline run --bootstrap-server "$KAFKA" --from "topic:$TOPIC" --from-option startingOffsets=earliest \
    --key json --key-schema "$here/key.ddl" --value json --value-schema "$here/envelope.ddl" \
    --sql-file "$here/current_rows.sql" --to "delta:$TO" --merge-by id \
    --stream --checkpoint "$TO-state" --trigger available-now "$@"
