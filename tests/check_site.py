"""Check the built documentation site: `python tests/check_site.py site`.

Zensical checks links between pages. This script checks what it leaves out, in the HTML itself: images, links
to files, fragments of pages that were generated from docstrings, and pages that the navigation does not list.
It also checks links from the site to files of the repository. Other sites are not contacted.
"""

import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
CONFIGURATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


class Page(HTMLParser):
    """The addresses that a page refers to, and the names that others may refer to."""

    def __init__(self, path):
        super().__init__()
        self.addresses, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        address = attributes.get("href" if tag in ("a", "link") else "src")
        if address:
            self.addresses.append(address)


def listed(entries):
    """Yield the pages of the navigation."""
    for entry in entries:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from listed(target)


def problem(address, page, pages, site):
    """Return what is wrong with an address on a page, or None."""
    parts = urlsplit(address)
    repository = CONFIGURATION["repo_url"]
    if address.startswith(repository):
        kind, _, path = address.removeprefix(repository).strip("/").partition("/main/")
        wrong = kind in ("blob", "tree") and not (ROOT / path.partition("#")[0]).exists()
        return "no such file in the repository" if wrong else None
    if parts.scheme or parts.netloc:
        return None
    target = page if not parts.path else page.parent / unquote(parts.path)
    if parts.path.startswith("/"):
        target = site / unquote(parts.path).lstrip("/")
    target = target.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "no such file"
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].names | {"__top"}:
        return f"no {fragment!r} on that page"
    return None


def check(site):
    """Return a list of problems."""
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of the server
            continue
        for address in sorted(set(page.addresses)):
            what = problem(address, path, pages, site)
            if what:
                problems.append(f"{path.relative_to(site)}: {address}: {what}")
    docs = ROOT / CONFIGURATION["docs_dir"]
    written = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    wrong = sorted(written ^ set(listed(CONFIGURATION["nav"])))
    problems += [f"{name}: a page must be listed in zensical.toml, and exist" for name in wrong]
    return problems, len(pages)


if __name__ == "__main__":
    found, count = check(Path(sys.argv[1]))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{count} pages, {len(found)} problems")
    sys.exit(bool(found))
