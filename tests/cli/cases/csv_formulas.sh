# A name that a spreadsheet would run gets an apostrophe before it; programs ask for raw-csv.
cat > t.json <<'END'
[{"ph":"X","name":"=1+1","pid":1,"tid":1,"ts":0,"dur":10},{"ph":"X","name":"@a,b","pid":1,"tid":1,"ts":20,"dur":5}]
END
ask() { "$STOKER" sql t.json --no-cache --format "$1" -q "select name, '-1.5' as \"=head\", -2 as n from slice order by ts"; }
ask csv
ask raw-csv
"$STOKER" top t.json --no-cache --format csv | cut -d, -f1-2
"$STOKER" diff t.json t.json --no-cache --format csv -q | cut -c1-12
"$STOKER" diff t.json t.json --no-cache --format raw-csv -q | cut -c1-12
"$STOKER" export t.json --no-cache -q --to csv out && grep -o '"\?[=@][^ ]*' out/slice.csv
