# Mistakes are told at their place in the pipeline as it was written, and other trouble without one.
"$STOKER" compare-lazy -e 'range(10) | repeat(2) | bach(5)'
echo "exit $?"
"$STOKER" compare-lazy -e 'range(10) | repeat(2) | batch(size="x")'
echo "exit $?"
"$STOKER" compare-lazy -e 'range(10) | batch(5)' --epochs 1
echo "exit $?"
"$STOKER" compare-lazy -e 'range(0) | batch(5)'
echo "exit $?"
"$STOKER" compare-lazy -e 'range(10) | batch(5)' --disk no/such/place
echo "exit $?"
"$STOKER" compare-lazy -e 'range(100000) | batch(100000)' --memory 100K
echo "exit $?"
