"""Parts of other repositories at pinned commits. They are fetched once and are no part of this repository."""

import subprocess


def fetched(cache, repository, commit, *paths):
    """The directory with these paths of a repository at a commit."""
    place = cache / repository.removeprefix("https://github.com/").replace("/", "+")
    if not all((place / path).exists() for path in paths):
        place.mkdir(parents=True, exist_ok=True)
        for command in (
            ["init", "-q"],
            ["fetch", "-q", "--depth=1", repository, commit],
            ["-c", "advice.detachedHead=false", "checkout", "-q", "FETCH_HEAD", "--", *paths],
        ):
            subprocess.run(["git", *command], cwd=place, check=True)
    return place
