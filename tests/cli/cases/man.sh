# The man page has every command and option, and nothing that roff would take for a request.
"$STOKER" help --man >page
grep -c '^\.SS stoker ' page
for command in run plan compare-lazy ops inspect completion; do
    for option in $("$STOKER" help $command | grep -o -- '^ *\(-., \)\?--[a-z-]*' | grep -o -- '--.*' | grep -v -- --help); do
        grep -q -- "$(printf '%s' "$option" | sed 's/-/\\\\-/g')" page || echo "$option is missing"
    done
done
grep '^\.' page | cut -d' ' -f1 | sort -u | tr '\n' ' '
