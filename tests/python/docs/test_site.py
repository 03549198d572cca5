"""The sources of the site (docs/book.py): each page once, with links to pages and to copies of files. `make site` checks the site itself."""

import re
import sys

import pytest
from pages import ROOT, pages

sys.path.insert(0, str(ROOT / "docs"))
import book  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory of the sources."""
    directory = tmp_path_factory.mktemp("site")
    book.sources(directory)
    return directory


def test_each_page_is_in_the_contents_once(made):
    listed = re.findall(r"\]\(([^)]+)\)", (made / "SUMMARY.md").read_text())
    names = {str(page.relative_to(ROOT)) for page in pages()}
    assert sorted(listed) == sorted(book.in_site(name) for name in names if name in book.tracked())
    assert len(listed) > 100
    # Pages of a folder are below its page.
    assert "\n- [REST reference](docs/reference/rest/index.md)\n  - [" in (made / "SUMMARY.md").read_text()


def test_links_lead_to_files_of_the_site(made):
    for page in made.rglob("*.md"):
        for prose in book.CODE.split(page.read_text())[::2]:
            for target in [found[2] for found in book.LINK.findall(prose)] + book.TAG.findall(prose):
                if not book.urlsplit(target).scheme and not target.startswith("#"):
                    assert (page.parent / target.partition("#")[0]).is_file(), f"{page.relative_to(made)}: {target}"


def test_models_get_a_list_and_all_pages(made):
    assert "- [Install](docs/start/install.html): wheel, programs, " in (made / "llms.txt").read_text()
    bundle = (made / "llms-full.txt").read_text()
    assert all((ROOT / name).read_text().strip() in bundle for name in ("README.md", "docs/reference/errors.md"))


def test_a_dead_link_of_a_site_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="here"></h1><a href="#here"></a><a href="b.html"></a><a href="#gone"></a><img src="c.png">')
    assert list(book.dead(tmp_path)) == ["a.html: b.html: no such file", "a.html: #gone: no such place", "a.html: c.png: no such file"]
