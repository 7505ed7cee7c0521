# A reader that goes away ends the run without a complaint.
"$STOKER" run -q -e 'range(1000000) | batch(100) | print' 2>err | head -2
echo "exit ${PIPESTATUS[0]}"
cat err
