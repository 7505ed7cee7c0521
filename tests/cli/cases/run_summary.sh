"$STOKER" run -e 'range(10) | batch(4)' --threads 2 --memory 64M
