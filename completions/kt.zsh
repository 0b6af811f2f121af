#compdef kt
# zsh completion for kt; made by `kt completion --shell zsh`
_kt() {
    local command="" before="${words[CURRENT-1]}" at=2 i
    local -a words_of place where
    while ((at < CURRENT)); do
        case "${words[at]}" in
        --profile) place=(--profile "${words[at+1]}"); ((at += 2)) ;;
        --confirm) ((at += 2)) ;;
        *) command="${words[at]}"; break ;;
        esac
    done
    for ((i = at; i < CURRENT; i++)); do
        [[ ${words[i]} == --bootstrap-server ]] && where=(--bootstrap-server "${words[i+1]}")
    done
    if [[ $before == --profile && -z $command ]]; then
        words_of=(${(f)"$(kt completion --profiles 2>/dev/null)"})
    elif [[ -z $command ]]; then
        words_of=(topics console-producer console-consumer consumer-groups groups share-groups transactions get-offsets delete-records reassign-partitions log-dirs replica-verification leader-election cluster broker-api-versions metadata-quorum features dump-log producer-perf-test consumer-perf-test e2e-latency verifiable-producer verifiable-consumer configs acls delegation-tokens storage pipeline sandbox server-start server-stop doctor monitor help-json completion dump-log-segments --profile --confirm --version --help)
    elif [[ $before == --topic ]]; then
        words_of=(${(f)"$(kt $place completion --topics $where 2>/dev/null)"})
    elif [[ $before == --group ]]; then
        words_of=(${(f)"$(kt $place completion --groups $where 2>/dev/null)"})
    else
        case "$command $before" in
        "console-producer --compression-codec") words_of=(none gzip snappy lz4 zstd) ;;
        "console-producer --request-required-acks") words_of=(0 1 -1 all) ;;
        "console-consumer --isolation-level") words_of=(read_committed read_uncommitted) ;;
        "consumer-groups --state") words_of=(Dead CompletingRebalance Stable Assigning Empty PreparingRebalance Reconciling) ;;
        "consumer-groups --type") words_of=(classic consumer) ;;
        "groups --group-type") words_of=(classic consumer share streams) ;;
        "share-groups --state") words_of=(Stable Empty Dead) ;;
        "get-offsets --time") words_of=(latest earliest max-timestamp earliest-local latest-tiered earliest-pending-upload) ;;
        "leader-election --election-type") words_of=(preferred unclean) ;;
        "e2e-latency --producer-acks") words_of=(1 all) ;;
        "verifiable-producer --acks") words_of=(0 1 -1) ;;
        "verifiable-consumer --group-protocol") words_of=(classic consumer) ;;
        "verifiable-consumer --reset-policy") words_of=(earliest latest none) ;;
        "configs --entity-type") words_of=(topics clients users brokers ips client-metrics groups broker-loggers) ;;
        "acls --resource-pattern-type") words_of=(any match literal prefixed) ;;
        "pipeline --mode") words_of=(append overwrite error ignore) ;;
        "pipeline --value") words_of=(binary string json avro protobuf) ;;
        "pipeline --key") words_of=(binary string json avro protobuf) ;;
        "pipeline --by") words_of=(key offset multiset) ;;
        "sandbox --durability") words_of=(none fsync) ;;
        "server-start --durability") words_of=(none fsync) ;;
        "monitor --view") words_of=(brokers topics partitions groups lag quorum log-dirs events all) ;;
        "completion --shell") words_of=(bash zsh fish) ;;
        *" "--*config | *" "--*-file | *" --files" | *" -c")
            _files
            return
            ;;
        *)
            case "$command" in
            topics) words_of=(--create --list --describe --alter --delete --bootstrap-server --topic --topic-id --partitions --replication-factor --replica-assignment --config --if-not-exists --if-exists --exclude-internal --topics-with-overrides --under-replicated-partitions --unavailable-partitions --under-min-isr-partitions --at-min-isr-partitions --partition-size-limit-per-response --command-config --dry-run --json --help --version) ;;
            console-producer) words_of=(--bootstrap-server --topic --sync --compression-codec --batch-size --message-send-max-retries --retry-backoff-ms --timeout --request-required-acks --request-timeout-ms --metadata-expiry-ms --max-block-ms --max-memory-bytes --socket-buffer-size --line-reader --reader-property --reader-config --command-property --command-config --transactional-id --transaction-records --json --help --version) ;;
            console-consumer) words_of=(--topic --include --partition --offset --from-beginning --max-messages --timeout-ms --exit-at-end --bootstrap-server --command-config --command-property --isolation-level --group --formatter --formatter-property --formatter-config --key-deserializer --value-deserializer --skip-message-on-error --skip-corrupt --enable-systest-events --json --help --version) ;;
            consumer-groups) words_of=(--list --describe --delete --reset-offsets --delete-offsets --validate-regex --bootstrap-server --group --all-groups --topic --all-topics --offsets --members --state --type --verbose --to-earliest --to-latest --to-current --to-offset --shift-by --by-duration --to-datetime --from-file --dry-run --execute --export --timeout --command-config --lag-time --watch --fail-if --undo-file --no-undo-file --json --help --version) ;;
            groups) words_of=(--list --bootstrap-server --group-type --protocol --consumer --share --streams --command-config --json --help --version) ;;
            share-groups) words_of=(--list --describe --delete --reset-offsets --delete-offsets --bootstrap-server --group --all-groups --topic --all-topics --offsets --members --state --verbose --to-earliest --to-latest --to-datetime --to-offset --to-current --from-file --dry-run --execute --export --timeout --command-config --undo-file --json --help --version) ;;
            transactions) words_of=(list describe describe-producers abort find-hanging forceTerminateTransaction --bootstrap-server --command-config --version --json --help --duration-filter --transactional-id-pattern --transactional-id --broker-id --topic --partition --start-offset --producer-id --producer-epoch --coordinator-epoch --dry-run --max-transaction-timeout --transactionalId) ;;
            get-offsets) words_of=(--bootstrap-server --topic --partitions --topic-partitions --time --exclude-internal-topics --command-config --json --help --version) ;;
            delete-records) words_of=(--offset-json-file --bootstrap-server --command-config --dry-run --json --help --version) ;;
            reassign-partitions) words_of=(plan run --generate --execute --verify --cancel --list --bootstrap-server --bootstrap-controller --command-config --reassignment-json-file --topics-to-move-json-file --broker-list --disable-rack-aware --throttle --replica-alter-log-dirs-throttle --additional --disallow-replication-factor-change --preserve-throttles --timeout --undo-file --dry-run --json --help --version --brokers --topics --replication-factor --out --min-throttle --max-throttle --no-throttle --batch-size --interval --cancel-on-interrupt --clear-throttles --no-undo-file) ;;
            log-dirs) words_of=(--describe --bootstrap-server --topic-list --broker-list --command-config --json --help --version) ;;
            replica-verification) words_of=(--bootstrap-server --topics-include --time --fetch-size --max-wait-ms --report-interval-ms --exit-at-end --command-config --json --help --version) ;;
            leader-election) words_of=(--bootstrap-server --election-type --topic --partition --all-topic-partitions --path-to-json-file --command-config --dry-run --json --help --version) ;;
            cluster) words_of=(cluster-id unregister list-endpoints --json --help --bootstrap-controller --bootstrap-server --command-config --id --dry-run --include-fenced-brokers) ;;
            broker-api-versions) words_of=(--bootstrap-server --command-config --json --help --version) ;;
            metadata-quorum) words_of=(describe add-controller remove-controller --bootstrap-server --bootstrap-controller --command-config --json --help --status --replication --human-readable --dry-run --controller-id --controller-directory-id) ;;
            features) words_of=(describe upgrade downgrade disable version-mapping feature-dependencies --bootstrap-server --bootstrap-controller --command-config --json --help --node-id --release-version --feature --dry-run --unsafe) ;;
            dump-log) words_of=(--files --print-data-log --deep-iteration --skip-record-metadata --max-bytes --verify-index-only --index-sanity-check --max-message-size --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder --key-decoder-class --value-decoder-class --stop-at-damage --salvage --json --help --version) ;;
            producer-perf-test) words_of=(--bootstrap-server --topic --num-records --payload-delimiter --throughput --command-property --command-config --print-metrics --transactional-id --transaction-duration-ms --warmup-records --reporting-interval --record-size --payload-file --payload-monotonic --json --help) ;;
            consumer-perf-test) words_of=(--bootstrap-server --command-config --command-property --date-format --fetch-size --from-latest --group --hide-header --include --num-records --print-metrics --reporting-interval --show-detailed-stats --socket-buffer-size --timeout --topic --json --help --version) ;;
            e2e-latency) words_of=(--bootstrap-server --topic --num-records --producer-acks --record-size --command-config --record-key-size --num-headers --record-header-key-size --record-header-size --json --help --version) ;;
            verifiable-producer) words_of=(--topic --bootstrap-server --max-messages --throughput --acks --command-config --message-create-time --value-prefix --repeating-keys --json --help) ;;
            verifiable-consumer) words_of=(--topic --bootstrap-server --group-protocol --group-remote-assignor --group-id --group-instance-id --max-messages --session-timeout --verbose --enable-autocommit --reset-policy --assignment-strategy --command-config --json --help) ;;
            configs) words_of=(--describe --alter --from-file --bootstrap-server --bootstrap-controller --entity-type --entity-name --entity-default --topic --client --client-defaults --user --user-defaults --broker --broker-defaults --broker-logger --ip --ip-defaults --client-metrics --group --all --add-config --add-config-file --delete-config --dry-run --undo-file --command-config --json --help --version) ;;
            acls) words_of=(--list --add --remove --from-file --bootstrap-server --bootstrap-controller --topic --group --cluster --transactional-id --delegation-token --user-principal --resource-pattern-type --operation --allow-principal --deny-principal --allow-host --deny-host --producer --idempotent --consumer --principal --force --undo-file --dry-run --command-config --json --help --version) ;;
            delegation-tokens) words_of=(--bootstrap-server --command-config --create --renew --expire --describe --owner-principal --renewer-principal --max-life-time-period --renew-time-period --expiry-time-period --hmac --hmac-file --dry-run --json --help --version) ;;
            storage) words_of=(info format version-mapping feature-dependencies random-uuid --json --help --config --cluster-id --add-scram --ignore-formatted --release-version --feature --standalone --no-initial-controllers --initial-controllers --dry-run) ;;
            pipeline) words_of=(run verify export count top-keys diff check replay retention-forecast compact-forecast profile --json --help --version --from --sql --sql-file --transform --to --mode --value --key --value-schema --key-schema --value-message --key-message --schema-registry --stream --checkpoint --trigger --from-option --to-option --partition-by --manifest --resume --strict --report-path --master --conf --bootstrap-server --command-config --to-bootstrap-server --to-command-config --where --text --no-headers --round --exact --no-keys --top --by --compare --limit --right-bootstrap-server --right-command-config --deep --topic-header --rate --max-replays --allow-loop --keep-timestamps --dry-run --retention-ms --retention-bytes --min-cleanable-dirty-ratio --min-compaction-lag-ms --max-compaction-lag-ms --out) ;;
            sandbox) words_of=(start status kill pause resume restart wipe stop --json --help --nodes --port --dir --rack --durability --set --idle-minutes --stop --yes) ;;
            server-start) words_of=(--override --durability --insecure --json --help --version) ;;
            server-stop) words_of=(--node-id --json --help --version) ;;
            doctor) words_of=(--bootstrap-server --command-config --json --help --version) ;;
            monitor) words_of=(--bootstrap-server --command-config --interval --once --topic --group --regex --view --fail-if --web --prometheus --insecure --json --help --version) ;;
            help-json) words_of=(--json --help --version) ;;
            completion) words_of=(--shell --topics --groups --profiles --bootstrap-server --json --help --version) ;;
            dump-log-segments) words_of=(--files --print-data-log --deep-iteration --skip-record-metadata --max-bytes --verify-index-only --index-sanity-check --max-message-size --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder --key-decoder-class --value-decoder-class --stop-at-damage --salvage --json --help --version) ;;
            esac
            ;;
        esac
    fi
    compadd -- $words_of
}
compdef _kt kt
