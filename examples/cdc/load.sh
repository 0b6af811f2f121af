#!/bin/sh
# Load the current rows of a table from its topic of changes.
set -eu
: "${KAFKA:=localhost:9092}" "${TOPIC:=shop.public.customers}" "${TO:=customers}"
here=$(dirname "$0")

kt pipeline run --bootstrap-server "$KAFKA" --from "topic:$TOPIC" --from-option startingOffsets=earliest \
    --value json --value-schema "$here/envelope.ddl" --sql-file "$here/current_rows.sql" \
    --to "parquet:$TO" --mode overwrite
