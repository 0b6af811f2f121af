# fish completion for kt; made by `kt completion --shell fish`
function __kt_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l command
    while set -q words[1]; and test -z "$command"
        switch $words[1]
            case --profile --confirm
                set -q words[2]; and set -e words[1]
            case '--profile=*' '--confirm=*'
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
            case '--profile=*'
                set place $words[$i]
            case --bootstrap-server
                set where --bootstrap-server $words[(math $i + 1)]
            case '--bootstrap-server=*'
                set where $words[$i]
        end
    end
    kt $place completion $argv $where 2>/dev/null
end
complete -c kt -f
complete -c kt -n "__kt_at ''" -l profile -d 'The cluster to work on.' -x -a '(kt completion --profiles 2>/dev/null)'
complete -c kt -n "__kt_at ''" -l confirm -d 'The name of a protected cluster.' -x
complete -c kt -n "string match -q 'topic:*' -- (commandline -ct)" -a '(__kt_names --topics | string replace -r "^" topic:)'
