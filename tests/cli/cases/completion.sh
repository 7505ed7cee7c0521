# Each script knows commands, options and ops.
for shell in bash zsh fish; do
    "$STOKER" completion $shell >script
    for word in inspect checkpoint-every shuffle write_tfrecord; do
        grep -q -- "$word" script && echo "$shell: $word"
    done
done
