"""Counts kinds of wording that readers stumble over, for each crate and each page. `tests/words.py` compares the counts with `tests/words.json`.

- `fragments`: doc comments that begin with a pronoun, a preposition or a question word, so that their noun is missing: "What the gateway reads".
- `participles`: types whose name is a participle, pronoun or adverb without a noun: `Kept`, `Elsewhere`.
- `errors`: texts that negate a noun or hide the cause: "is none of", "is no address", "no randomness".
- `what`, `that_of`, `says`, `starts`, `semicolons`: phrases in the prose of pages.

Test code is not counted, nor are questions as `what` and `starts`.
"""

import json
import re
from pathlib import Path

from slices import STRING, TESTS, is_test

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "words.json"

# The share of doc comments, of types, and per 1,000 words of prose that a new crate or page may have. `errors` has none.
GOALS = {"fragments": 0.05, "participles": 0.015, "errors": 0, "what": 1, "that_of": 0.4, "says": 1, "starts": 0.3, "semicolons": 1.5}

DOC = re.compile(r"^[ \t]*(//[/!])(?!/)[^\n]*(?:\n[ \t]*\1(?!/)[^\n]*)*", re.M)
FIRST_WORD = re.compile(r"[\s/!*_`\[(]*([A-Za-z']+)")
FRAGMENT = set(
    """about at by from for in into of on to under until with
    both either everything its neither nothing one's other others such that their theirs them they this these those
    how what whatever when where whether which who whom whose why""".split()
)
FRAGMENT -= set("at by for from in into on to under until with this these when".split())  # "For tests", "When the session ended": plain English.

TYPE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|union) (\w+)|^(?:pub(?:\([^)]*\))? )?type (\w+)", re.M)
BARE = set(
    """Begun Born Broken Chosen Drawn Due Found Frozen Given Gone Held Hidden Kept Known Left Lost Made Meant Overdue Past Proven Ran Said Seen Sent
    Shown Sought Spent Stuck Taken Taught Thought Told Torn Unknown Unproven Unread Written
    About After All Any At Away Before Beside Between Both Down Each Either Elsewhere For From Inside Into Me Most Nothing Now Once Other Others Outside
    Same Such There Those Until Via What Which Who Whose With""".split()
)
NOUNS = set("Bed Embed Feed Need Seed Shed Speed".split())
NOUNS |= set("Binding Encoding Ending Finding Framing Listing Mapping Ping Posting Reading Ring Setting Signing String Thing Timing Warning".split())

ERROR = re.compile(
    r"""(?<!there\ )\b(?:is|are)\ none\b | \bnot\ to\ be\ had\b | \bno\ randomness\b | (?<!there\ )\bis\ no\ (?!longer\b|more\b) | \b(?:be)?c[ao]me\ of\b
    | \bcannot\ tell\b | \bdo(?:es)?\ not\ count\b""",
    re.I | re.X,
)

PAGE = {
    "what": re.compile(r"\bwhat\b", re.I),
    "that_of": re.compile(r"\b(?:that|those) of\b|\bthose that\b|\bthe one (?:that|of)\b|\bone of (?:which|it)\b", re.I),
    "says": re.compile(r"\b(?:(?:say|tell|ask|learn|know)s|names (?:an?|code|each|its?|no|one|the|what)\b)", re.I),
    "starts": re.compile(r"^(?:What|Who|Of|Its|Their|Those|Others|Nothing)\b"),
    "semicolons": re.compile(r";"),
}
# Blocks of code, comments, rows of tables, titles.
NOT_PROSE = re.compile(r"^[ \t]*```.*?^[ \t]*```$|<!--.*?-->|^[ \t]*(?:\||#)[^\n]*$", re.S | re.M)
PARAGRAPH = re.compile(r"\n[ \t]*\n|(?:\A|\n)[ \t]*(?:[-*>]|\d+\.)[ \t]+")


def product(text):
    """The code of a Rust file before its tests."""
    return TESTS.split(text)[0]


