#compdef bub
# Completion of `bub` in zsh; `bub completion zsh` printed it.
_bub() {
    local line others tab=$'\t'
    local -a lines values shown
    lines=("${(@f)$(@BUB@ __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    others=${lines[1]}
    [[ $PREFIX == --*=* ]] && compset -P '*='
    for line in "${(@)lines[2,-1]}"; do
        values+=("${line%%$tab*}")
        shown+=("${line%%$tab*}${${line#*$tab}:+  ${line#*$tab}}")
    done
    (( $#values )) && compadd -l -d shown -a values
    case $others in
        files) _files ;;
        folders) _files -/ ;;
    esac
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
if [[ $funcstack[1] == _bub ]]; then _bub "$@"; else compdef _bub bub; fi
