#!/usr/bin/env python3
"""Checks that pages and code use the terms of the glossary in CONTRIBUTING.md, and that wording gets no worse.

`tests/words.py` fails for each old word in a page (*.md) or in a part of the code that is done, and for each count of `tests/wording.py` that is
higher than in `tests/words.json`.
`tests/words.py --write` records the counts as they are.
`tests/words.py PART...` lists the old words and the counted places of parts, for example `crates/wire` or `docs/reference/limits.md`.
"""

import re
import subprocess
import sys
from pathlib import Path

import wording

ROOT = Path(__file__).resolve().parents[1]

# Parts of the code that still have old words. A rename takes its part off this list; nothing is added to it.
NOT_DONE: set[str] = set()

# The old word as the glossary shows it: where to find it. Letters end a word, so `mend_it` and `MENDED` are found too.
PHRASES = {
    "want of memory": r"want of",
    "is over": r"(?:is|are|was|were|be|been|being|not|already|it's) over(?=[.,;:)]|$|\s+(?:and|or|but|when|already|before|after|until|by)\b)",
    "further kernel": r"further (?:kernel|link|one)s?",
    "is told": r"(?:is|are|was|were|be|been|being) told",
    "wish": r"wish(?:es|ed)?",
    "mend": r"mend(?:s|ed|ing)?",
    "taken, and not over": r"taken, and not",
    "stands by": r"(?:stands?|stood|standing) by(?! default)",
    "goes on": r"(?:go|goes|went|going|gone) on(?!\s+(?:the|a|an|its|their|one|line)\b)",
    "begin of": r"begin of",
    "for good": r"for good(?! reason| in\b)",
    "look-up": r"look-ups?",
    "somebody, nobody, anybody, whoever": r"somebody|nobody(?!:/)|anybody|whoever",
    "unasked": r"unasked",
    "given away": r"giv(?:en|es?|ing) away|gave away",
    "made ahead": r"made ahead",
    "in mid-cell": r"in mid-?\w+",
    "thrown away": r"thrown away|throws? away",
    "what never was": r"(?:what|that|which|ids?|one) never (?:was|were)",
    "in one go": r"in one go",
    "comes up": r"(?:comes?|came) up",
    "the matter with": r"the matter with",
    "answers 404": r"answer(?:s|ed)? (?:with )?[1-5]\d\d",
    "seldom": r"seldom",
    "dear": r"dear",
    "overdue": r"over its time",
    "gives way": r"giv(?:es?|en|ing) way|gave way",
    "keeps its word": r"(?:keeps?|kept) its word",
    "minds": r"never minds?|nobody minds",
    "farewell": r"farewells?",
}
NAMES = {
    "`Left`": r"Left",
    "`Around`": r"Around",
    "`Whereabouts`": r"Whereabouts|whereabouts",
    "`Place`": r"Place",
    "`Early`": r"Early",
    "`HeldQueues`": r"HeldQueues",
    "`Nature::Patient`": r"Nature|Patient",
    "`COMPANY`": r"Company|COMPANY",
    "`Wish`": r"Wish",
    "`Told`": r"Told",
    "`Rung`": r"Rung",
    "`Then`": r"(?:struct|enum) Then",
}


# Letters of which some are in each match. A search for letters is a hundred times faster than one for a pattern.
LETTERS = {
    "is over": "over",
    "further kernel": "further",
    "is told": "told",
    "taken, and not over": "taken,",
    "stands by": "stand stood",
    "goes on": "go went",
    "somebody, nobody, anybody, whoever": "body whoever",
    "given away": "away",
    "made ahead": "ahead",
    "in mid-cell": "mid",
    "thrown away": "away",
    "what never was": "never",
    "comes up": "come came",
    "answers 404": "answer",
    "overdue": "over",
    "gives way": "way",
    "keeps its word": "word",
    "minds": "mind",
    "for good": "good",
    "in one go": "one",
    "the matter with": "matter",
    "farewell": "farewell",
}


def compiled():
    """(old word, letters, pattern), for phrases in any case and names as they are; a space in a pattern is any white space and comment mark."""
    for old, pattern in PHRASES.items():
        spaced = pattern.replace(" ", r"(?:\s|//[/!]?|#)+")
        letters = LETTERS.get(old) or re.match(r"[a-z]+", pattern)[0]
        yield old, letters.split(), re.compile(rf"(?<![^\W_])(?:{spaced})(?![^\W_])", re.I | re.M)
    for old, pattern in NAMES.items():
        letters = re.sub(r"\(\?:.*\) ", "", pattern).split("|")
        # Not the first word of a sentence.
        yield old, letters, re.compile(rf"\b(?:{pattern})\b(?! [a-z])")


