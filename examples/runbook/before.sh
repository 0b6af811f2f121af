#!/bin/sh
# Kafka's scripts: keep the records for two weeks, then let the group billing read payments again from SINCE on.
set -eu
: "${KAFKA:=localhost:9092}"

kafka-topics.sh --bootstrap-server "$KAFKA" --describe --unavailable-partitions
kafka-configs.sh --bootstrap-server "$KAFKA" --alter --entity-type topics --entity-name payments \
    --add-config retention.ms=1209600000
kafka-consumer-groups.sh --bootstrap-server "$KAFKA" --reset-offsets --group billing --topic payments \
    --to-datetime "$SINCE" --execute
kafka-consumer-groups.sh --bootstrap-server "$KAFKA" --describe --group billing
