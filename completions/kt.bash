# bash completion for kt; made by `kt completion --shell bash`
_kt() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" server="" i words
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == --bootstrap-server ]] && server="${COMP_WORDS[i+1]}"
    done
    if ((COMP_CWORD == 1)); then
        words="topics console-producer console-consumer consumer-groups groups transactions get-offsets delete-records reassign-partitions log-dirs leader-election cluster broker-api-versions metadata-quorum features dump-log producer-perf-test configs acls storage sandbox server-start server-stop help-json completion dump-log-segments"
    elif [[ $before == --topic ]]; then
        words="$(kt completion --topics ${server:+--bootstrap-server "$server"} 2>/dev/null)"
    elif [[ $before == --group ]]; then
        words="$(kt completion --groups ${server:+--bootstrap-server "$server"} 2>/dev/null)"
    elif [[ $before == --*config || $before == --*-file || $before == --files || $before == -c ]]; then
        COMPREPLY=($(compgen -f -- "$word"))
        return
    else
        case "${COMP_WORDS[1]}" in
            topics) words="--create --list --describe --alter --delete --bootstrap-server --topic --topic-id --partitions --replication-factor --replica-assignment --config --if-not-exists --if-exists --exclude-internal --topics-with-overrides --under-replicated-partitions --unavailable-partitions --under-min-isr-partitions --at-min-isr-partitions --partition-size-limit-per-response --command-config --json --help --version" ;;
            console-producer) words="--bootstrap-server --topic --sync --compression-codec --batch-size --message-send-max-retries --retry-backoff-ms --timeout --request-required-acks --request-timeout-ms --metadata-expiry-ms --max-block-ms --max-memory-bytes --socket-buffer-size --line-reader --reader-property --reader-config --command-property --command-config --transactional-id --transaction-records --json --help --version" ;;
            console-consumer) words="--topic --include --partition --offset --from-beginning --max-messages --timeout-ms --exit-at-end --bootstrap-server --command-config --command-property --isolation-level --group --formatter --formatter-property --formatter-config --key-deserializer --value-deserializer --skip-message-on-error --skip-corrupt --enable-systest-events --json --help --version" ;;
            consumer-groups) words="--list --describe --delete --reset-offsets --delete-offsets --validate-regex --bootstrap-server --group --all-groups --topic --all-topics --offsets --members --state --type --verbose --to-earliest --to-latest --to-current --to-offset --shift-by --by-duration --to-datetime --from-file --dry-run --execute --export --timeout --command-config --lag-time --watch --fail-if --undo-file --no-undo-file --json --help --version" ;;
            groups) words="--list --bootstrap-server --group-type --protocol --consumer --share --streams --command-config --json --help --version" ;;
            transactions) words="list describe describe-producers abort find-hanging forceTerminateTransaction --bootstrap-server --command-config --version --json --help" ;;
            get-offsets) words="--bootstrap-server --topic --partitions --topic-partitions --time --exclude-internal-topics --command-config --json --help --version" ;;
            delete-records) words="--offset-json-file --bootstrap-server --command-config --json --help --version" ;;
            reassign-partitions) words="plan --generate --execute --verify --cancel --list --bootstrap-server --bootstrap-controller --command-config --reassignment-json-file --topics-to-move-json-file --broker-list --disable-rack-aware --throttle --replica-alter-log-dirs-throttle --additional --disallow-replication-factor-change --preserve-throttles --timeout --json --help --version" ;;
            log-dirs) words="--describe --bootstrap-server --topic-list --broker-list --command-config --json --help --version" ;;
            leader-election) words="--bootstrap-server --election-type --topic --partition --all-topic-partitions --path-to-json-file --command-config --json --help --version" ;;
            cluster) words="cluster-id unregister list-endpoints --json --help" ;;
            broker-api-versions) words="--bootstrap-server --command-config --json --help --version" ;;
            metadata-quorum) words="describe add-controller remove-controller --bootstrap-server --bootstrap-controller --command-config --json --help" ;;
            features) words="describe upgrade downgrade disable version-mapping feature-dependencies --bootstrap-server --bootstrap-controller --command-config --json --help" ;;
            dump-log) words="--files --print-data-log --deep-iteration --skip-record-metadata --max-bytes --verify-index-only --index-sanity-check --max-message-size --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder --key-decoder-class --value-decoder-class --stop-at-damage --salvage --json --help --version" ;;
            producer-perf-test) words="--bootstrap-server --topic --num-records --payload-delimiter --throughput --command-property --command-config --print-metrics --transactional-id --transaction-duration-ms --warmup-records --reporting-interval --record-size --payload-file --payload-monotonic --json --help" ;;
            configs) words="--describe --alter --bootstrap-server --bootstrap-controller --entity-type --entity-name --entity-default --topic --client --client-defaults --user --user-defaults --broker --broker-defaults --broker-logger --ip --ip-defaults --client-metrics --group --all --add-config --add-config-file --delete-config --command-config --json --help --version" ;;
            acls) words="--list --add --remove --from-file --bootstrap-server --bootstrap-controller --topic --group --cluster --transactional-id --delegation-token --user-principal --resource-pattern-type --operation --allow-principal --deny-principal --allow-host --deny-host --producer --idempotent --consumer --principal --force --undo-file --command-config --json --help --version" ;;
            storage) words="info format version-mapping feature-dependencies random-uuid --json --help" ;;
            sandbox) words="start status stop --json --help" ;;
            server-start) words="--override --durability --insecure --json --help --version" ;;
            server-stop) words="--node-id --json --help --version" ;;
            help-json) words="--json --help --version" ;;
            completion) words="--shell --topics --groups --bootstrap-server --json --help --version" ;;
            dump-log-segments) words="--files --print-data-log --deep-iteration --skip-record-metadata --max-bytes --verify-index-only --index-sanity-check --max-message-size --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder --key-decoder-class --value-decoder-class --stop-at-damage --salvage --json --help --version" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _kt kt
