# The file is named; characters before the place may be wide in bytes, tabs count as one column.
printf '# Grüße\n\trange(10) | text("ü") | btach(4)\n' >p.stoker
"$STOKER" plan p.stoker