def doc_comments(text):
    """(line, first word) of each doc comment of a Rust file."""
    for found in DOC.finditer(text):
        word = FIRST_WORD.match(found[0])
        yield text.count("\n", 0, found.start()) + 1, word[1] if word else ""


def types(text):
    """(line, name) of each type of a Rust file."""
    for found in TYPE.finditer(text):
        yield text.count("\n", 0, found.start(found.lastindex)) + 1, found[found.lastindex]


def is_bare(name):
    """Whether a type's name is a participle, pronoun or adverb without a noun."""
    return name in BARE or name not in NOUNS and bool(re.fullmatch(r"[A-Z][a-z]+(?:ed|ing)", name))


def errors(text):
    """(line, what stands there) of each text of a Rust file that hides its cause."""
    plain = re.sub(r"(?<!\S)//[^\n]*", "", text)
    for literal in STRING.finditer(plain):
        for found in ERROR.finditer(literal[0]):
            yield plain.count("\n", 0, literal.start()) + 1, " ".join(literal[0].split())


def sentences(page):
    """The sentences of a page's prose, without code, tables, titles and addresses of links."""
    prose = NOT_PROSE.sub("\n", page)
    prose = re.sub(r"``[^\n]*?``|`[^`\n]*`", "code", prose)
    prose = re.sub(r"\]\([^)]*\)|https?://\S+", "", prose)
    for paragraph in PARAGRAPH.split(re.sub(r"\n[ \t]*\n", "\n\n\n", prose)):
        yield from filter(None, re.split(r"(?<=[.!?:])[)\"”*]*\s+(?=[\"“(\[*]*[A-Z])", " ".join(paragraph.split())))


def in_crate(texts):
    """The counts of a crate, and of how many: {kind: (count, total, places)}; `texts` are the names and the texts of its files."""
    counts = {"fragments": [], "participles": [], "errors": []}
    docs = names = 0
    for name, text in texts:
        text = product(text)
        for line, word in doc_comments(text):
            docs += 1
            if word.lower() in FRAGMENT:
                counts["fragments"].append(f"{name}:{line}: a doc comment begins with {word!r}")
        for line, word in types(text):
            names += 1
            if is_bare(word):
                counts["participles"].append(f"{name}:{line}: the type {word!r} needs a noun")
        counts["errors"] += [f"{name}:{line}: {there}" for line, there in errors(text)]
    return {kind: (len(places), {"fragments": docs, "participles": names}.get(kind, 0), places) for kind, places in counts.items()}


def in_page(name, text):
    """The counts of a page, and its thousands of words, in the same form."""
    lines = [sentence for sentence in sentences(text) if sentence]
    thousands = sum(len(sentence.split()) for sentence in lines) / 1000
    counts = {}
    for kind, pattern in PAGE.items():
        places = []
        for sentence in lines:
            if kind not in ("what", "starts") or not sentence.endswith("?"):
                places += [f"{name}: {kind}: {sentence[:160]}"] * len(pattern.findall(sentence.lstrip('"“([*')))
        counts[kind] = (len(places), thousands, places)
    return counts


def counted(crates, pages):
    """{crate or page: {kind: (count, total, places)}}. `crates` are files by folder, `pages` are names."""
    found = {}
    for crate, names in crates.items():
        if crate != "crates/testkit":
            files = [name for name in names if name.startswith(f"{crate}/src/") and name.endswith(".rs") and not is_test(Path(name.removeprefix(crate)))]
            found[crate] = in_crate((name, (ROOT / name).read_text()) for name in files)
    for page in pages:
        found[page] = in_page(page, (ROOT / page).read_text())
    return found


def recorded():
    """The counts of the file."""
    return json.loads(FILE.read_text())


