# fish completion for kt; made by `kt completion --shell fish`
function __kt_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l command
    while set -q words[1]; and test -z "$command"
        switch $words[1]
            case --profile --confirm
                set -q words[2]; and set -e words[1]
            case '*'
                set command $words[1]
        end
        set -e words[1]
    end
    test "$command" = "$argv[1]"
end
function __kt_names
    set -l place
    set -l where
    set -l words (commandline -opc)
    for i in (seq (count $words))
        switch $words[$i]
            case --profile
                set place --profile $words[(math $i + 1)]
            case --bootstrap-server
                set where --bootstrap-server $words[(math $i + 1)]
        end
    end
    kt $place completion $argv $where 2>/dev/null
end
complete -c kt -f
complete -c kt -n "__kt_at ''" -l profile -d 'The cluster to work on.' -x -a '(kt completion --profiles 2>/dev/null)'
complete -c kt -n "__kt_at ''" -l confirm -d 'The name of a protected cluster.' -x
complete -c kt -n "__kt_at ''" -a topics -d 'Create, list, describe, alter or delete topics.'
complete -c kt -n '__kt_at topics' -l create -d 'Make a topic.'
complete -c kt -n '__kt_at topics' -l list -d 'Print the names of topics.'
complete -c kt -n '__kt_at topics' -l describe -d 'Show layout and configuration of topics.'
complete -c kt -n '__kt_at topics' -l alter -d 'Add partitions to topics.'
complete -c kt -n '__kt_at topics' -l delete -d 'Delete topics.'
complete -c kt -n '__kt_at topics' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at topics' -l topic -d 'The topic; a regular expression except with --create.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at topics' -l topic-id -d 'Describe the topic with this id.' -x
complete -c kt -n '__kt_at topics' -l partitions -d 'How many partitions the topic is to have.' -x
complete -c kt -n '__kt_at topics' -l replication-factor -d 'How many copies of each partition.' -x
complete -c kt -n '__kt_at topics' -l replica-assignment -d 'The brokers of each partition, the first one preferred: 1:2,2:3 is two partitions with two copies each.' -x
complete -c kt -n '__kt_at topics' -l config -d 'Configuration of the new topic, also with units: retention.ms=7d.' -x
complete -c kt -n '__kt_at topics' -l if-not-exists -d 'With --create: do nothing when the topic exists.'
complete -c kt -n '__kt_at topics' -l if-exists -d 'With --alter, --delete, --describe: do nothing when the topic does not exist.'
complete -c kt -n '__kt_at topics' -l exclude-internal -d 'With --list and --describe: leave out the topics of the brokers themselves.'
complete -c kt -n '__kt_at topics' -l topics-with-overrides -d 'With --describe: only topics with configuration of their own.'
complete -c kt -n '__kt_at topics' -l under-replicated-partitions -d 'With --describe: only partitions with copies that lag.'
complete -c kt -n '__kt_at topics' -l unavailable-partitions -d 'With --describe: only partitions without a live leader.'
complete -c kt -n '__kt_at topics' -l under-min-isr-partitions -d 'With --describe: only partitions with too few copies in sync.'
complete -c kt -n '__kt_at topics' -l at-min-isr-partitions -d 'With --describe: only partitions with just enough copies in sync.'
complete -c kt -n '__kt_at topics' -l partition-size-limit-per-response -d 'With --describe: how many partitions to ask for at a time.' -x
complete -c kt -n '__kt_at topics' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at topics' -l dry-run -d 'With --create, --alter, --delete: say what would happen, and change nothing.'
complete -c kt -n '__kt_at topics' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at topics' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at topics' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a console-producer -d 'Send lines of standard input to a topic.'
complete -c kt -n '__kt_at console-producer' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at console-producer' -l topic -d 'The topic that gets the records.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at console-producer' -l sync -d 'Wait for each record before the next is sent; stop at the first that fails.'
complete -c kt -n '__kt_at console-producer' -l compression-codec -d 'Compression of batches; gzip when the value is left out.' -x -a 'none gzip snappy lz4 zstd'
complete -c kt -n '__kt_at console-producer' -l batch-size -d 'Largest batch in bytes (default 262144).' -x
complete -c kt -n '__kt_at console-producer' -l message-send-max-retries -d 'Tries after the first (default 3; in transactions as many as fit delivery.timeout.ms).' -x
complete -c kt -n '__kt_at console-producer' -l retry-backoff-ms -d 'Pause before a retry (default 100).' -x
complete -c kt -n '__kt_at console-producer' -l timeout -d 'How long a batch may wait to fill (default 1000; 0 with --sync).' -x
complete -c kt -n '__kt_at console-producer' -l request-required-acks -d 'Who must have a record before it counts as sent: 0 nobody, 1 the leader, -1 or all the replicas in sync (default -1).' -x -a '0 1 -1 all'
complete -c kt -n '__kt_at console-producer' -l request-timeout-ms -d 'How long to wait for a broker\'s answer (default 1500).' -x
complete -c kt -n '__kt_at console-producer' -l metadata-expiry-ms -d 'Age at which metadata is fetched again (default 300000).' -x
complete -c kt -n '__kt_at console-producer' -l max-block-ms -d 'Longest wait for metadata or memory (default 60000).' -x
complete -c kt -n '__kt_at console-producer' -l max-memory-bytes -d 'Memory for records not yet sent (default 33554432).' -x
complete -c kt -n '__kt_at console-producer' -l socket-buffer-size -d 'TCP send buffer in bytes (default: the system\'s).' -x
complete -c kt -n '__kt_at console-producer' -l line-reader -d 'The class that reads the input; LineMessageReader is the only one here.' -x
complete -c kt -n '__kt_at console-producer' -l reader-property -d 'Setting of the reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator, null.marker, ignore.error.' -x
complete -c kt -n '__kt_at console-producer' -l reader-config -d 'Properties file with settings of the reader.' -r -F
complete -c kt -n '__kt_at console-producer' -l command-property -d 'Setting of the producer.' -x
complete -c kt -n '__kt_at console-producer' -l command-config -d 'Properties file with settings of the producer.' -r -F
complete -c kt -n '__kt_at console-producer' -l transactional-id -d 'Send in transactions under this lasting name; an earlier producer of the name is fenced.' -x
complete -c kt -n '__kt_at console-producer' -l transaction-records -d 'Commit after so many records (default 0: the whole input is one transaction).' -x
complete -c kt -n '__kt_at console-producer' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at console-producer' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at console-producer' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a console-consumer -d 'Print the records of topics.'
complete -c kt -n '__kt_at console-consumer' -l topic -d 'The topic to read.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at console-consumer' -l include -d 'Read all topics whose whole name matches this regular expression.' -x
complete -c kt -n '__kt_at console-consumer' -l partition -d 'Read only this partition of the topic.' -x
complete -c kt -n '__kt_at console-consumer' -l offset -d 'Where to start in the partition: a number, earliest or latest (default).' -x
complete -c kt -n '__kt_at console-consumer' -l from-beginning -d 'Start with the oldest record, not with the next to come.'
complete -c kt -n '__kt_at console-consumer' -l max-messages -d 'Stop after so many records.' -x
complete -c kt -n '__kt_at console-consumer' -l timeout-ms -d 'Stop when nothing arrives for so long.' -x
complete -c kt -n '__kt_at console-consumer' -l exit-at-end -d 'Stop at the end the partitions have now; exit status 1 if it is not reached.'
complete -c kt -n '__kt_at console-consumer' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at console-consumer' -l command-config -d 'Properties file with settings of the consumer.' -r -F
complete -c kt -n '__kt_at console-consumer' -l command-property -d 'Setting of the consumer.' -x
complete -c kt -n '__kt_at console-consumer' -l isolation-level -d 'read_committed leaves out transactions that were aborted or are still open. Default: read_uncommitted.' -x -a 'read_committed read_uncommitted'
complete -c kt -n '__kt_at console-consumer' -l group -d 'Read as a member of this group, and commit what was printed.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at console-consumer' -l formatter -d 'What prints records: a class name, or default, logging, no-op; for internal topics: offsets, group-metadata, transaction-log, share-group, share-group-state.' -x
complete -c kt -n '__kt_at console-consumer' -l formatter-property -d 'Setting of the formatter: print.key, print.value, print.headers, print.timestamp, print.partition, print.offset (true or false), key.separator, line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, headers.deserializer.' -x
complete -c kt -n '__kt_at console-consumer' -l formatter-config -d 'Properties file with settings of the formatter.' -r -F
complete -c kt -n '__kt_at console-consumer' -l key-deserializer -d 'Class that turns keys into text.' -x
complete -c kt -n '__kt_at console-consumer' -l value-deserializer -d 'Class that turns values into text.' -x
complete -c kt -n '__kt_at console-consumer' -l skip-message-on-error -d 'Go on behind a record that cannot be printed; the exit status is 1 then.'
complete -c kt -n '__kt_at console-consumer' -l skip-corrupt -d 'Go on behind damaged batches; says which offsets, exit status 1 then.'
complete -c kt -n '__kt_at console-consumer' -l enable-systest-events -d 'Also print shutdown_complete at the end.'
complete -c kt -n '__kt_at console-consumer' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at console-consumer' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at console-consumer' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a consumer-groups -d 'List, describe and delete consumer groups, and move their offsets.'
complete -c kt -n '__kt_at consumer-groups' -l list -d 'Print the names of groups.'
complete -c kt -n '__kt_at consumer-groups' -l describe -d 'Show offsets and lag of groups, their members, or their state.'
complete -c kt -n '__kt_at consumer-groups' -l delete -d 'Delete groups without members, with their offsets.'
complete -c kt -n '__kt_at consumer-groups' -l reset-offsets -d 'Move the committed offsets of groups without members.'
complete -c kt -n '__kt_at consumer-groups' -l delete-offsets -d 'Forget the committed offsets of topics.'
complete -c kt -n '__kt_at consumer-groups' -l validate-regex -d 'Check a regular expression as brokers do (RE2 syntax).' -x
complete -c kt -n '__kt_at consumer-groups' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at consumer-groups' -l group -d 'The group; may be given several times.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at consumer-groups' -l all-groups -d 'All groups of consumers.'
complete -c kt -n '__kt_at consumer-groups' -l topic -d 'The topic, or topic:0,1 for partitions; may be repeated.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at consumer-groups' -l all-topics -d 'With --reset-offsets: all topics the group has offsets of.'
complete -c kt -n '__kt_at consumer-groups' -l offsets -d 'With --describe: offsets and lag (what it does anyway).'
complete -c kt -n '__kt_at consumer-groups' -l members -d 'With --describe: the members.'
complete -c kt -n '__kt_at consumer-groups' -l state -d 'With --describe: the state. With --list: show states, or only groups in these (commas between).' -x -a 'Dead CompletingRebalance Stable Assigning Empty PreparingRebalance Reconciling'
complete -c kt -n '__kt_at consumer-groups' -l type -d 'With --list: show types, or only groups of these (classic, consumer).' -x -a 'classic consumer'
complete -c kt -n '__kt_at consumer-groups' -l verbose -d 'With --describe: more columns.'
complete -c kt -n '__kt_at consumer-groups' -l to-earliest -d 'Reset to the first offset there is.'
complete -c kt -n '__kt_at consumer-groups' -l to-latest -d 'Reset to the end.'
complete -c kt -n '__kt_at consumer-groups' -l to-current -d 'Reset to the committed offset (the end where there is none): to export offsets.'
complete -c kt -n '__kt_at consumer-groups' -l to-offset -d 'Reset to this offset.' -x
complete -c kt -n '__kt_at consumer-groups' -l shift-by -d 'Reset to the committed offset plus this (it may be negative).' -x
complete -c kt -n '__kt_at consumer-groups' -l by-duration -d 'Reset to the first record of the last 2h, or P1DT2H3M4S.' -x
complete -c kt -n '__kt_at consumer-groups' -l to-datetime -d 'Reset to the first record at or after 2026-01-31T13:45:00.000.' -x
complete -c kt -n '__kt_at consumer-groups' -l from-file -d 'Reset to the offsets in a file: CSV (topic,partition,offset, or with the group in front) or lines of JSON.' -r -F
complete -c kt -n '__kt_at consumer-groups' -l dry-run -d 'Only show what --reset-offsets, --delete or --delete-offsets would do.'
complete -c kt -n '__kt_at consumer-groups' -l execute -d 'Do it.'
complete -c kt -n '__kt_at consumer-groups' -l export -d 'Show it as CSV, for --from-file.'
complete -c kt -n '__kt_at consumer-groups' -l timeout -d 'How long each request may take, in ms.' -x
complete -c kt -n '__kt_at consumer-groups' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at consumer-groups' -l lag-time -d 'With --describe: the lag in time too. LAG-TIME is now minus the timestamp of the first record that was not consumed, BEHIND-NEWEST the newest timestamp of the partition minus that one; both 0 when all was consumed.'
complete -c kt -n '__kt_at consumer-groups' -l watch -d 'With --describe: show it again every so many seconds (5), until Ctrl-C; without a terminal as lines of JSON.' -x
complete -c kt -n '__kt_at consumer-groups' -l fail-if -d 'With --describe: exit status 3 when this holds anywhere, and say where. lag>1000 (records), lag>5m (how old the first record is that was not consumed; ms, s, m, h, d), behind>1h (than the newest), total>100000, members<2, state!=Stable; > >= < <= = !=. May be repeated. With --watch: ends when it holds.' -x
complete -c kt -n '__kt_at consumer-groups' -l undo-file -d 'Where --execute saves the previous offsets, for --from-file. Default: a new file in this directory, named after the group and the time. With --delete and --delete-offsets: note them here first.' -r -F
complete -c kt -n '__kt_at consumer-groups' -l no-undo-file -d 'With --execute: note nothing.'
complete -c kt -n '__kt_at consumer-groups' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at consumer-groups' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at consumer-groups' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a groups -d 'List groups of all kinds.'
complete -c kt -n '__kt_at groups' -l list -d 'Print the groups with type and protocol.'
complete -c kt -n '__kt_at groups' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at groups' -l group-type -d 'Only groups of this type.' -x -a 'classic consumer share streams'
complete -c kt -n '__kt_at groups' -l protocol -d 'Only groups with this protocol.' -x
complete -c kt -n '__kt_at groups' -l consumer -d 'Only groups of consumers, of either protocol, and those that only commit offsets.'
complete -c kt -n '__kt_at groups' -l share -d 'Only share groups.'
complete -c kt -n '__kt_at groups' -l streams -d 'Only groups of Kafka Streams.'
complete -c kt -n '__kt_at groups' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at groups' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at groups' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at groups' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a share-groups -d 'List, describe and delete share groups, and reset their start offsets.'
complete -c kt -n '__kt_at share-groups' -l list -d 'Print the names of share groups.'
complete -c kt -n '__kt_at share-groups' -l describe -d 'Show where groups begin to read, their members, or their state.'
complete -c kt -n '__kt_at share-groups' -l delete -d 'Delete groups without members, with their offsets.'
complete -c kt -n '__kt_at share-groups' -l reset-offsets -d 'Move where groups without members begin to read.'
complete -c kt -n '__kt_at share-groups' -l delete-offsets -d 'Forget topics.'
complete -c kt -n '__kt_at share-groups' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at share-groups' -l group -d 'The group; may be given several times.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at share-groups' -l all-groups -d 'All share groups.'
complete -c kt -n '__kt_at share-groups' -l topic -d 'The topic, or topic:0,1 for partitions; may be repeated.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at share-groups' -l all-topics -d 'With --reset-offsets: all topics that the group knows.'
complete -c kt -n '__kt_at share-groups' -l offsets -d 'With --describe: offsets and lag (what it does anyway).'
complete -c kt -n '__kt_at share-groups' -l members -d 'With --describe: the members.'
complete -c kt -n '__kt_at share-groups' -l state -d 'With --describe: the state. With --list: show states, or only groups in these (commas between).' -x -a 'Stable Empty Dead'
complete -c kt -n '__kt_at share-groups' -l verbose -d 'With --describe: more columns.'
complete -c kt -n '__kt_at share-groups' -l to-earliest -d 'Reset to the first offset there is.'
complete -c kt -n '__kt_at share-groups' -l to-latest -d 'Reset to the end.'
complete -c kt -n '__kt_at share-groups' -l to-datetime -d 'Reset to the first record at or after 2026-01-31T13:45:00.000.' -x
complete -c kt -n '__kt_at share-groups' -l to-offset -d 'Reset to this offset.' -x
complete -c kt -n '__kt_at share-groups' -l to-current -d 'Reset to where the group begins now (the end where that is open): to export.'
complete -c kt -n '__kt_at share-groups' -l from-file -d 'Reset to the offsets in a file: CSV (topic,partition,offset, or with the group in front) or lines of JSON.' -r -F
complete -c kt -n '__kt_at share-groups' -l dry-run -d 'Only show what --reset-offsets, --delete or --delete-offsets would do.'
complete -c kt -n '__kt_at share-groups' -l execute -d 'Do it.'
complete -c kt -n '__kt_at share-groups' -l export -d 'Show it as CSV, for --from-file.'
complete -c kt -n '__kt_at share-groups' -l timeout -d 'How long each request may take, in ms.' -x
complete -c kt -n '__kt_at share-groups' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at share-groups' -l undo-file -d 'With --execute, --delete and --delete-offsets: save the previous offsets in this file first, for --reset-offsets --from-file.' -r -F
complete -c kt -n '__kt_at share-groups' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at share-groups' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at share-groups' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a transactions -d 'Show transactions and their producers, find those that hang, and end them.'
complete -c kt -n '__kt_at transactions' -a list -d 'List transactional ids.'
complete -c kt -n '__kt_at transactions' -a describe -d 'Show the state of a transactional id.'
complete -c kt -n '__kt_at transactions' -a describe-producers -d 'Show the active producers of a partition.'
complete -c kt -n '__kt_at transactions' -a abort -d 'Abort a transaction that hangs in a partition.'
complete -c kt -n '__kt_at transactions' -a find-hanging -d 'Find transactions that no coordinator will end. Exit status 3 when there are some.'
complete -c kt -n '__kt_at transactions' -a forceTerminateTransaction -d 'End what a transactional id has open, and fence its producer.'
complete -c kt -n '__kt_at transactions' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at transactions' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at transactions' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n '__kt_at transactions' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at transactions' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at transactions' -l duration-filter -d 'Only those running for more ms than this.' -x
complete -c kt -n '__kt_at transactions' -l transactional-id-pattern -d 'Only ids that match this (RE2 syntax).' -x
complete -c kt -n '__kt_at transactions' -l transactional-id -d 'The id.' -x
complete -c kt -n '__kt_at transactions' -l broker-id -d 'Look at the partitions of this broker.' -x
complete -c kt -n '__kt_at transactions' -l topic -d 'Look at this topic only.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at transactions' -l partition -d 'Look at this partition only.' -x
complete -c kt -n '__kt_at transactions' -l start-offset -d 'The offset at which it began.' -x
complete -c kt -n '__kt_at transactions' -l producer-id -d 'Its producer (brokers before 3.0).' -x
complete -c kt -n '__kt_at transactions' -l producer-epoch -d 'The producer\'s epoch.' -x
complete -c kt -n '__kt_at transactions' -l coordinator-epoch -d 'The coordinator\'s epoch.' -x
complete -c kt -n '__kt_at transactions' -l dry-run -d 'Say what would be ended, and end nothing.'
complete -c kt -n '__kt_at transactions' -l max-transaction-timeout -d 'How many minutes a transaction may last.' -x
complete -c kt -n '__kt_at transactions' -l transactionalId -d 'The id.' -x
complete -c kt -n "__kt_at ''" -a get-offsets -d 'Print offsets of partitions, by time.'
complete -c kt -n '__kt_at get-offsets' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at get-offsets' -l topic -d 'Topics: a regular expression for the whole name. Default: all.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at get-offsets' -l partitions -d 'Only these partitions, separated by commas.' -x
complete -c kt -n '__kt_at get-offsets' -l topic-partitions -d 'Topics and partitions: orders:1, orders:0-3 (3 not included), orders:2-, orders.*:0, :0; commas between.' -x
complete -c kt -n '__kt_at get-offsets' -l time -d 'Which offset: of the first record not older than a time (ms since 1970), or a word or its number: -1 latest, -2 earliest, -3 max-timestamp, -4 earliest-local, -5 latest-tiered, -6 earliest-pending-upload.' -x -a 'latest earliest max-timestamp earliest-local latest-tiered earliest-pending-upload'
complete -c kt -n '__kt_at get-offsets' -l exclude-internal-topics -d 'Leave out the topics of the brokers themselves.'
complete -c kt -n '__kt_at get-offsets' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at get-offsets' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at get-offsets' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at get-offsets' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a delete-records -d 'Delete the records of partitions that are older than an offset.'
complete -c kt -n '__kt_at delete-records' -l offset-json-file -d 'Partitions and the first offset to keep, -1 for the end: {"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}.' -r -F
complete -c kt -n '__kt_at delete-records' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at delete-records' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at delete-records' -l dry-run -d 'Say where partitions begin and would begin, and what brokers would refuse; delete nothing.'
complete -c kt -n '__kt_at delete-records' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at delete-records' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at delete-records' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a reassign-partitions -d 'Move replicas to other brokers or log directories.'
complete -c kt -n '__kt_at reassign-partitions' -a plan -d 'Make a reassignment that moves as little as it can: drain empties brokers, add gives new brokers their share, set-rf changes the replication factor, balance evens out replicas and preferred leaders. Nothing is changed.'
complete -c kt -n '__kt_at reassign-partitions' -a run -d 'Carry a reassignment out and stay with it: throttled, with progress, an undo file, and no throttle left behind.'
complete -c kt -n '__kt_at reassign-partitions' -l generate -d 'Propose new replicas for topics and print the present ones. Nothing is changed.'
complete -c kt -n '__kt_at reassign-partitions' -l execute -d 'Begin the moves of a plan.'
complete -c kt -n '__kt_at reassign-partitions' -l verify -d 'Tell how far a plan is; take the throttles away when nothing is being moved any more.'
complete -c kt -n '__kt_at reassign-partitions' -l cancel -d 'Stop the moves of a plan that are under way.'
complete -c kt -n '__kt_at reassign-partitions' -l list -d 'Print what is being moved.'
complete -c kt -n '__kt_at reassign-partitions' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at reassign-partitions' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at reassign-partitions' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at reassign-partitions' -l reassignment-json-file -d 'The reassignment, as plan or --generate write it; - reads standard input.' -r -F
complete -c kt -n '__kt_at reassign-partitions' -l topics-to-move-json-file -d 'With --generate: the topics, {"version": 1, "topics": [{"topic": "orders"}]}.' -r -F
complete -c kt -n '__kt_at reassign-partitions' -l broker-list -d 'With --generate: the brokers that may get replicas.' -x
complete -c kt -n '__kt_at reassign-partitions' -l disable-rack-aware -d 'Do not look at racks.'
complete -c kt -n '__kt_at reassign-partitions' -l throttle -d 'The limit to begin with: bytes per second of each broker (k, M, G).' -x
complete -c kt -n '__kt_at reassign-partitions' -l replica-alter-log-dirs-throttle -d 'With --execute: bytes per second that a broker may copy between its directories.' -x
complete -c kt -n '__kt_at reassign-partitions' -l additional -d 'With --execute: also when other moves are under way.'
complete -c kt -n '__kt_at reassign-partitions' -l disallow-replication-factor-change -d 'With --execute: refuse to change the number of replicas.'
complete -c kt -n '__kt_at reassign-partitions' -l preserve-throttles -d 'With --verify and --cancel: leave throttles as they are.'
complete -c kt -n '__kt_at reassign-partitions' -l timeout -d 'Stop waiting after so many seconds, exit status 1; what has begun goes on.' -x
complete -c kt -n '__kt_at reassign-partitions' -l undo-file -d 'Where to write the replicas from before. Default: a new file in this directory.' -r -F
complete -c kt -n '__kt_at reassign-partitions' -l dry-run -d 'Only show what would be moved.'
complete -c kt -n '__kt_at reassign-partitions' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at reassign-partitions' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at reassign-partitions' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n '__kt_at reassign-partitions' -l brokers -d 'drain: the brokers to empty. add: the new brokers. set-rf: who may get new replicas, balance: between whom (default: all live brokers).' -x
complete -c kt -n '__kt_at reassign-partitions' -l topics -d 'Only topics that this regular expression matches.' -x
complete -c kt -n '__kt_at reassign-partitions' -l replication-factor -d 'With set-rf: how many replicas.' -x
complete -c kt -n '__kt_at reassign-partitions' -l out -d 'Write the reassignment to this file, and the tables to stdout. Without it the reassignment goes to stdout and the tables to stderr.' -r -F
complete -c kt -n '__kt_at reassign-partitions' -l min-throttle -d 'The limit does not fall below this.' -x
complete -c kt -n '__kt_at reassign-partitions' -l max-throttle -d 'The limit does not grow beyond this. Default: four times --throttle.' -x
complete -c kt -n '__kt_at reassign-partitions' -l no-throttle -d 'No limit.'
complete -c kt -n '__kt_at reassign-partitions' -l batch-size -d 'At most so many partitions move at the same time.' -x
complete -c kt -n '__kt_at reassign-partitions' -l interval -d 'Seconds between two looks.' -x
complete -c kt -n '__kt_at reassign-partitions' -l cancel-on-interrupt -d 'Ctrl-C and SIGTERM cancel what is moving. Default: it goes on.'
complete -c kt -n '__kt_at reassign-partitions' -l clear-throttles -d 'Also take away throttles that were set on the same brokers and topics before. Default: put back.'
complete -c kt -n '__kt_at reassign-partitions' -l no-undo-file -d 'Write no undo file.'
complete -c kt -n "__kt_at ''" -a log-dirs -d 'Show what is in the log directories of brokers: sizes and lags of replicas.'
complete -c kt -n '__kt_at log-dirs' -l describe -d 'Show the log directories.'
complete -c kt -n '__kt_at log-dirs' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at log-dirs' -l topic-list -d 'Only these topics. Default: all.' -x
complete -c kt -n '__kt_at log-dirs' -l broker-list -d 'Only these brokers. Default: all.' -x
complete -c kt -n '__kt_at log-dirs' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at log-dirs' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at log-dirs' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at log-dirs' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a replica-verification -d 'Compare the replicas of partitions.'
complete -c kt -n '__kt_at replica-verification' -l bootstrap-server -d 'Brokers to start from. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at replica-verification' -l topics-include -d 'The topics: a regular expression.' -x
complete -c kt -n '__kt_at replica-verification' -l time -d 'Where to begin: -1 the end, -2 the start, or the first record at or after a timestamp in ms. With --exit-at-end the start, unless it is given.' -x
complete -c kt -n '__kt_at replica-verification' -l fetch-size -d 'How much of a partition a fetch asks for.' -x
complete -c kt -n '__kt_at replica-verification' -l max-wait-ms -d 'How long a fetch waits for records.' -x
complete -c kt -n '__kt_at replica-verification' -l report-interval-ms -d 'Time between two reports.' -x
complete -c kt -n '__kt_at replica-verification' -l exit-at-end -d 'End where the partitions ended when it began.'
complete -c kt -n '__kt_at replica-verification' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at replica-verification' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at replica-verification' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at replica-verification' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a leader-election -d 'Elect leaders of partitions: the preferred ones, or any that is alive.'
complete -c kt -n '__kt_at leader-election' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at leader-election' -l election-type -d 'preferred: the first replica, where it is in sync; unclean: any live one, records may be lost.' -x -a 'preferred unclean'
complete -c kt -n '__kt_at leader-election' -l topic -d 'The topic of the partition.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at leader-election' -l partition -d 'The partition of --topic.' -x
complete -c kt -n '__kt_at leader-election' -l all-topic-partitions -d 'All partitions of all topics.'
complete -c kt -n '__kt_at leader-election' -l path-to-json-file -d 'A file with partitions: {"partitions": [{"topic": "orders", "partition": 0}]}.' -r -F
complete -c kt -n '__kt_at leader-election' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at leader-election' -l dry-run -d 'Say which partitions would get which leader, and elect nobody.'
complete -c kt -n '__kt_at leader-election' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at leader-election' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at leader-election' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a cluster -d 'Show the cluster\'s id and nodes, or forget a broker that is gone for good.'
complete -c kt -n '__kt_at cluster' -a cluster-id -d 'Print the cluster\'s id.'
complete -c kt -n '__kt_at cluster' -a unregister -d 'Forget a broker.'
complete -c kt -n '__kt_at cluster' -a list-endpoints -d 'List the brokers or, through a controller, the controllers.'
complete -c kt -n '__kt_at cluster' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at cluster' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at cluster' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at cluster' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at cluster' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at cluster' -l id -d 'The broker.' -x
complete -c kt -n '__kt_at cluster' -l dry-run -d 'Say whether there is such a broker, and forget nothing.'
complete -c kt -n '__kt_at cluster' -l include-fenced-brokers -d 'Also brokers that are registered but not alive.'
complete -c kt -n "__kt_at ''" -a broker-api-versions -d 'Show which versions of which APIs the brokers serve.'
complete -c kt -n '__kt_at broker-api-versions' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at broker-api-versions' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at broker-api-versions' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at broker-api-versions' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at broker-api-versions' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a metadata-quorum -d 'Show the quorum of controllers, or change its voters.'
complete -c kt -n '__kt_at metadata-quorum' -a describe -d 'Show the quorum\'s state.'
complete -c kt -n '__kt_at metadata-quorum' -a add-controller -d 'Make a controller a voter.'
complete -c kt -n '__kt_at metadata-quorum' -a remove-controller -d 'Make a voter an observer.'
complete -c kt -n '__kt_at metadata-quorum' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at metadata-quorum' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at metadata-quorum' -l command-config -d 'Properties file with settings of the client; for add-controller that of the controller.' -r -F
complete -c kt -n '__kt_at metadata-quorum' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at metadata-quorum' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at metadata-quorum' -l status -d 'Show leader, epoch, high watermark, voters and observers.'
complete -c kt -n '__kt_at metadata-quorum' -l replication -d 'Show how far each voter and observer is.'
complete -c kt -n '__kt_at metadata-quorum' -l human-readable -d 'With --replication: times relative to now.'
complete -c kt -n '__kt_at metadata-quorum' -l dry-run -d 'Say what would be done, and do nothing.'
complete -c kt -n '__kt_at metadata-quorum' -l controller-id -d 'The controller.' -x
complete -c kt -n '__kt_at metadata-quorum' -l controller-directory-id -d 'The id of its metadata directory.' -x
complete -c kt -n "__kt_at ''" -a features -d 'Show or change feature levels of the cluster.'
complete -c kt -n '__kt_at features' -a describe -d 'Show the features and their levels.'
complete -c kt -n '__kt_at features' -a upgrade -d 'Raise levels.'
complete -c kt -n '__kt_at features' -a downgrade -d 'Lower levels.'
complete -c kt -n '__kt_at features' -a disable -d 'Turn features off.'
complete -c kt -n '__kt_at features' -a version-mapping -d 'Show the levels of a release.'
complete -c kt -n '__kt_at features' -a feature-dependencies -d 'Show what levels need.'
complete -c kt -n '__kt_at features' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at features' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at features' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at features' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at features' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at features' -l node-id -d 'Ask this node. Default: any.' -x
complete -c kt -n '__kt_at features' -l release-version -d 'The levels of a release of Apache Kafka, such as 4.0.' -x
complete -c kt -n '__kt_at features' -l feature -d 'A feature and its level.' -x
complete -c kt -n '__kt_at features' -l dry-run -d 'Say what would be done, and change nothing.'
complete -c kt -n '__kt_at features' -l unsafe -d 'Also when metadata may be lost.'
complete -c kt -n "__kt_at ''" -a dump-log -d 'Show what is in log segments, indexes and snapshots, sound or damaged.'
complete -c kt -n '__kt_at dump-log' -l files -d 'Segments, indexes, snapshots or directories of them, separated by commas.' -x
complete -c kt -n '__kt_at dump-log' -l print-data-log -d 'Show keys and values too; every decoder option implies it.'
complete -c kt -n '__kt_at dump-log' -l deep-iteration -d 'Show every record, not only every batch; --print-data-log implies it.'
complete -c kt -n '__kt_at dump-log' -l skip-record-metadata -d 'Show keys and values only.'
complete -c kt -n '__kt_at dump-log' -l max-bytes -d 'Read no more than this of a log.' -x
complete -c kt -n '__kt_at dump-log' -l verify-index-only -d 'Compare indexes with their log, do not show them.'
complete -c kt -n '__kt_at dump-log' -l index-sanity-check -d 'Only the check a broker makes at its start, to know whether to rebuild an index.'
complete -c kt -n '__kt_at dump-log' -l max-message-size -d 'How far to look for a batch behind an index entry.' -x
complete -c kt -n '__kt_at dump-log' -l offsets-decoder -d 'Show records of __consumer_offsets.'
complete -c kt -n '__kt_at dump-log' -l transaction-log-decoder -d 'Show records of __transaction_state.'
complete -c kt -n '__kt_at dump-log' -l cluster-metadata-decoder -d 'Show records of __cluster_metadata and its snapshots.'
complete -c kt -n '__kt_at dump-log' -l remote-log-metadata-decoder -d 'Show records of __remote_log_metadata.'
complete -c kt -n '__kt_at dump-log' -l share-group-state-decoder -d 'Show records of __share_group_state.'
complete -c kt -n '__kt_at dump-log' -l key-decoder-class -d 'How to show keys: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder (base64).' -x
complete -c kt -n '__kt_at dump-log' -l value-decoder-class -d 'How to show values, as with --key-decoder-class.' -x
complete -c kt -n '__kt_at dump-log' -l stop-at-damage -d 'End where Kafka\'s tool would end with an exception.'
complete -c kt -n '__kt_at dump-log' -l salvage -d 'Also show batches behind what Kafka takes for the end of a damaged log.'
complete -c kt -n '__kt_at dump-log' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at dump-log' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at dump-log' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a producer-perf-test -d 'Measure how fast records can be sent.'
complete -c kt -n '__kt_at producer-perf-test' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at producer-perf-test' -l topic -d 'The topic that gets the records.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at producer-perf-test' -l num-records -d 'How many records to send.' -x
complete -c kt -n '__kt_at producer-perf-test' -l payload-delimiter -d 'What separates the values in the payload file: a regular expression.' -x
complete -c kt -n '__kt_at producer-perf-test' -l throughput -d 'Send at most so many records a second; -1: no limit.' -x
complete -c kt -n '__kt_at producer-perf-test' -l command-property -d 'Settings of the producer.' -x
complete -c kt -n '__kt_at producer-perf-test' -l command-config -d 'Properties file with settings of the producer.' -r -F
complete -c kt -n '__kt_at producer-perf-test' -l print-metrics -d 'Print the producer\'s metrics at the end.'
complete -c kt -n '__kt_at producer-perf-test' -l transactional-id -d 'Send in transactions of this id.' -x
complete -c kt -n '__kt_at producer-perf-test' -l transaction-duration-ms -d 'Send in transactions and commit each after so long (default 3000).' -x
complete -c kt -n '__kt_at producer-perf-test' -l warmup-records -d 'Leave so many records out of a second summary, of the steady state.' -x
complete -c kt -n '__kt_at producer-perf-test' -l reporting-interval -d 'Time between lines of progress.' -x
complete -c kt -n '__kt_at producer-perf-test' -l record-size -d 'Send values of so many random letters.' -x
complete -c kt -n '__kt_at producer-perf-test' -l payload-file -d 'Send values drawn from this file.' -r -F
complete -c kt -n '__kt_at producer-perf-test' -l payload-monotonic -d 'Send the numbers 0, 1, 2 and so on.'
complete -c kt -n '__kt_at producer-perf-test' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at producer-perf-test' -l help -d 'Show this text and stop.'
complete -c kt -n "__kt_at ''" -a consumer-perf-test -d 'Measure how fast records can be read.'
complete -c kt -n '__kt_at consumer-perf-test' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at consumer-perf-test' -l command-config -d 'Properties file with settings of the consumer.' -r -F
complete -c kt -n '__kt_at consumer-perf-test' -l command-property -d 'Setting of the consumer.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l date-format -d 'Pattern of times, as Java\'s SimpleDateFormat takes it.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l fetch-size -d 'Most bytes of a partition in one answer.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l from-latest -d 'Start at the end where the group has committed nothing.'
complete -c kt -n '__kt_at consumer-perf-test' -l group -d 'The group to read as (default: a new one).' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at consumer-perf-test' -l hide-header -d 'Leave out the line with the names of the columns.'
complete -c kt -n '__kt_at consumer-perf-test' -l include -d 'Read the topics whose name matches.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l num-records -d 'How many records to read.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l print-metrics -d 'Print the consumer\'s metrics at the end.'
complete -c kt -n '__kt_at consumer-perf-test' -l reporting-interval -d 'Time between detailed lines.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l show-detailed-stats -d 'A line for each interval, and not one for all.'
complete -c kt -n '__kt_at consumer-perf-test' -l socket-buffer-size -d 'TCP receive buffer in bytes.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l timeout -d 'Stop when nothing arrives for so long.' -x
complete -c kt -n '__kt_at consumer-perf-test' -l topic -d 'The topic to read.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at consumer-perf-test' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at consumer-perf-test' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at consumer-perf-test' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a e2e-latency -d 'Measure how long a record takes from send to poll.'
complete -c kt -n '__kt_at e2e-latency' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at e2e-latency' -l topic -d 'The topic for the round trips; made when there is none.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at e2e-latency' -l num-records -d 'How many round trips.' -x
complete -c kt -n '__kt_at e2e-latency' -l producer-acks -d 'Who must have a record: 1 or all.' -x -a '1 all'
complete -c kt -n '__kt_at e2e-latency' -l record-size -d 'Size of the values in bytes.' -x
complete -c kt -n '__kt_at e2e-latency' -l command-config -d 'Properties file with settings of the clients.' -r -F
complete -c kt -n '__kt_at e2e-latency' -l record-key-size -d 'Size of the keys; 0: no keys.' -x
complete -c kt -n '__kt_at e2e-latency' -l num-headers -d 'Headers of each record.' -x
complete -c kt -n '__kt_at e2e-latency' -l record-header-key-size -d 'Size of the headers\' names.' -x
complete -c kt -n '__kt_at e2e-latency' -l record-header-size -d 'Size of the headers\' values; -1: null.' -x
complete -c kt -n '__kt_at e2e-latency' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at e2e-latency' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at e2e-latency' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a verifiable-producer -d 'Send rising numbers and print the fate of each as JSON.'
complete -c kt -n '__kt_at verifiable-producer' -l topic -d 'The topic that gets the records.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at verifiable-producer' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at verifiable-producer' -l max-messages -d 'Send so many records; -1: until stopped.' -x
complete -c kt -n '__kt_at verifiable-producer' -l throughput -d 'Send at most so many a second; -1: no limit.' -x
complete -c kt -n '__kt_at verifiable-producer' -l acks -d 'Who must have a record: 0 nobody, 1 the leader, -1 (default) all replicas in sync.' -x -a '0 1 -1'
complete -c kt -n '__kt_at verifiable-producer' -l command-config -d 'Properties file with settings of the producer; what an option says wins.' -r -F
complete -c kt -n '__kt_at verifiable-producer' -l message-create-time -d 'Timestamp of the first record in ms; those behind it count from there.' -x
complete -c kt -n '__kt_at verifiable-producer' -l value-prefix -d 'A number to stand in front of each value, with a dot.' -x
complete -c kt -n '__kt_at verifiable-producer' -l repeating-keys -d 'Keys 0, 1, ... below this number, again and again.' -x
complete -c kt -n '__kt_at verifiable-producer' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at verifiable-producer' -l help -d 'Show this text and stop.'
complete -c kt -n "__kt_at ''" -a verifiable-consumer -d 'Read a topic in a group and print each event as JSON.'
complete -c kt -n '__kt_at verifiable-consumer' -l topic -d 'The topic to read.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at verifiable-consumer' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at verifiable-consumer' -l group-protocol -d 'How the group is coordinated: classic or consumer.' -x -a 'classic consumer'
complete -c kt -n '__kt_at verifiable-consumer' -l group-remote-assignor -d 'The broker\'s assignor, with the consumer protocol.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l group-id -d 'The group.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l group-instance-id -d 'A lasting name of this member.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l max-messages -d 'Read so many records; -1: until stopped.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l session-timeout -d 'session.timeout.ms, with the classic protocol.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l verbose -d 'Tell of each record.'
complete -c kt -n '__kt_at verifiable-consumer' -l enable-autocommit -d 'Commit in the background, and not after each poll.'
complete -c kt -n '__kt_at verifiable-consumer' -l reset-policy -d 'Where to start without a committed offset: earliest, latest or none.' -x -a 'earliest latest none'
complete -c kt -n '__kt_at verifiable-consumer' -l assignment-strategy -d 'The assignor, with the classic protocol.' -x
complete -c kt -n '__kt_at verifiable-consumer' -l command-config -d 'Properties file with settings of the consumer; what an option says wins.' -r -F
complete -c kt -n '__kt_at verifiable-consumer' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at verifiable-consumer' -l help -d 'Show this text and stop.'
complete -c kt -n "__kt_at ''" -a configs -d 'Show or change settings of topics, brokers, clients, users and groups.'
complete -c kt -n '__kt_at configs' -l describe -d 'Show settings.'
complete -c kt -n '__kt_at configs' -l alter -d 'Change settings.'
complete -c kt -n '__kt_at configs' -l from-file -d 'Bring settings to what a file says, as --undo-file writes it.' -r -F
complete -c kt -n '__kt_at configs' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at configs' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at configs' -l entity-type -d 'What the settings belong to; users and clients may be given together.' -x -a 'topics clients users brokers ips client-metrics groups broker-loggers'
complete -c kt -n '__kt_at configs' -l entity-name -d 'Its name. With --describe and without a name: all of the type.' -x
complete -c kt -n '__kt_at configs' -l entity-default -d 'The default for all users, clients, brokers or addresses instead of a name.'
complete -c kt -n '__kt_at configs' -l topic -d 'In short for --entity-type topics --entity-name NAME.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at configs' -l client -d 'In short for a client id.' -x
complete -c kt -n '__kt_at configs' -l client-defaults -d 'In short for the default of all client ids.'
complete -c kt -n '__kt_at configs' -l user -d 'In short for a user.' -x
complete -c kt -n '__kt_at configs' -l user-defaults -d 'In short for the default of all users.'
complete -c kt -n '__kt_at configs' -l broker -d 'In short for a broker.' -x
complete -c kt -n '__kt_at configs' -l broker-defaults -d 'In short for the default of all brokers.'
complete -c kt -n '__kt_at configs' -l broker-logger -d 'In short for the log levels of a broker.' -x
complete -c kt -n '__kt_at configs' -l ip -d 'In short for an address.' -x
complete -c kt -n '__kt_at configs' -l ip-defaults -d 'In short for the default of all addresses.'
complete -c kt -n '__kt_at configs' -l client-metrics -d 'In short for a client metrics subscription.' -x
complete -c kt -n '__kt_at configs' -l group -d 'In short for a group.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at configs' -l all -d 'With --describe: also settings that the entity does not have of its own.'
complete -c kt -n '__kt_at configs' -l add-config -d 'What to set, also with units: retention.ms=7d; brackets around values with commas: cleanup.policy=[compact,delete]. A credential: SCRAM-SHA-256=[iterations=8192,password=...].' -x
complete -c kt -n '__kt_at configs' -l add-config-file -d 'A properties file with what to set.' -r -F
complete -c kt -n '__kt_at configs' -l delete-config -d 'What to remove, so that the default holds again.' -x
complete -c kt -n '__kt_at configs' -l dry-run -d 'Say which settings would really change, and change nothing.'
complete -c kt -n '__kt_at configs' -l undo-file -d 'Write what takes the changes back to this file first; --from-file reads it. Not for SCRAM credentials.' -r -F
complete -c kt -n '__kt_at configs' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at configs' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at configs' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at configs' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a acls -d 'Show, add and remove ACLs: who may do what.'
complete -c kt -n '__kt_at acls' -l list -d 'Show the ACLs of the resources named, or all.'
complete -c kt -n '__kt_at acls' -l add -d 'Add ACLs: for the resources named, what the principals are allowed or denied.'
complete -c kt -n '__kt_at acls' -l remove -d 'Remove ACLs of the resources named; all of them when no principal is named.'
complete -c kt -n '__kt_at acls' -l from-file -d 'Carry out the changes of a file, as --undo-file writes it.' -r -F
complete -c kt -n '__kt_at acls' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at acls' -l bootstrap-controller -d 'Controllers to start from, instead of brokers.' -x
complete -c kt -n '__kt_at acls' -l topic -d 'A topic, * for all.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at acls' -l group -d 'A group, * for all.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at acls' -l cluster -d 'The cluster itself.'
complete -c kt -n '__kt_at acls' -l transactional-id -d 'A transactional id, * for all.' -x
complete -c kt -n '__kt_at acls' -l delegation-token -d 'A delegation token, * for all.' -x
complete -c kt -n '__kt_at acls' -l user-principal -d 'A principal as a resource, as for CreateTokens.' -x
complete -c kt -n '__kt_at acls' -l resource-pattern-type -d 'What the names are: literal or prefixed; to list and remove also any (either of them) and match (all that cover a resource of this name).' -x -a 'any match literal prefixed'
complete -c kt -n '__kt_at acls' -l operation -d 'An operation, such as Read or DescribeConfigs; All when left out.' -x
complete -c kt -n '__kt_at acls' -l allow-principal -d 'A principal that is allowed, User:* for everybody.' -x
complete -c kt -n '__kt_at acls' -l deny-principal -d 'A principal that is denied, whatever else it is allowed.' -x
complete -c kt -n '__kt_at acls' -l allow-host -d 'A host from which it is allowed; all when left out.' -x
complete -c kt -n '__kt_at acls' -l deny-host -d 'A host from which it is denied; all when left out.' -x
complete -c kt -n '__kt_at acls' -l producer -d 'What a producer needs: Write, Describe and Create on topics, and transactional ids.'
complete -c kt -n '__kt_at acls' -l idempotent -d 'With --producer: also IdempotentWrite on the cluster.'
complete -c kt -n '__kt_at acls' -l consumer -d 'What a consumer needs: Read and Describe on topics, Read on groups.'
complete -c kt -n '__kt_at acls' -l principal -d 'With --list: only ACLs of this principal.' -x
complete -c kt -n '__kt_at acls' -l force -d 'Remove without asking.'
complete -c kt -n '__kt_at acls' -l undo-file -d 'Write what takes the changes back to this file first; --from-file reads it.' -r -F
complete -c kt -n '__kt_at acls' -l dry-run -d 'Say which ACLs would be added or removed, and change nothing.'
complete -c kt -n '__kt_at acls' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at acls' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at acls' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at acls' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a delegation-tokens -d 'Create, renew, expire and describe delegation tokens.'
complete -c kt -n '__kt_at delegation-tokens' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at delegation-tokens' -l command-config -d 'Properties file with settings of the client: brokers give tokens to authenticated users only.' -r -F
complete -c kt -n '__kt_at delegation-tokens' -l create -d 'Create a token.'
complete -c kt -n '__kt_at delegation-tokens' -l renew -d 'Put off when a token expires.'
complete -c kt -n '__kt_at delegation-tokens' -l expire -d 'Say when a token expires.'
complete -c kt -n '__kt_at delegation-tokens' -l describe -d 'Show tokens: those that this user may see, or only some owners\'.'
complete -c kt -n '__kt_at delegation-tokens' -l owner-principal -d 'The owner. With --create: another one than this user.' -x
complete -c kt -n '__kt_at delegation-tokens' -l renewer-principal -d 'With --create: who else may renew the token.' -x
complete -c kt -n '__kt_at delegation-tokens' -l max-life-time-period -d 'With --create: for how long it can be renewed, in ms; -1: as the broker says.' -x
complete -c kt -n '__kt_at delegation-tokens' -l renew-time-period -d 'With --renew: for how long, in ms; -1: as the broker says.' -x
complete -c kt -n '__kt_at delegation-tokens' -l expiry-time-period -d 'With --expire: in how long, in ms; -1: at once.' -x
complete -c kt -n '__kt_at delegation-tokens' -l hmac -d 'The HMAC of the token, in base64.' -x
complete -c kt -n '__kt_at delegation-tokens' -l hmac-file -d 'A file that holds it: other users see command lines.' -r -F
complete -c kt -n '__kt_at delegation-tokens' -l dry-run -d 'With --create, --renew, --expire: say what would happen, and change nothing.'
complete -c kt -n '__kt_at delegation-tokens' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at delegation-tokens' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at delegation-tokens' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a storage -d 'Format the log directories of a server, and look at formatted ones.'
complete -c kt -n '__kt_at storage' -a info -d 'Show the log directories of a server.'
complete -c kt -n '__kt_at storage' -a format -d 'Format the log directories of a server, so that Apache Kafka or kt server-start can start on them.'
complete -c kt -n '__kt_at storage' -a version-mapping -d 'Show the feature levels of a release.'
complete -c kt -n '__kt_at storage' -a feature-dependencies -d 'Show what feature levels need.'
complete -c kt -n '__kt_at storage' -a random-uuid -d 'Print a new id for a cluster.'
complete -c kt -n '__kt_at storage' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at storage' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at storage' -l config -d 'Properties file of the server.' -r -F
complete -c kt -n '__kt_at storage' -l cluster-id -d 'Id of the cluster.' -x
complete -c kt -n '__kt_at storage' -l add-scram -d 'A SCRAM user to start with: SCRAM-SHA-256=[name=alice,password=secret].' -x
complete -c kt -n '__kt_at storage' -l ignore-formatted -d 'Leave directories alone that are formatted already.'
complete -c kt -n '__kt_at storage' -l release-version -d 'Release of Apache Kafka whose feature levels to use.' -x
complete -c kt -n '__kt_at storage' -l feature -d 'Level of one feature.' -x
complete -c kt -n '__kt_at storage' -l standalone -d 'A quorum of this controller alone, to which others can be added.'
complete -c kt -n '__kt_at storage' -l no-initial-controllers -d 'Write no controllers: this server joins a quorum that exists.'
complete -c kt -n '__kt_at storage' -l initial-controllers -d 'The controllers of the quorum, the same on each of them.' -x
complete -c kt -n '__kt_at storage' -l dry-run -d 'Say which directories would be formatted, and write nothing.'
complete -c kt -n "__kt_at ''" -a pipeline -d 'Run records from topics or log files through Spark SQL into any sink.'
complete -c kt -n '__kt_at pipeline' -a run -d 'Read a source, make rows of it by SQL or a function, write them to a sink.'
complete -c kt -n '__kt_at pipeline' -a verify -d 'Check that the sources and the sink of a run are still what its manifest says.'
complete -c kt -n '__kt_at pipeline' -a export -d 'Write records to Parquet, JSON or CSV files. Run again, it adds what came since, or goes on where it was killed.'
complete -c kt -n '__kt_at pipeline' -a count -d 'Count records. Of files exactly, from the headers of their batches; of a topic by its offsets, unless --exact.'
complete -c kt -n '__kt_at pipeline' -a top-keys -d 'Show the keys with most records, and measure how unevenly records are spread over keys and partitions.'
complete -c kt -n '__kt_at pipeline' -a diff -d 'Compare two sources of records: topics, clusters, log directories. Exit status 3 when they differ.'
complete -c kt -n '__kt_at pipeline' -a check -d 'Check log directories: every batch, its indexes, snapshots, epochs and transactions. A table of what is wrong.'
complete -c kt -n '__kt_at pipeline' -a replay -d 'Send records once more: from a dead-letter topic to where they came from, or from anywhere to one topic.'
complete -c kt -n '__kt_at pipeline' -a retention-forecast -d 'Predict which retention rule deletes each segment, and when. Settings come from the options, or from the topics of --bootstrap-server.'
complete -c kt -n '__kt_at pipeline' -a compact-forecast -d 'Predict how much of each segment of compacted topics the cleaner would remove now.'
complete -c kt -n '__kt_at pipeline' -a profile -d 'Write a page with charts: sizes, rates over time, keys, lag of groups, compression, batches, order of timestamps.'
complete -c kt -n '__kt_at pipeline' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at pipeline' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at pipeline' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n '__kt_at pipeline' -l from -d 'The source: topic:NAME[,NAME], log:PATH (a segment, a partition\'s directory, a log directory), parquet:PATH, json:PATH, csv:PATH, delta:PATH, iceberg:TABLE. In SQL it is the table `input`.' -x
complete -c kt -n '__kt_at pipeline' -l sql -d 'The query that makes the sink\'s rows of the table `input`.' -x
complete -c kt -n '__kt_at pipeline' -l sql-file -d 'The same, from a file.' -r -F
complete -c kt -n '__kt_at pipeline' -l transform -d 'Instead of SQL: a function that makes a DataFrame of a DataFrame; modules of the working directory are found.' -x
complete -c kt -n '__kt_at pipeline' -l to -d 'The topic to write to. Default: each record\'s own, as a header names it.' -x
complete -c kt -n '__kt_at pipeline' -l mode -d 'What to do with a sink that holds something.' -x -a 'append overwrite error ignore'
complete -c kt -n '__kt_at pipeline' -l value -d 'How to decode values of records.' -x -a 'binary string json avro protobuf'
complete -c kt -n '__kt_at pipeline' -l key -d 'How to decode keys.' -x -a 'binary string json avro protobuf'
complete -c kt -n '__kt_at pipeline' -l value-schema -d 'With --value json, avro, protobuf: a schema file (for JSON Spark\'s, as DDL or JSON; for Avro .avsc; for Protobuf .proto or a descriptor set).' -r -F
complete -c kt -n '__kt_at pipeline' -l key-schema -d 'The same for keys.' -r -F
complete -c kt -n '__kt_at pipeline' -l value-message -d 'With --value protobuf: the message. Default: the first of the file.' -x
complete -c kt -n '__kt_at pipeline' -l key-message -d 'The same for keys.' -x
complete -c kt -n '__kt_at pipeline' -l schema-registry -d 'Where Avro and Protobuf schemas are (Confluent\'s API); USER:PASSWORD@ may stand in front of the host, or be basic.auth.user.info in the file of --command-config.' -x
complete -c kt -n '__kt_at pipeline' -l stream -d 'Go on with what comes; needs --checkpoint.'
complete -c kt -n '__kt_at pipeline' -l checkpoint -d 'With --stream: the directory where it writes how far it is.' -x
complete -c kt -n '__kt_at pipeline' -l trigger -d 'With --stream: available-now (what is there now, then end), or seconds between two rounds. Default: one round after the other.' -x
complete -c kt -n '__kt_at pipeline' -l from-option -d 'An option of the source, as Spark knows it.' -x
complete -c kt -n '__kt_at pipeline' -l to-option -d 'An option of the files, as Spark knows it.' -x
complete -c kt -n '__kt_at pipeline' -l partition-by -d 'Directories by date (of the timestamp, UTC), by topic, by both with a comma between, or none.' -x
complete -c kt -n '__kt_at pipeline' -l manifest -d 'Write here at the end what was read and written.' -r -F
complete -c kt -n '__kt_at pipeline' -l resume -d 'With --manifest: skip what it says is done, and finish what was interrupted.'
complete -c kt -n '__kt_at pipeline' -l strict -d 'Fail on the first damaged batch and on the first value that cannot be decoded.'
complete -c kt -n '__kt_at pipeline' -l report-path -d 'A directory that this machine and all executors write to, for counts. Default: a temporary one here.' -x
complete -c kt -n '__kt_at pipeline' -l master -d 'Where Spark runs: local[N] (N cores of this machine), spark://HOST:PORT, yarn, k8s://..., or sc://HOST (Connect). Default: local[*].' -x
complete -c kt -n '__kt_at pipeline' -l conf -d 'A setting of Spark, as for spark-submit.' -x
complete -c kt -n '__kt_at pipeline' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at pipeline' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at pipeline' -l to-bootstrap-server -d 'The cluster to write to when it is another.' -x
complete -c kt -n '__kt_at pipeline' -l to-command-config -d 'Settings for that cluster.' -r -F
complete -c kt -n '__kt_at pipeline' -l where -d 'Only records for which this SQL is true.' -x
complete -c kt -n '__kt_at pipeline' -l text -d 'Keys and values as text; those that are not UTF-8 as base64 beside. CSV always does.'
complete -c kt -n '__kt_at pipeline' -l no-headers -d 'Leave headers out.'
complete -c kt -n '__kt_at pipeline' -l round -d 'How many offsets to write before they count as done.' -x
complete -c kt -n '__kt_at pipeline' -l exact -d 'Count records, aborted and open ones, and by their keys tombstones, distinct and live keys: all records of a topic are read, of files the keys. `basis` says what the number of records is from.'
complete -c kt -n '__kt_at pipeline' -l no-keys -d 'Do not read keys: a log is then profiled from its headers alone.'
complete -c kt -n '__kt_at pipeline' -l top -d 'How many keys to show.' -x
complete -c kt -n '__kt_at pipeline' -l by -d 'key: the latest value of each key, a tombstone is as good as none; offset: record by record; multiset: how often each record is there, wherever it is.' -x -a 'key offset multiset'
complete -c kt -n '__kt_at pipeline' -l compare -d 'What of a record counts: some of key, value, timestamp, headers.' -x
complete -c kt -n '__kt_at pipeline' -l limit -d 'How many differences to show; all are counted.' -x
complete -c kt -n '__kt_at pipeline' -l right-bootstrap-server -d 'The cluster of the second topic when it is another.' -x
complete -c kt -n '__kt_at pipeline' -l right-command-config -d 'Settings for that cluster.' -r -F
complete -c kt -n '__kt_at pipeline' -l deep -d 'Read every record too, not only the checksums of their batches.'
complete -c kt -n '__kt_at pipeline' -l topic-header -d 'The header that names a record\'s own topic; the first one that a record has. Default: kafka_dlt-original-topic, __connect.errors.topic.' -x
complete -c kt -n '__kt_at pipeline' -l rate -d 'No more than so many records a second.' -x
complete -c kt -n '__kt_at pipeline' -l max-replays -d 'Leave records alone that were replayed so often; their header kt-replays counts.' -x
complete -c kt -n '__kt_at pipeline' -l allow-loop -d 'Records may go to a topic that is read.'
complete -c kt -n '__kt_at pipeline' -l keep-timestamps -d 'Records keep their timestamps instead of getting new ones.'
complete -c kt -n '__kt_at pipeline' -l dry-run -d 'Only say what would be sent where.'
complete -c kt -n '__kt_at pipeline' -l retention-ms -d 'As the topic\'s setting; -1: none.' -x
complete -c kt -n '__kt_at pipeline' -l retention-bytes -d 'As the topic\'s setting; -1: none.' -x
complete -c kt -n '__kt_at pipeline' -l min-cleanable-dirty-ratio -d 'As the topic\'s setting.' -x
complete -c kt -n '__kt_at pipeline' -l min-compaction-lag-ms -d 'As the topic\'s setting.' -x
complete -c kt -n '__kt_at pipeline' -l max-compaction-lag-ms -d 'As the topic\'s setting.' -x
complete -c kt -n '__kt_at pipeline' -l out -d 'The HTML file to write.' -r -F
complete -c kt -n "__kt_at ''" -a sandbox -d 'Start, look at and stop the broker that kt uses when no --bootstrap-server is given, or a cluster of several.'
complete -c kt -n '__kt_at sandbox' -a start -d 'Start it in the background.'
complete -c kt -n '__kt_at sandbox' -a status -d 'Say whether it runs, and where; of several nodes what each one does.'
complete -c kt -n '__kt_at sandbox' -a kill -d 'End a node at once, as kill -9 does.'
complete -c kt -n '__kt_at sandbox' -a pause -d 'Stop a node in the middle of what it does (SIGSTOP).'
complete -c kt -n '__kt_at sandbox' -a resume -d 'Let a paused node go on.'
complete -c kt -n '__kt_at sandbox' -a restart -d 'Stop a node cleanly and start it, or start one that is down.'
complete -c kt -n '__kt_at sandbox' -a wipe -d 'Remove the data of a node that is down, as a new disk would.'
complete -c kt -n '__kt_at sandbox' -a stop -d 'Stop it; the data stays. With a node: only that one, cleanly.'
complete -c kt -n '__kt_at sandbox' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at sandbox' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at sandbox' -l nodes -d 'How many nodes, 1 to 9, each a process that is broker and controller; several make a cluster with one quorum.' -x
complete -c kt -n '__kt_at sandbox' -l port -d 'Port to listen on; without it 29092, or a free one if that is taken. Of several nodes the first one listens there, each further one 10 ports up, and their controllers on the ports behind.' -x
complete -c kt -n '__kt_at sandbox' -l dir -d 'Directory of the data; without it one below KT_HOME.' -x
complete -c kt -n '__kt_at sandbox' -l rack -d 'Racks of the nodes in their order, separated by commas; fewer than nodes: again and again.' -x
complete -c kt -n '__kt_at sandbox' -l durability -d 'What an acknowledged record survives. none, as in Kafka: the end of the process, not a loss of power. fsync: a loss of power too; it is on the disk before acks=1 or all is answered, and before it is read.' -x -a 'none fsync'
complete -c kt -n '__kt_at sandbox' -l set -d 'A setting of the broker, or of all of them.' -x
complete -c kt -n '__kt_at sandbox' -l idle-minutes -d 'Minutes without a request after which it stops; 0: never.' -x
complete -c kt -n '__kt_at sandbox' -l stop -d 'Stop the node cleanly first if it runs.'
complete -c kt -n '__kt_at sandbox' -l yes -d 'Remove without asking.'
complete -c kt -n "__kt_at ''" -a server-start -d 'Run a broker in the foreground.'
complete -c kt -n '__kt_at server-start' -l override -d 'A setting that replaces that of the file.' -x
complete -c kt -n '__kt_at server-start' -l durability -d 'What an acknowledged record survives. none, as in Kafka: the end of the process, not a loss of power. fsync: a loss of power too; it is on the disk before acks=1 or all is answered, and before it is read.' -x -a 'none fsync'
complete -c kt -n '__kt_at server-start' -l insecure -d 'Listen on addresses that other machines can reach, without any protection.'
complete -c kt -n '__kt_at server-start' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at server-start' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at server-start' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a server-stop -d 'Stop brokers that kt server-start runs.'
complete -c kt -n '__kt_at server-stop' -l node-id -d 'Only the broker with this node id.' -x
complete -c kt -n '__kt_at server-stop' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at server-stop' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at server-stop' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a doctor -d 'Find out step by step whether and why a cluster cannot be reached.'
complete -c kt -n '__kt_at doctor' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at doctor' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at doctor' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at doctor' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at doctor' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a monitor -d 'Watch brokers, partitions, groups and rates of a cluster, live.'
complete -c kt -n '__kt_at monitor' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at monitor' -l command-config -d 'Properties file with settings of the client.' -r -F
complete -c kt -n '__kt_at monitor' -l interval -d 'Seconds between two looks, 2 by default.' -x
complete -c kt -n '__kt_at monitor' -l once -d 'Look once, show it, and end.'
complete -c kt -n '__kt_at monitor' -l topic -d 'Only this topic; may be given several times.' -x -a '(__kt_names --topics)'
complete -c kt -n '__kt_at monitor' -l group -d 'Only this group; may be given several times.' -x -a '(__kt_names --groups)'
complete -c kt -n '__kt_at monitor' -l regex -d '--topic and --group are regular expressions (Java\'s).'
complete -c kt -n '__kt_at monitor' -l view -d 'What is shown, with commas between: brokers, topics, partitions, groups, lag (of groups by topic), quorum, log-dirs, events, all. Without it: brokers, topics, groups, events, and unhealthy partitions.' -x -a 'brokers topics partitions groups lag quorum log-dirs events all'
complete -c kt -n '__kt_at monitor' -l fail-if -d 'End with exit status 3 when this holds, such as offline>0, under-replicated>0, under-min-isr>0, brokers<3, lag>1000 (of a group), or unwell (anything is wrong); may be given several times.' -x
complete -c kt -n '__kt_at monitor' -l web -d 'Serve a page at this address that shows it all.' -x
complete -c kt -n '__kt_at monitor' -l prometheus -d 'Serve /metrics for Prometheus at this address.' -x
complete -c kt -n '__kt_at monitor' -l insecure -d 'Serve at addresses that other machines can reach, without any protection.'
complete -c kt -n '__kt_at monitor' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at monitor' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at monitor' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a help-json -d 'Print the tree of commands and options as JSON.'
complete -c kt -n '__kt_at help-json' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at help-json' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at help-json' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a completion -d 'Print a completion script for bash, zsh or fish.'
complete -c kt -n '__kt_at completion' -l shell -d 'The shell to print the script for.' -x -a 'bash zsh fish'
complete -c kt -n '__kt_at completion' -l topics -d 'Print names of topics, for the scripts: from a cache or within 200 ms.'
complete -c kt -n '__kt_at completion' -l groups -d 'Print names of groups likewise.'
complete -c kt -n '__kt_at completion' -l profiles -d 'Print the names of the profiles.'
complete -c kt -n '__kt_at completion' -l bootstrap-server -d 'Brokers to start from, separated by commas. Without it the sandbox on this machine is used (and started).' -x
complete -c kt -n '__kt_at completion' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at completion' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at completion' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
complete -c kt -n "__kt_at ''" -a dump-log-segments -d 'Show what is in log segments, indexes and snapshots, sound or damaged.'
complete -c kt -n '__kt_at dump-log-segments' -l files -d 'Segments, indexes, snapshots or directories of them, separated by commas.' -x
complete -c kt -n '__kt_at dump-log-segments' -l print-data-log -d 'Show keys and values too; every decoder option implies it.'
complete -c kt -n '__kt_at dump-log-segments' -l deep-iteration -d 'Show every record, not only every batch; --print-data-log implies it.'
complete -c kt -n '__kt_at dump-log-segments' -l skip-record-metadata -d 'Show keys and values only.'
complete -c kt -n '__kt_at dump-log-segments' -l max-bytes -d 'Read no more than this of a log.' -x
complete -c kt -n '__kt_at dump-log-segments' -l verify-index-only -d 'Compare indexes with their log, do not show them.'
complete -c kt -n '__kt_at dump-log-segments' -l index-sanity-check -d 'Only the check a broker makes at its start, to know whether to rebuild an index.'
complete -c kt -n '__kt_at dump-log-segments' -l max-message-size -d 'How far to look for a batch behind an index entry.' -x
complete -c kt -n '__kt_at dump-log-segments' -l offsets-decoder -d 'Show records of __consumer_offsets.'
complete -c kt -n '__kt_at dump-log-segments' -l transaction-log-decoder -d 'Show records of __transaction_state.'
complete -c kt -n '__kt_at dump-log-segments' -l cluster-metadata-decoder -d 'Show records of __cluster_metadata and its snapshots.'
complete -c kt -n '__kt_at dump-log-segments' -l remote-log-metadata-decoder -d 'Show records of __remote_log_metadata.'
complete -c kt -n '__kt_at dump-log-segments' -l share-group-state-decoder -d 'Show records of __share_group_state.'
complete -c kt -n '__kt_at dump-log-segments' -l key-decoder-class -d 'How to show keys: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder (base64).' -x
complete -c kt -n '__kt_at dump-log-segments' -l value-decoder-class -d 'How to show values, as with --key-decoder-class.' -x
complete -c kt -n '__kt_at dump-log-segments' -l stop-at-damage -d 'End where Kafka\'s tool would end with an exception.'
complete -c kt -n '__kt_at dump-log-segments' -l salvage -d 'Also show batches behind what Kafka takes for the end of a damaged log.'
complete -c kt -n '__kt_at dump-log-segments' -l json -d 'Write JSON, one object a line; errors too.'
complete -c kt -n '__kt_at dump-log-segments' -l help -d 'Show this text and stop.'
complete -c kt -n '__kt_at dump-log-segments' -l version -d 'Show the version of Apache Kafka whose tool this is, and stop.'
