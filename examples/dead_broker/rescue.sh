#!/bin/sh
# rescue.sh DISK TOPIC DIRECTORY: save the records of a topic from the log directory DISK into DIRECTORY, and send them
# to the topic of the cluster KAFKA.
set -eu
: "${KAFKA:=localhost:9092}"
[ $# -eq 3 ] || { echo "usage: $0 DISK TOPIC DIRECTORY" >&2; exit 2; }
disk=$1 topic=$2 saved=$3

set --
for part in "$disk/$topic"-[0-9]*; do # orders-0, and not orders-2024-0 of the topic orders-2024
    case ${part#"$disk/$topic-"} in *[!0-9]*) ;; *) set -- "$@" "$part" ;; esac
done
[ $# -gt 0 ] || { echo "There is no partition of the topic $topic in $disk" >&2; exit 1; }
kt check "$@" --salvage "$saved" || [ $? -eq 3 ] # 3: damage, which is listed
[ ! -s "$saved/lost.jsonl" ] || cat "$saved/lost.jsonl"
kt console-consumer --from "log:$saved" --topic "$topic" --count
kt replay "log:$saved" --to "topic:$topic" --to-bootstrap-server "$KAFKA" --keep-timestamps --dry-run
kt replay "log:$saved" --to "topic:$topic" --to-bootstrap-server "$KAFKA" --keep-timestamps
