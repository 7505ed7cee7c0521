#!/usr/bin/env python3
"""What the docs show is what happens: test_docs.py BUILD_DIR

In README.md and docs/guide/, the `$` lines of ```console blocks are run, page by page, in a directory with `build`
and `examples` in it; `make`, `git` and `cd` are left out. A command must succeed, unless it ends with "# exits with
N". Where output is shown, it must be what comes; `...` stands for any text, on a line of its own for any lines, and
figures with a unit may differ.
"""
import re
import unittest

import doclib

BUILD = doclib.build_dir()
PAGES = [doclib.ROOT / "README.md", *sorted((doclib.ROOT / "docs/guide").glob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
EXIT = re.compile(r"# exits with (\d+)$")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.M)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
FIGURE = re.compile(r"\d[\d,.]*(?= (?:s|%|samples/s|MB/s|B|[KMG]iB|threads?|events)\b| %)")
UNIT = re.compile(r"# (?:B|[KMG]iB)\b")


def commands(text):
    """Commands with the lines shown below them."""
    found = []
    for block in BLOCK.findall(text):
        lines = iter(block.splitlines())
        for line in lines:
            if line.startswith("$ "):
                command = line[2:]
                while command.endswith("\\"):
                    command = command[:-1] + next(lines).lstrip()
                found.append((command, []))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1] = (found[-1][0] + " " + line[2:], [])
            else:
                found[-1][1].append(line)
    return [(c, shown) for c, shown in found if c.split()[0] not in ("make", "git", "cd")]


def anchors(page):
    """Names of the sections of a page, as GitHub makes them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def plain(line):
    """The line without what differs from run to run."""
    return UNIT.sub("# B", FIGURE.sub("#", line.rstrip()))


def fits(shown, lines):
    """Whether lines are as shown."""
    if not shown:
        return not lines
    if shown[0] == "...":
        return any(fits(shown[1:], lines[i:]) for i in range(len(lines) + 1))
    pattern = ".*".join(re.escape(part) for part in plain(shown[0]).split("..."))
    return bool(lines) and re.fullmatch(pattern, plain(lines[0])) is not None and fits(shown[1:], lines[1:])


class Docs(unittest.TestCase):
    def test_commands_do_what_is_shown(self):
        count = 0
        for page in PAGES:
            with doclib.Place(BUILD) as place:
                for command, shown in commands(page.read_text(encoding="utf-8")):
                    with self.subTest(page=page.name, command=command):
                        done = place.run(command)
                        wanted = EXIT.search(command)
                        self.assertEqual(done.returncode, int(wanted.group(1)) if wanted else 0, done.stdout)
                        while shown and not shown[-1]:
                            shown.pop()
                        self.assertTrue(not shown or fits(shown, done.stdout.splitlines()),
                                        "\nshown:\n" + "\n".join(shown) + "\nfound:\n" + done.stdout)
                        count += 1
        self.assertGreater(count, 10)

    def test_code_of_the_op_page_is_the_example(self):
        page = (doclib.ROOT / "docs/guide/write-an-op.md").read_text(encoding="utf-8")
        shown = "".join(re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S))
        code = (doclib.ROOT / "examples/op_negate.c").read_text(encoding="utf-8")
        self.assertEqual([line for line in shown.splitlines() if line], [line for line in code.splitlines() if line])

    def test_links_lead_somewhere(self):
        pages = [*doclib.ROOT.glob("*.md"), *doclib.ROOT.glob("docs/**/*.md"), *doclib.ROOT.glob("examples/*.md")]
        for page in pages:
            for match in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
                target, _, anchor = (match[0] or match[1]).partition("#")
                if "://" not in target:
                    with self.subTest(page=page.name, link=target, anchor=anchor):
                        path = page.parent / target if target else page
                        self.assertTrue(path.exists())
                        self.assertTrue(not anchor or anchor in anchors(path))


if __name__ == "__main__":
    unittest.main()
