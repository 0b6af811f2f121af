# bash completion for kt; made by `kt completion --shell bash`
_kt() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" at=1 i words
    local -a place=() where=()
    while ((at < COMP_CWORD)); do
        case "${COMP_WORDS[at]}" in
        --profile) place=(--profile "${COMP_WORDS[at+1]}"); ((at += 2)) ;;
        --confirm) ((at += 2)) ;;
        *) command="${COMP_WORDS[at]}"; break ;;
        esac
    done
    for ((i = at; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == --bootstrap-server ]] && where=(--bootstrap-server "${COMP_WORDS[i+1]}")
    done
    if [[ $before == --profile && -z $command ]]; then
        words="$(kt completion --profiles 2>/dev/null)"
    elif [[ -z $command ]]; then
        words="@COMMANDS@ --profile --confirm --version --help"
    elif [[ $before == --topic ]]; then
        words="$(kt "${place[@]}" completion --topics "${where[@]}" 2>/dev/null)"
    elif [[ $before == --group ]]; then
        words="$(kt "${place[@]}" completion --groups "${where[@]}" 2>/dev/null)"
    else
        case "$command $before" in
@CHOICES@
        *" "--*config | *" "--*-file | *" --files" | *" -c")
            COMPREPLY=($(compgen -f -- "$word"))
            return
            ;;
        *)
            case "$command" in
@CASES@
            esac
            ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _kt kt
