"$STOKER" run -q -e 'range(10)' --trace out.xyz