RULES = list(compiled())


def found(text):
    """(line, old word, what stands there) for each old word of a text."""
    lower = text.lower()
    for old, letters, pattern in RULES:
        if not any(map((lower if pattern.flags & re.I else text).__contains__, letters)):
            continue
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, old, " ".join(match[0].split())


# In a page: blocks of code, code in lines, and addresses of links, which are not prose.
NOT_PROSE = re.compile(r"^```.*?^```$|``[^\n]*?``|`[^`\n]*`|(?<=\])\([^)\s]*\)", re.S | re.M)


def content(name):
    """What is checked of a file."""
    text = (ROOT / name).read_text()
    return NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", ".", match[0]), text) if name.endswith(".md") else text


def tracked(*patterns):
    """The tracked files that match, relative to the root."""
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "--cached", "--", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    # During a merge, a file with conflicts is listed three times.
    return [name for name in dict.fromkeys(listed.stdout.split("\0")) if name and (ROOT / name).exists()]


def part_of(name):
    """The part of the code that a file belongs to."""
    folders = name.split("/")
    return "/".join(folders[:2]) if folders[0] in ("crates", "tests") else folders[0]


def sources():
    """The code's files by part."""
    parts = {}
    for name in tracked("*.rs", "*.py", "*.ts", "*.tsx", "*.js", "*.sh", "*.toml", "Makefile"):
        if name not in ("tests/words.py", "tests/wording.py"):
            parts.setdefault(part_of(name), []).append(name)
    return parts


def glossary():
    """The old words of the table in CONTRIBUTING.md, and the page without the table."""
    table = r"<!-- glossary -->\n(.*?)<!-- end -->"
    rows = re.search(table, (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1].splitlines()[2:]
    page = re.sub(table, lambda match: "\n" * match[0].count("\n"), content("CONTRIBUTING.md"), flags=re.S)
    return [row.split("|")[1].strip() for row in rows], page


def check_itself():
    """The patterns find what they are for, and leave ordinary English alone."""
    for text in ("The cell is over.", "killed for want of\n/// memory", "MENDED_RUNC", "a further\n# kernel", "is `Left` here", "nobody\nelse"):
        assert list(found(text)), text
    for text in (
        "he went on; it stood by; was told; farewell, for good",
        "taken, and not; given away; gave away; made ahead; mid-cell; throws away. Which never were; came up; answered 404",
        "over its time; gave way; kept its word; never mind; nobody minds; `Patient` and `whereabouts` and struct Then and `COMPANY`",
    ):
        without = {old for old, _, pattern in RULES if pattern.search(text)}
        assert {old for _, old, _ in found(text)} == without and len(without) > 3, text
    for text in ("Requests are sent over HTTP.", "It is over 5 MiB.", "recommend an amendment", "a leftover", "Turn left at the end", "Left out of it: x", "furthermore"):
        assert not list(found(text)), text


def main():
    """Returns the exit status."""
    check_itself()
    wording.check_itself()
    parts = sources()
    asked = sys.argv[1:]
    counts = wording.counted({part: files for part, files in parts.items() if part.startswith("crates/")}, tracked("*.md"))
    if asked == ["--write"]:
        print(*wording.write(counts), wording.shares(counts), sep="\n")
        return 0
    old, contributing = glossary()
    wrong = []
    if set(old) != {*PHRASES, *NAMES}:
        wrong.append(f"CONTRIBUTING.md: the glossary and tests/words.py differ: {set(old) ^ {*PHRASES, *NAMES}}")
    if asked:
        names = [name for part in asked for name in parts.get(part, [part])]
        wrong += [place for part in asked for _, _, places in counts.get(part, {}).values() for place in places]
        print(*(f"{part}: {wording.shares({part: counts[part]})}" for part in asked if part in parts), sep="\n")
    else:
        names = tracked("*.md") + [name for part, files in parts.items() if part not in NOT_DONE for name in files]
        wrong += [f"tests/words.py: {part} is done; take it off NOT_DONE" for part in NOT_DONE & parts.keys() if not any_in(parts[part])]
        problems, notes = wording.compared(counts, wording.recorded())
        wrong += problems
        print(*notes, wording.shares(counts), sep="\n")
    for name in names:
        text = contributing if name == "CONTRIBUTING.md" else content(name)
        wrong += [f"{name}:{line}: {there!r}: see {word!r} in CONTRIBUTING.md" for line, word, there in found(text)]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return int(bool(wrong))


def any_in(names):
    """Whether one of the files has an old word."""
    return any(any(found(content(name))) for name in names)


if __name__ == "__main__":
    sys.exit(main())
