# From a file and from standard input, with comments.
cat >p.stoker <<END
# ten numbers, the last ones
range(10)
| skip(7)  # leaves three
| batch(2)
| print
END
"$STOKER" run -q p.stoker
"$STOKER" run --quiet - <p.stoker
