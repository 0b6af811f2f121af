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
        words_of=(@COMMANDS@ --profile --confirm --version --help)
    elif [[ $before == --topic ]]; then
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
            ;;
        esac
    fi
    compadd -- $words_of
}
compdef _kt kt
