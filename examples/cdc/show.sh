#!/bin/sh
# Print the current rows.
set -eu
: "${TO:=customers}"
. "$(dirname "$0")/delta.sh"

kt pipeline run --from "delta:$TO" --sql "SELECT id, name, email FROM input ORDER BY id" --to console: "$@"
