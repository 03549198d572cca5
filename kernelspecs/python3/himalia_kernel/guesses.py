"""Guesses at a misspelt name, from bounded lists of names."""

import difflib
import os

# Candidates that are compared, and characters of each.
CANDIDATES = 1000
LENGTH = 80
_SHOWN = 12  # of a list that is shown if nothing is close
_CLOSE = 3
_SHORT_NAME = 4  # characters up to which two names are close only if a single edit is between them


def meant(wanted, candidates, shown=None):
    """`did you mean …?`, or what there is instead if `shown` says how to call that; None for neither."""
    if type(wanted) is not str:
        return None
    candidates = [name for name in candidates if type(name) is str and 0 < len(name) <= LENGTH]
    candidates = list(dict.fromkeys(candidates))[:CANDIDATES]
    folded = {name.casefold(): name for name in reversed(candidates)}
    close = difflib.get_close_matches(wanted[:LENGTH].casefold(), folded, _CLOSE, 0.6)
    close = [folded[name] for name in close if folded[name] != wanted]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if shown is None or not candidates:
        return None
    more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
    return f"{shown}: {', '.join(map(repr, candidates[:_SHOWN]))}{more}"


def nearly(wanted, candidates):
    """Names that are one edit away from `wanted`, or two from a longer one, the nearest first."""
    most = 1 if len(wanted) <= _SHORT_NAME else 2
    folded = wanted[:LENGTH].casefold()
    names = [name for name in dict.fromkeys(candidates) if abs(len(name) - len(folded)) <= most and name != wanted]
    found = [(_edits(folded, name.casefold()), name) for name in names]
    return [name for edits, name in sorted(found) if edits <= most][:_CLOSE]


def _edits(one, other):
    """Insertions, deletions, replacements and swaps of neighbours between two texts."""
    above, rows = [], [list(range(len(other) + 1))]
    for i, left in enumerate(one, start=1):
        before, row = rows[-1], [i]
        for j, right in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if above and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        above = before
        rows.append(row)
    return rows[-1][-1]


def listing(directory, limit=CANDIDATES):
    """Names in a directory, at most `limit`, sorted; none if it cannot be read."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if len(found) >= limit:
                    break
                if not entry.name.startswith("."):
                    found.append(entry.name)
    except OSError:
        pass
    return sorted(found)
