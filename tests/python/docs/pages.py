"""The project's Markdown pages: their links, their headings, and the blocks that say that they can be run."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FENCE = re.compile(r"^(<!-- run -->\n)?```(\w*)\n(.*?)^```$", re.S | re.M)


def pages():
    """Every Markdown page that is part of the project."""
    # Also in a checkout of another user.
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "--cached", "*.md"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def prose(page):
    """The text without blocks of code and without code in lines, where brackets mean something else."""
    text = FENCE.sub("", page.read_text())
    return re.sub(r"(`+)[^`].*?\1", "", text)


def links(page):
    """Targets of links and pictures."""
    text = prose(page)
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", text)
    return found + re.findall(r'<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]+)"', text)


def anchors(page):
    """What a link can name in a page, as GitHub makes it from headings."""
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text()))
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", FENCE.sub("", page.read_text()), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count, name = 0, slug
        while name in found:
            count += 1
            name = f"{slug}-{count}"
        found.add(name)
    return found


def blocks(page, language=None):
    """The blocks of code as (can be run, language, text)."""
    found = [(bool(run), kind, text) for run, kind, text in FENCE.findall(page.read_text())]
    return [block for block in found if language is None or block[1] == language]
