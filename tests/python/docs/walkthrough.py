"""Pages whose blocks are typed in order, as a reader does: a comment in front of a block says which role it has.

- `<!-- file NAME -->`: the block is saved as a file.
- `<!-- step -->`: the block is typed into one shell, with one directory for the whole page.
- `<!-- output -->`: the block is the output of the step before it. `…` stands for any text, and numbers with a unit, ids and times for any other.
"""

import re
import subprocess

BLOCK = re.compile(r"^<!-- (step|output|file (\S+)) -->\n```\w*\n(.*?)^```$", re.S | re.M)
END = "\x1e"

VARYING = (
    (r"\x1b\[[0-9;?]*[a-zA-Z]", ""),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\bexe_[0-9a-f]+_\d+", "EXECUTION"),
    (r"\brun_[0-9a-f]{32}\b", "RUN"),
    (r"\b[0-9a-f]{16,}\b", "HEX"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+\d\d:\d\d)?", "TIME"),
    (r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b", "SPAN"),
    (r"\b\d+(\.\d+)? ?(bytes|kB|MB|GB|[KMGT]iB)\b", "SIZE"),
    # It is written when that takes more than five seconds.
    (r"^Matplotlib is building the font cache; this may take a moment\.\n", ""),
    (r"[ \t]+$", ""),
    (r"(?<=\S)[ \t]{2,}", "  "),
)


def roles(text):
    """(role, name of a file, text of the block) for each block with a role."""
    return [(role.split()[0], name, block) for role, name, block in BLOCK.findall(text)]


def settled(text):
    """The text with everything replaced that differs from run to run."""
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return text.strip()


def agrees(shown, printed):
    """Whether a program printed the output that a page shows."""
    parts = [re.escape(settled(part)) for part in shown.split("…")]
    return re.fullmatch(r"\s*.*?\s*".join(parts), settled(printed), re.S) is not None


def script(text):
    """The script that saves the files and types the steps of a page, with a mark at the end of each step."""
    lines = ["exec 2>&1", "set -e"]
    for role, name, block in roles(text):
        if role == "file":
            lines.append(f"cat > {name} <<'END OF FILE'\n{block}END OF FILE")
        elif role == "step":
            lines.append(f"{block}printf '{END}'")
    return "\n".join(lines)


def walk(text, directory, environment, translate=lambda printed: printed):
    """Types the blocks of a page; (command, shown output or None, printed output) of each step. Fails at the first step that fails.

    `translate` makes of what is printed here what a reader sees.
    """
    done = subprocess.run(
        ["bash", "-c", script(text)],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    printed = [translate(part) for part in done.stdout.split(END)]
    steps = [[block, None] for role, _, block in roles(text) if role == "step"]
    assert done.returncode == 0, f"{steps[min(len(printed), len(steps)) - 1][0]}\n{printed[-1]}"
    at = -1
    for role, _, block in roles(text):
        if role == "step":
            at += 1
        elif role == "output":
            steps[at][1] = block
    return [(command, shown, there) for (command, shown), there in zip(steps, printed, strict=False)]
