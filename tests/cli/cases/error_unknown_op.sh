"$STOKER" run -e 'range(10)
| shufle(seed=1)
| batch(4)'