def write(found):
    """Records the counts, one line for each crate or page; zeros are left out. Returns what rose."""
    before = recorded() if FILE.exists() else {}
    lines = []
    rose = []
    for name, kinds in sorted(found.items()):
        counts = {kind: count for kind, (count, *_) in sorted(kinds.items()) if count}
        lines.append(f"{json.dumps(name)}: {json.dumps(counts)}")
        rose += [f"{name}: {kind} rose from {before[name].get(kind, 0)} to {count}" for kind, count in counts.items() if name in before and count > before[name].get(kind, 0)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return rose


def compared(found, bounds):
    """(problems, notes): the counts that are above their bounds with their places, and those that are below."""
    problems, notes = [], []
    for name, kinds in found.items():
        for kind, (count, total, places) in kinds.items():
            bound = bounds[name].get(kind, 0) if name in bounds else int(GOALS[kind] * total)
            if count > bound:
                problems.append(f"{name}: {count} {kind}, and {bound} are allowed (see tests/wording.py):\n  " + "\n  ".join(places))
            elif name in bounds and count < bound:
                notes.append(f"{name}: {kind} fell from {bound} to {count}")
    notes += [f"{name} is gone" for name in bounds.keys() - found.keys()]
    if notes:
        notes.append("To record the lower counts: python3 tests/words.py --write")
    return problems, notes


def shares(found):
    """The shares of fragments and of participles in all crates."""
    kinds = [(found[name]["fragments"], found[name]["participles"]) for name in found if "fragments" in found[name]]
    percent = [100 * sum(pair[at][0] for pair in kinds) / max(1, sum(pair[at][1] for pair in kinds)) for at in (0, 1)]
    return f"fragment docs {percent[0]:.1f} %; participle types {percent[1]:.1f} %"


def check_itself():
    """Each rule counts what it is for, and leaves ordinary English alone; a rise and a new name are problems."""
    rust = (
        "//! Whether it runs.\n\n/// What\n/// is kept.\npub struct Kept;\n/// Its name.\nenum Waiting {}\n/// The name.\npub(crate) trait Elsewhere {}\n"
        '/// `Of` two.\nstruct KeptPlot {\n    /// Bytes.\n    bytes: u8,\n}\ntype Shown = u8;\nfn f() { fail("{x} is none of a, b") }\n'
        "// no randomness\n//// What\n#[cfg(test)]\nmod tests {\n    /// What\n    struct Held;\n}\n"
    )
    counts = {kind: pair[:2] for kind, pair in in_crate([("a.rs", rust)]).items()}
    assert counts == {"fragments": (4, 6), "participles": (4, 5), "errors": (1, 0)}, counts
    for text in ('"that is none"', '"gvisor is not to be had"', '"no randomness for a key"', '"is no address"', '"what came of it"', 'r#"x is none"#'):
        assert list(errors(f"fail({text})")), text
    for text in ('"there is no skill x"', '"is no longer kept"', '"there is none"', 'a, // "is none"\n"b"', '"must be one of a, b"'):
        assert not list(errors(f"fail({text})")), text
    assert not any(map(is_bare, ("KeptPlot", "Seed", "Listing", "String", "Address", "Bound")))
    page = (
        "# What\n\nWhat is full; that of it. Its end\ntells nothing, and those that it names. It names the names.\n\n- Of two: one.\n- What is it?\n\n"
        "```sh\nwhat; tells\n```\n\n| what; | says |\n\nA link to [it](what.md) and `what`.\n<!-- what; -->\n"
    )
    counts = {kind: count for kind, (count, *_) in in_page("a.md", page).items()}
    assert counts == {"what": 1, "that_of": 2, "says": 2, "starts": 3, "semicolons": 1}, counts
    here = {"a.md": {"what": (2, 1.0, ["x", "y"])}, "b": {"fragments": (1, 19, ["z"])}}
    assert compared(here, {"a.md": {"what": 2}, "b": {"fragments": 1}}) == ([], [])
    assert len(compared(here, {"a.md": {"what": 1}, "b": {}})[0]) == 2  # Both rose.
    assert len(compared(here, {})[0]) == 2  # Both are new and above the goal.
    assert [len(part) for part in compared(here, {"a.md": {"what": 3}, "b": {"fragments": 1}, "c": {}})] == [0, 3]
