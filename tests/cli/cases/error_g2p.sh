# Mistakes in the options, the lexicon and the model.
printf '%s\n' 'fine F AY1 N' 'broken B QQ' >bad.dict
printf '%s\n' 'fine F AY1 N' >good.dict
run() { "$STOKER" g2p "$@" </dev/null 2>&1; echo "exit $?"; }
run --lexicon bad.dict fine
run --lexicon none.dict fine
run --model none.npz fine
"$STOKER" g2p --model good.dict fine 2>&1 | cut -d: -f1-2 # what is wrong with it, tests of models tell
run --format words,lines fine
run --precision fp16 fine
run --variants fine
run --lexicon good.dict --variants --format lines fine
run --lexicon - -
run --model - -
run --model - --lexicon - fine
run fine - fine
run --symbols fine
run --lexicon good.dict -o good.dict fine
run --lexicon good.dict -o no/such/place fine
run --lexicom good.dict fine
cat good.dict
