# Completion of `bub` in bash; `bub completion bash` printed it.
_bub() {
    local line
    COMPREPLY=()
    {
        IFS= read -r line || return 0
        case $line in
            files) compopt -o default 2>/dev/null ;;
            folders) compopt -o dirnames 2>/dev/null ;;
        esac
        while IFS= read -r line; do COMPREPLY+=("$line"); done
    } < <(@BUB@ __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -F _bub bub
