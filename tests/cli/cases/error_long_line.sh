# Of a long line only the surroundings are shown.
long=$(for i in $(seq 60); do printf 'range(10) | take(5) | '; done)
"$STOKER" run -e "range(9) | take(5) | ${long//range(10)/skip(1)}oops | ${long//range(10)/skip(1)}batch(4)"
