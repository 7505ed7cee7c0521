"""stoker diagnose on the labelled profiles of tests/data/verdicts: what it says of loops whose truth was measured.

test_verdicts.py BUILD [--markdown | --update] [NAME-PATTERN...]: --markdown prints the table of docs/guide/traces.md,
--update puts it there.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "../data/verdicts")
PAGE = os.path.join(HERE, "../../docs/guide/traces.md")
POINTS = 2.0  # how far a share that can be seen may be off
STAGES_RIGHT = 0.9
TABLE = re.compile(r"\| profiles of \|.*\n(\|.*\n)*")
BOUND = ("highly_input_bound", "moderately_input_bound")
SHORT = {"highly_input_bound": "highly", "moderately_input_bound": "moderately", "not_input_bound": "not",
         "unknown": "unknown"}


def diagnose(program, case):
    files = [os.path.join(DATA, name) for name in case["files"]]
    result = subprocess.run([program, "diagnose", "--no-cache", "-q", "--json", *files], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=100)
    assert result.returncode == 0, (case["name"], result.stderr.decode())
    return json.loads(result.stdout)


def names_of(report):
    """What the report blames: the stage, or the function on the host, with its file."""
    parts = [report.get("stage"), report.get("host")]
    return [" ".join(filter(None, (part.get("file"), part["name"]))) for part in parts if part and part.get("name")]


def names_stage(case, report):
    return any(re.search(case["stage"], name) for name in names_of(report))


def is_opposite(case, word):
    return word != "unknown" and (word in BOUND) != (case["verdict"] in BOUND)


def problems_of(case, report):
    """What is wrong with the answer but for the stage, which counts over all cases together."""
    word, share = report["verdict"], report["input_percent"]
    problems = []
    if is_opposite(case, word):
        problems.append("the opposite")
    elif word != case["verdict"] and (case["visible"] or word != "unknown"):
        problems.append("wrong word")
    if case["visible"] and (share is None or abs(share - case["input_percent"]) > POINTS):
        problems.append("share")
    if "worst_rank" in case and [r["rank"] for r in report["ranks"] if r["worst"]] != [case["worst_rank"]]:
        problems.append("rank")
    return problems


def row_of(case, report):
    problems = problems_of(case, report)
    if case["stage"] and not names_stage(case, report):
        problems.append("stage")
    share = report["input_percent"]
    return {"case": case, "problems": problems, "word": report["verdict"], "share": share,
            "named": ", ".join(names_of(report)) or "-"}


def print_table(rows):
    print("%-32s %7s  %-10s  %-10s %6s  %-3s  %s" % ("case", "truth", "", "verdict", "share", "ok", "named"))
    for row in rows:
        case, share = row["case"], row["share"]
        print("%-32s %5.1f %%  %-10s  %-10s %6s  %-3s  %s" % (
            case["name"] + ("" if case["visible"] else " *"), case["input_percent"], SHORT[case["verdict"]],
            SHORT[row["word"]], "-" if share is None else "%.1f" % share,
            "ok" if not row["problems"] else "NO:", ", ".join(row["problems"] + [ascii(row["named"])[1:-1][:70]])))
    print("* the profile does not show the fetch by a mark or a known op: unknown is right as well")


def summary(rows):
    """Lines of (what, how many right, of how many, how many are wanted)."""
    def count(some, wrong):
        return sum(not set(wrong) & set(row["problems"]) for row in some), len(some)
    visible = [row for row in rows if row["case"]["visible"]]
    hidden = [row for row in rows if not row["case"]["visible"]]
    staged = [row for row in rows if row["case"]["stage"]]
    word = ("the opposite", "wrong word")
    return [("verdict, where the fetch is marked", *count(visible, word), 1.0),
            ("share within %g points, where the fetch is marked" % POINTS, *count(visible, ("share",)), 1.0),
            ("verdict or unknown, elsewhere", *count(hidden, word), 1.0),
            ("never the opposite", *count(rows, ("the opposite",)), 1.0),
            ("slow stage or function named", *count(staged, ("stage",)), STAGES_RIGHT),
            ("worst rank named", *count([row for row in rows if "worst_rank" in row["case"]], ("rank",)), 1.0)]


def markdown(rows):
    """The table of the guide: cases in groups."""
    groups = {}
    for row in rows:
        groups.setdefault(row["case"]["group"], []).append(row)
    lines = ["| profiles of | cases | right | unknown | wrong | slow part named |", "|---|---|---|---|---|---|"]
    for group, some in list(groups.items()) + [("**all**", rows)]:
        unknown = sum(row["word"] == "unknown" for row in some)
        right = sum(row["word"] == row["case"]["verdict"] for row in some)
        staged = [row for row in some if row["case"]["stage"]]
        named = sum("stage" not in row["problems"] for row in staged)
        lines.append("| %s | %d | %d | %d | %d | %s |" % (group, len(some), right, unknown, len(some) - right - unknown,
                                                        "%d of %d" % (named, len(staged)) if staged else "-"))
    return "".join(line + "\n" for line in lines)


def update_page(rows):
    with open(PAGE) as file:
        text = file.read()
    with open(PAGE, "w") as file:
        file.write(TABLE.sub(lambda _: markdown(rows), text))


def page_agrees(rows):
    with open(PAGE) as file:
        return markdown(rows) in file.read()


def check_data(cases):
    """The set itself: every file belongs to a case, and labels agree with their figures."""
    named = {name for case in cases for name in case["files"]}
    found = {name for name in os.listdir(DATA) if name.endswith(".gz")}
    assert named == found, ("files without a case or cases without files", sorted(named ^ found))
    for case in cases:
        share = case["input_percent"]
        word = "highly_input_bound" if share >= 20 else "moderately_input_bound" if share >= 5 else "not_input_bound"
        assert word == case["verdict"], case["name"]
        assert case["stage"] is None or case["verdict"] in BOUND, case["name"]


def judge(rows, whole):
    """Prints all of it; returns whether it is good enough."""
    print_table(rows)
    good = True
    for what, right, count, wanted in summary(rows):
        short = right < wanted * count
        good &= not short
        print("%-52s %3d of %3d%s" % (what, right, count, "  TOO FEW" if short else ""))
    if whole and not page_agrees(rows):
        print("docs/guide/traces.md has another table: run tests/python/test_verdicts.py BUILD --update")
        good = False
    return good


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    build, *patterns = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = os.path.join(os.path.abspath(build), "stoker")
    with open(os.path.join(DATA, "truth.json")) as file:
        cases = json.load(file)["cases"]
    check_data(cases)
    if patterns:
        cases = [c for c in cases if any(fnmatch.fnmatch(c["name"], p) for p in patterns)]
    rows = [row_of(case, diagnose(program, case)) for case in cases]
    if "--markdown" in options:
        print(markdown(rows), end="")
    elif "--update" in options:
        update_page(rows)
    else:
        return 0 if judge(rows, not patterns) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
