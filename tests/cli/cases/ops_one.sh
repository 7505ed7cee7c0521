for op in range shuffle batch; do
    "$STOKER" ops $op
    echo ----
done
