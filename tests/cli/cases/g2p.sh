# Words and running text through lexicons; what no lexicon has is a matter of the model, and not shown here.
printf '%s\n' ';;; small' 'HELLO  HH AH0 L OW1' 'hello(2) HH EH0 L OW1 # rarer' 'world W ER1 L D' 'big B IH1 G' 'the DH AH0' >small.dict
printf '%s\n' 'world W ER1 L D Z' >own.dict
"$STOKER" g2p --lexicon small.dict hello 'Hello, big world!'
echo "-- own words hide others"
"$STOKER" g2p --lexicon small.dict --lexicon own.dict world
echo "-- variants"
"$STOKER" g2p -l small.dict --variants hello world
echo "-- lines"
printf 'Hello big world.\n\nthe world\r\nbig' | "$STOKER" g2p -q -l small.dict --format lines
echo "-- numbers"
printf 'Hello big world.\n' | "$STOKER" g2p -q -l small.dict --format lines --ids -
"$STOKER" g2p -l small.dict --ids big
echo "-- json"
printf 'Hello, world\n\n' | "$STOKER" g2p -q -l small.dict --format json
"$STOKER" g2p -l small.dict --format json --variants --ids hello
echo "-- capitals that no lexicon has, and letters that nobody reads"
"$STOKER" g2p -l small.dict 'XML Москва'
"$STOKER" g2p -l small.dict 'XML Москва' | cut -f 3 | sort
"$STOKER" g2p -l small.dict -f json 'big Москва'
echo "-- to a file"
printf 'big world\n' | "$STOKER" g2p -q -l small.dict -o out.txt && cat out.txt
echo "-- the numbering"
"$STOKER" g2p --symbols | sed -n '1p;5,6p;74,77p'
