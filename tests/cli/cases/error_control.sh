# Nothing that steers a terminal gets out.
"$STOKER" run -e "$(printf 'range(10) | \033[31mred(1)')" 2>err
echo "exit $?"
LC_ALL=C tr -d '\n -~' <err | wc -c
cat err >&2
