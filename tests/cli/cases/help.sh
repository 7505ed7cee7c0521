# Help of the program and of every command.
"$STOKER" --help
for command in run plan compare-lazy ops inspect completion help; do
    echo "== $command"
    "$STOKER" help $command
done
