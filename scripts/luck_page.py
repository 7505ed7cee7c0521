#!/usr/bin/env python3
"""Puts the figures of docs/guide/luck.md in their place.

    build/stoker bench calibrate --time 10m --hyperfine --json --svg docs/img/luck.svg > luck.json
    scripts/luck_page.py luck.json     keeps them as docs/img/luck.json, without the runs, and writes the page
    scripts/luck_page.py --check       fails when the page says something else than docs/img/luck.json
"""
import json
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, KEPT = ROOT / "docs/guide/luck.md", ROOT / "docs/img/luck.json"
BEGIN, END = "<!-- luck: scripts/luck_page.py writes this -->\n", "<!-- end luck -->\n"
ORDER_RULES = ["mann_whitney", "welch", "means"]


def percent(share):
    if share is None:
        return "-"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def found(rule):
    """"45 %", with what was called the other way round in brackets."""
    wrong = rule["called"] - rule["right"]
    return percent(rule["right"]) + (f" ({percent(wrong)})" if wrong > 1e-9 else "")


def words(text):
    return textwrap.fill(text, 120) + "\n"


def cells(*values):
    return "| " + " | ".join(str(value) for value in values) + " |\n"


def false_alarms(figures):
    text = cells("runs of each", "in turns, verdict", "hyperfine's order: Mann-Whitney", "Welch's t",
                 "means more than 5 % apart", "comparisons") + "|" + "---|" * 6 + "\n"
    for size in figures["effects"][0]["sizes"]:
        order = [percent(size["order"][rule]["called"]) for rule in ORDER_RULES]
        text += cells(size["runs"], percent(size["turns"]["verdict"]["called"]), *order, size["turns"]["windows"])
    return text


def by_hyperfine(figures):
    """A sentence on what hyperfine's own files gave, for the size with the most runs."""
    sizes = [size for size in figures["effects"][0]["sizes"] if size["hyperfine"]]
    if not sizes:
        return ""
    own = sizes[-1]["hyperfine"]
    hits = {rule: round(own[rule]["called"] * own["windows"]) for rule in ORDER_RULES}
    return "\n" + words(f"{figures['hyperfine']} itself ran the program against itself {own['windows']} times, by "
                        f"{sizes[-1]['runs']} runs of each. Mann-Whitney's test calls a change in {hits['mann_whitney']} of "
                        f"the files that it wrote, Welch's in {hits['welch']}.")


def real_changes(figures):
    text = cells("B has", "runs of each", "in turns", "hyperfine's order: Mann-Whitney", "Welch's t",
                 "ratio off by: in turns", "hyperfine's order", "interval holds it: in turns",
                 "hyperfine's order") + "|" + "---|" * 9 + "\n"
    for effect in figures["effects"][1:]:
        for size in effect["sizes"]:
            turns, order = size["turns"], size["order"]
            if turns and order:
                text += cells(f"{100 * effect['more']:.0f} % more work", size["runs"], found(turns["verdict"]),
                              found(order["mann_whitney"]), found(order["welch"]), percent(turns["error"]),
                              percent(order["error"]), percent(turns["covered"]), percent(order["covered"]))
    return text


def section(figures):
    return (words(f"{figures['machine']}: {figures['all_runs']:,} runs in "
                  f"{figures['took_s'] / 60:.0f} minutes. One takes {1000 * figures['median_s']:.1f} ms, give or take "
                  f"{100 * figures['cv']:.0f} %, with a correlation of {figures['autocorrelation']:.2f} between a run and "
                  "the next. Nothing changed, and this is how often a change is called:") +
            "\n" + false_alarms(figures) + by_hyperfine(figures) + "\n" +
            words("And when B really is slower, how often that is found (in brackets: how often B is called the faster "
                  "one), how far off the ratio is, and how often its interval holds the true one:") +
            "\n" + real_changes(figures))


def main(arguments):
    if arguments and arguments != ["--check"]:
        figures = json.loads(pathlib.Path(arguments[0]).read_text(encoding="utf-8"))
        del figures["series"]
        KEPT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    new = page[:start] + section(json.loads(KEPT.read_text(encoding="utf-8"))) + page[end:]
    if "--check" in arguments:
        return 0 if new == page else f"{PAGE}: other figures than {KEPT}; run {__file__}"
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
