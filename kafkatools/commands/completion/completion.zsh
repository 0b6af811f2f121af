#compdef kt
# zsh completion for kt; made by `kt completion --shell zsh`
_kt() {
    local command="" before="${words[CURRENT-1]}" at=2 i
    local -a words_of place where
    while ((at < CURRENT)); do
        case "${words[at]}" in
        --profile) place=(--profile "${words[at+1]}"); ((at += 2)) ;;
        --profile=*) place=("${words[at]}"); ((at += 1)) ;;
        --confirm=*) ((at += 1)) ;;
        --confirm) ((at += 2)) ;;
        *) command="${words[at]}"; break ;;
        esac
    done
    for ((i = at; i < CURRENT; i++)); do
        case "${words[i]}" in
        --bootstrap-server) where=(--bootstrap-server "${words[i+1]}") ;;
        --bootstrap-server=*) where=("${words[i]}") ;;
        esac
    done
    local kind=""
    if [[ ${words[CURRENT]} != -* ]]; then
        case "$command $before" in
@OPERANDS@
        esac
    fi
    if [[ ${words[CURRENT]} == topic:* ]]; then
        words_of=(topic:${^${(f)"$(kt $place completion --topics $where 2>/dev/null)"}})
    elif [[ ( $before == --profile && -z $command ) || $before == --to-profile ]]; then
        words_of=(${(f)"$(kt completion --profiles 2>/dev/null)"})
    elif [[ -n $kind ]]; then
        words_of=(${(f)"$(kt $place completion --$kind $where 2>/dev/null)"})
    elif [[ -z $command ]]; then
        words_of=(@COMMANDS@ --profile --confirm --version --help)
    elif [[ $before == --topic || $before == --topic-list ]]; then
        words_of=(${(f)"$(kt $place completion --topics $where 2>/dev/null)"})
    elif [[ $before == --group ]]; then
        words_of=(${(f)"$(kt $place completion --groups $where 2>/dev/null)"})
    else
        case "$command $before" in
@CHOICES@
        *" "--*config | *" "--*-file | *" --files" | *" -c")
            _files
            return
            ;;
        *)
            case "$command" in
@CASES@
            esac
            if [[ " @TOPIC_OPERANDS@ " == *" $command "* && ${words[CURRENT]} != -* ]]; then
                words_of=(${(f)"$(kt $place completion --topics $where 2>/dev/null)"})
            fi
            ;;
        esac
    fi
    if [[ ${words_of[-1]} == *= ]]; then
        compadd -S '' -- $words_of
    else
        compadd -- $words_of
    fi
}
_kt_script() {
    words=(kt ${${words[1]:t}#kafka-} ${words[2,-1]})
    words[2]=${words[2]%.sh}
    ((CURRENT++))
    _kt
}
compdef _kt kt
compdef _kt_script @SCRIPTS@
# A file of fpath is the function itself: its first call has to complete, too.
[[ ${funcstack[(r)_kt]} != _kt ]] || _kt "$@"
