echo 'no shared object' >p.so
"$STOKER" run --plugin ./p.so -e 'range(10)'
