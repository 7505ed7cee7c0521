# What bash offers for a few lines.
source <("$STOKER" completion bash)
compopt() { :; }
offer() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _stoker
    echo "${COMPREPLY[@]}"
}
touch here.stoker
offer stoker in
offer stoker run --check
offer stoker run --on-error s
offer stoker run h
offer stoker ops shuf
offer stoker run --threads ''
