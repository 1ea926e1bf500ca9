"""The check of the documentation site finds what it should. `make docs`, a part of `make lint`, runs it."""

import check_site

GOOD = '<html><body><h1 id="top">Title</h1><a href="#top">up</a><img src="a.png"></body></html>'


def problems(tmp_path, body):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "index.html").write_text(body)
    found, count = check_site.check(tmp_path)
    assert count == 2
    return [line for line in found if line.startswith("guide")]


def test_good_links(tmp_path):
    body = (
        '<a href="../#top">a</a><a href="..">b</a><img src="../a.png"><a href="https://example.org/x">c</a>'
    )
    assert problems(tmp_path, body) == []


def test_bad_links(tmp_path):
    repository = check_site.CONFIGURATION["repo_url"]
    body = (
        '<a href="../#nothing">a</a><a href="../absent/">b</a><img src="b.png">'
        f'<a href="{repository}/blob/main/absent.md">c</a><a href="{repository}/blob/main/README.md">d</a>'
    )
    found = problems(tmp_path, body)
    assert len(found) == 4
    assert not any("README" in line for line in found)


def test_every_page_is_listed_once():
    pages = list(check_site.listed(check_site.CONFIGURATION["nav"]))
    assert len(pages) == len(set(pages))
