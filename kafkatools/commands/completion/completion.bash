# bash completion for kt; made by `kt completion --shell bash`
_kt() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" at=1 words uri=""
    local -a place=() where=()
    # bash splits words at = and :, so --profile=prod and localhost:9092 are three words each
    while ((at < COMP_CWORD)); do
        command="${COMP_WORDS[at]}"
        [[ $command == --profile || $command == --confirm ]] || break
        [[ ${COMP_WORDS[at+1]} != = ]] || ((at += 1))
        [[ $command == --confirm ]] || place=(--profile "${COMP_WORDS[at+1]}")
        command=""
        ((at += 2))
    done
    [[ $COMP_LINE =~ \ --bootstrap-server[=\ ]+([^\ ]+)\  ]] && where=(--bootstrap-server "${BASH_REMATCH[1]}")
    if [[ $word == = && $before == --* ]]; then
        word=""
    elif [[ $before == = && ${COMP_WORDS[COMP_CWORD-2]} == --* ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    local kind=""
    if [[ $word != -* ]]; then
        case "$command $before" in
@OPERANDS@
        esac
    fi
    if [[ $word == : && $before == topic ]]; then
        uri=topic word=""
    elif [[ $before == : && ${COMP_WORDS[COMP_CWORD-2]} == topic ]]; then
        uri=topic
    fi
    if [[ -n $uri ]]; then
        words="$(kt "${place[@]}" completion --topics "${where[@]}" 2>/dev/null)"
    elif [[ ( $before == --profile && -z $command ) || $before == --to-profile ]]; then
        words="$(kt completion --profiles 2>/dev/null)"
    elif [[ -n $kind ]]; then
        words="$(kt "${place[@]}" completion --$kind "${where[@]}" 2>/dev/null)"
    elif [[ -z $command ]]; then
        words="@COMMANDS@ --profile --confirm --version --help"
    elif [[ $before == --topic || $before == --topic-list ]]; then
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
            if [[ " @TOPIC_OPERANDS@ " == *" $command "* && $word != -* ]]; then
                words="$(kt "${place[@]}" completion --topics "${where[@]}" 2>/dev/null)"
            fi
            ;;
        esac
    fi
    [[ $words == *= ]] && compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
_kt_script() {
    local name="${COMP_WORDS[0]##*/kafka-}"
    name="${name#kafka-}"
    COMP_WORDS=(kt "${name%.sh}" "${COMP_WORDS[@]:1}")
    ((COMP_CWORD++))
    _kt
}
complete -F _kt kt
complete -F _kt_script @SCRIPTS@
