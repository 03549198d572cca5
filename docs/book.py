#!/usr/bin/env python3
"""Makes the site of the pages with mdBook (`make site`), into target/site, and checks its links and anchors.

The pages stay as GitHub shows them. Their copies for mdBook are in target/site-pages: `README.md` is `index.md` there, a link to a file that is not a page
leads to a copy of the file, and a link to a directory is its text. docs/README.md gives the order. The site has `llms.txt`, a list of the pages, and
`llms-full.txt`, all pages in one file.
"""

import argparse
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"(^[ \t]*```.*?^[ \t]*```$|``[^\n]*?``|`[^`\n]*`)", re.S | re.M)
TAG = re.compile(r'<(?:a|img)\b[^>]*?\b(?:href|src)="([^"#:]+)"')
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SUMMARY = "Himalia is a Jupyter-compatible kernel gateway: AI agents, scripts, notebooks and JupyterLab use live IPython kernels through it."
# In front of the title of a page below another one.
NESTED = "  "
BOOK = """[book]
title = "Himalia"
language = "en"
src = "."

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false

[output.html.search]
limit-results = 30

[output.html.print]
enable = false
"""


def tracked():
    """The Markdown pages of the project, relative to its root."""
    # Also in a checkout of another user.
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "--cached", "*.md"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and not name.startswith((".", "tests/python/")) and (ROOT / name).exists()]


def in_site(page):
    """The name of a page in the site's sources."""
    path = PurePosixPath(page)
    return str(path.with_name("index.md")) if path.name == "README.md" else page


def resolved(page, target):
    """(path from the root, anchor) of a link in a page."""
    path, _, anchor = target.partition("#")
    if not path:
        return page, anchor
    parts = []
    for part in (PurePosixPath(page).parent / unquote(path)).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts), anchor


def links(page, text):
    """(text, path from the root) of each link of a page to a file."""
    for prose in CODE.split(text)[::2]:
        for _, label, target in LINK.findall(prose):
            if not urlsplit(target).scheme:
                yield label, resolved(page, target)[0]


def page_of_site(page, text, pages, files):
    """The text of a page in the site; the files that it links to are added to `files`."""

    def replaced(found):
        picture, label, target = found.groups()
        if urlsplit(target).scheme or target.startswith("#"):
            return found[0]
        path, _ = resolved(page, target)
        if path in pages:
            return f"[{label}]({re.sub('README[.]md', 'index.md', target)})"
        if (ROOT / path).is_dir():
            return label
        files.add(path)
        return f"{picture}[{label}]({target})"

    parts = CODE.split(text)
    # A label can have code in it, so code is put back only after links are found.
    kept = parts[1::2]
    named = {resolved(page, target)[0] for prose in parts[::2] for target in TAG.findall(prose)}
    files.update(path for path in named if path not in pages and (ROOT / path).is_file())
    marked = "".join(part if at % 2 == 0 else f"\0{at // 2}\0" for at, part in enumerate(parts))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], LINK.sub(replaced, marked))


def title(text):
    """The first heading of a page."""
    return re.search(r"^# +(.*)$", text, re.M)[1].replace("`", "")


def contents(texts):
    """[(part, [(title, page, description)])] from docs/README.md. A page that it does not list is below the page of its folder, or at the end."""
    parts, listed = [("Himalia", [("Himalia", "README.md", ""), ("All pages", "docs/README.md", "")])], {"README.md", "docs/README.md"}
    for block in re.split(r"^## ", texts["docs/README.md"], flags=re.M)[1:]:
        part, _, body = block.partition("\n")
        rows = []
        for item in re.split(r"^- ", body, flags=re.M)[1:]:
            item = " ".join(item.split("\n\n")[0].split())
            about = item.partition("): ")[2]
            for label, path in links("docs/README.md", item):
                if path in texts and path not in listed:
                    listed.add(path)
                    rows.append((label if label[0].isupper() or item.startswith("[" + label) else title(texts[path]), path, about))
        parts.append((part.strip(), rows))
    other = []
    for page in sorted(texts.keys() - listed):
        folder = str(PurePosixPath(page).parent / "README.md")
        rows, at = next(((rows, at) for _, rows in parts for at, row in enumerate(rows) if row[1] == folder), (other, None))
        if at is not None:
            # Behind the page of its folder, and its other pages.
            while at + 1 < len(rows) and rows[at + 1][0].startswith(NESTED):
                at += 1
            rows.insert(at + 1, (NESTED + title(texts[page]), page, ""))
        else:
            rows.append((title(texts[page]), page, ""))
    parts.append(("Other pages", other))
    return [(part, rows) for part, rows in parts if rows]


def row(label, target):
    """The line of a list for a page."""
    return f"{NESTED if label.startswith(NESTED) else ''}- [{label.strip()}]({target})"


def sources(directory):
    """Writes the sources for mdBook; returns the contents."""
    texts = {page: (ROOT / page).read_text() for page in tracked()}
    files = set()
    for page, text in texts.items():
        copy = directory / in_site(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(page_of_site(page, text, texts, files))
    for path in files:
        copy = directory / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
    parts = contents(texts)
    summary, models = ["# Summary\n"], [f"# Himalia\n\n> {SUMMARY}"]
    for part, rows in parts:
        summary.append(f"\n# {part}\n\n" + "\n".join(row(label, in_site(page)) for label, page, _ in rows) + "\n")
        models.append(
            f"## {part}\n\n" + "\n".join(row(label, f"{in_site(page).removesuffix('.md')}.html") + (f": {about}" if about else "") for label, page, about in rows)
        )
    (directory / "SUMMARY.md").write_text("".join(summary))
    (directory / "llms.txt").write_text("\n\n".join(models) + "\n")
    (directory / "llms-full.txt").write_text("\n\n".join(f"<!-- {page} -->\n{texts[page]}" for _, rows in parts for _, page, _ in rows))
    (directory / "book.toml").write_text(BOOK)
    return parts


class Page(HTMLParser):
    """The ids of a page, and the addresses that it links to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Keeps an id and an address."""
        found = dict(attrs)
        self.ids.add(found.get("id"))
        address = found.get("href") if tag in ("a", "link") else found.get("src")
        if address:
            self.targets.append(address)


def dead(site):
    """The links of a site that lead to no file, or to no place in it."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html") if path.name not in ("404.html", "toc.html")}
    for path, page in pages.items():
        for address in page.targets:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file():
                yield f"{path.relative_to(site)}: {address}: no such file"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{path.relative_to(site)}: {address}: no such place"


def main():
    """Returns the exit status."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--mdbook", default="mdbook")
    options.add_argument("--target", type=Path, default=ROOT / "target")
    asked = options.parse_args()
    made, site = asked.target.resolve() / "site-pages", asked.target.resolve() / "site"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    parts = sources(made)
    subprocess.run([asked.mdbook, "build", made, "--dest-dir", site], check=True)
    (site / "book.toml").unlink(missing_ok=True)
    wrong = [f"{in_site(page)} is missing" for _, rows in parts for _, page, _ in rows if not (site / in_site(page)).with_suffix(".html").exists()]
    wrong += [f"{name} is missing" for name in ("llms.txt", "llms-full.txt") if not (site / name).exists()]
    if not list(site.glob("searchindex*")):
        wrong.append("the search index is missing")
    wrong += sorted(set(dead(site)))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    print(f"{sum(len(rows) for _, rows in parts)} pages in {site}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
