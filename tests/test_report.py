"""The page about a comparison: its content, and that user text cannot inject code."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from budgetron import BudgetClassifier, Forgetron, KernelPerceptron, Projectron, certify, linear, streams
from budgetron._reporting.page import escape, percent
from budgetron._util.units import format_bytes
from budgetron.evaluate import Comparison, compare
from budgetron.report import render, write

matplotlib = pytest.importorskip("matplotlib")

VOID = {"wbr", "meta", "br", "link", "img", "hr"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NASTY = "<script>alert(\"x\")</script> & 'quoted' $a_1$ ünï 日本 " + "x" * 200


class Page(HTMLParser):
    """A parsed page: tags with attributes, tables as lists of rows of text, and all text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.tables, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"duplicate attribute in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closed out of order"

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data

    def all(self, tag, **attributes):
        return [a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in attributes.items())]


@pytest.fixture(scope="module")
def gaussians():
    learners = {
        "Forgetron": Forgetron(50, gamma=1.0),
        "Perceptron": KernelPerceptron(gamma=1.0),
        "linear": linear.Perceptron(),
    }
    return compare(learners, streams.two_gaussians(3000, random_state=0))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    learners = {"Projectron": Projectron(eta=0.3, gamma=0.05), "Forgetron": Forgetron(20, gamma=0.05)}
    return compare(learners, (X[:600] / 16, y[:600]), window=200)


@pytest.fixture(scope="module")
def certificates():
    X, y = streams.two_gaussians(300, random_state=0)
    model = KernelPerceptron(gamma=0.5)
    certificate = certify(model, X, y, model.progressive_fit(X, y))
    return {"Perceptron": certificate, "Forgetron": "the budget <is> too small"}


def in_order(comparison):
    """Return the results, best first."""
    return sorted(comparison.results, key=lambda result: result.mistakes)


def check_numbers(page, comparison, tables):
    """Compare the numbers in the tables of a page with the results."""
    learners, *confusions = tables
    for result, row, confusion in zip(in_order(comparison), learners[1:], confusions, strict=True):
        assert row[:5] == [
            result.name,
            percent(result.error_rate),
            percent(result.window_error),
            percent(result.balanced_accuracy),
            f"{result.mistakes:,}",
        ]
        assert row[5] == (f"{result.supports:,}" if result.supports else "-")
        assert row[6] == format_bytes(result.nbytes)
        assert page.all("td", title=f"{result.nbytes:,} bytes")
        counts = [[int(cell.replace(",", "")) for cell in line[1:-2]] for line in confusion[1:]]
        np.testing.assert_array_equal(counts, result.confusion)
        assert confusion[0][1:-2] == [str(label) for label in result.classes]
    labels = [svg["aria-label"] for svg in page.all("svg", role="img")]
    assert any(
        f"{in_order(comparison)[0].name} {percent(comparison.best().error_rate)} %" in a for a in labels
    )


def test_structure(gaussians):
    text = render(gaussians, title="A title", command="budgetron compare a & b")
    assert text.startswith("<!DOCTYPE html>\n")
    page = Page(text)
    assert page.all("html", lang="en")
    assert page.all("meta", charset="utf-8")
    assert page.all("meta", name="viewport")
    assert len(page.all("title")) == 1 + 5 * 3, "one of the page, one of each curve"
    assert len(page.all("h1")) == 1
    assert len(page.all("figure")) == len(page.all("svg", role="img")) == 5
    assert len(page.all("details")) == 1 + 2, "parameters, and all confusion matrices but the first"
    assert "budgetron compare a & b" in page.text
    assert f"NumPy {np.__version__}" in page.text
    assert re.search(r"\d\d:\d\d UTC", page.text)


def test_the_summary_comes_first_and_all_numbers_are_correct(gaussians):
    page = Page(render(gaussians))
    best = gaussians.best()
    summary = f"{best.name} made the fewest mistakes of 3 learners: {best.mistakes:,} in 3,000 rounds, "
    assert summary + f"an error of {percent(best.error_rate)} %" in page.text
    assert page.text.index("fewest mistakes") < page.text.index("Sorted by error")
    check_numbers(page, gaussians, page.tables)


def test_best_of_a_column_is_marked(gaussians):
    text = render(gaussians)
    assert f'<td class="best">{percent(gaussians.best().error_rate)}</td>' in text
    single = Comparison({"alone": Forgetron(10, gamma=1.0)}, [-1, 1])
    single.learn(*streams.two_gaussians(100, random_state=0))
    text = render(single)
    assert 'class="best"' not in text, "a single learner is not marked"
    assert f"made {single.best().mistakes} mistakes in 100 rounds" in Page(text).text


def test_several_streams(gaussians, digits):
    page = Page(render({"two <Gaussians>": gaussians, "digits": digits}))
    assert len(page.all("section")) == 2
    assert page.all("a", href="#stream-1")
    assert page.all("section", id="stream-2")
    overview, *tables = page.tables
    assert [row[0] for row in overview[1:]] == ["two <Gaussians>", "digits"]
    check_numbers(page, gaussians, tables[:4])
    check_numbers(page, digits, tables[4:])


def test_a_learner_has_one_colour_everywhere(gaussians, digits):
    text = render({"a": gaussians, "b": digits})
    swatches = re.findall(r'fill="([^"]+)"[^>]*>(?:(?!</svg>).)*</svg><span>(\w+)</span>', text)
    assert len(dict.fromkeys(swatches)) == len({name for _, name in swatches}) == 4
    for colour, _ in swatches:
        assert f"stroke: {colour}".lower() in text.lower()


def test_ids_are_unique_and_references_are_internal(gaussians, digits):
    text = render({"a": gaussians, "b": digits})
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 2
    references = re.findall(r'(?:url\(|href=")([^")]+)', text)
    assert references
    assert {reference[1:] for reference in references} <= set(ids)
    assert all(reference.startswith("#") for reference in references)
    assert not re.search(r"<script|<link|<img|@import|\bsrc=|\son\w+=", text)
    assert set(re.findall(r'https?://[^"\s<]+', text)) <= {"http://www.w3.org/1999/xlink"}


def test_names_are_escaped():
    X, y = streams.two_gaussians(200, random_state=0)
    labels = np.where(y > 0, NASTY, "b<&>")
    results = compare(
        {NASTY: Forgetron(10, gamma=1.0), "lone \udcff \x00": Forgetron(5, gamma=1.0)}, (X, labels)
    )
    text = render({NASTY: results}, title=NASTY, certificates={NASTY: {NASTY: NASTY}}, command=NASTY)
    page = Page(text)
    assert not page.all("script")
    assert page.text.count(NASTY) >= 8
    assert any(NASTY in (attributes.get("aria-label") or "") for _, attributes in page.tags)
    text.encode()
    assert escape("a\udcff\x00") == "a?\ufffd"


def test_certificates(gaussians, certificates):
    page = Page(render(gaussians, certificates=certificates))
    certificate = certificates["Perceptron"]
    text = " ".join(page.text.split())
    assert f"{certificate.count:,} mistakes in 300 rounds, bound {certificate.bound:,.0f}" in text
    assert "The bound holds" in text
    assert "is vacuous" not in text
    assert certificate.theorem in text
    assert all(f"holds: {assumption.text}" in text for assumption in certificate.assumptions)
    assert text.count("✓") == len(certificate.assumptions)
    assert "No certificate: the budget <is> too small" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bound": 300.0}, "is vacuous: it is at least the number of rounds"),
        ({"bound": np.inf}, "bound infinite"),
        ({"bound": 1.0}, "The bound is violated"),
        ({"bound": 0.0}, "The bound is violated"),
        ({"bound": 1.0, "quantity": "expected mistakes"}, "The bound was exceeded, which may happen"),
        ({"shift": 2.5}, "drifts by 2.5"),
        ({"bound": 200.0, "most": 200}, "is vacuous: it is at least 200, which is known anyway"),
        ({"norm": np.nan, "losses": 7.0}, ": mistakes 7 "),
        ({"count": 12.345}, "12.3 mistakes in 300 rounds"),
        ({"assumptions": []}, "no further assumptions"),
    ],
)
def test_verdicts_of_certificates(gaussians, certificates, changes, words):
    certificate = replace(certificates["Perceptron"], **changes)
    page = Page(render({"a": gaussians}, certificates={"a": {"Perceptron": certificate}}))
    assert words in " ".join(page.text.split())


def test_an_assumption_that_does_not_hold(gaussians, certificates):
    certificate = certificates["Perceptron"]
    certificate = replace(certificate, assumptions=[replace(certificate.assumptions[0], holds=False)])
    text = Page(render(gaussians, certificates={"Perceptron": certificate})).text
    assert "does not apply" in text
    assert "✗" in text


def test_certificates_of_unknown_learners(gaussians):
    with pytest.raises(ValueError, match=r"learners in .*got 'Forgotten'"):
        render(gaussians, certificates={"Forgotten": "?"})
    with pytest.raises(ValueError, match="stream names"):
        render({"a": gaussians}, certificates={"Forgetron": "?"})
    with pytest.raises(TypeError, match="Certificate or a str"):
        render(gaussians, certificates={"Forgetron": 3})
    with pytest.raises(ValueError, match="at least one stream"):
        render({})


def test_many_classes_are_reported_in_pairs():
    rng = np.random.default_rng(0)
    results = compare({"a": Forgetron(10, gamma=1.0)}, (rng.normal(size=(200, 3)), np.arange(200) % 20))
    page = Page(render(results))
    assert len(page.tables) == 1
    wrong = results.best().confusion - np.diag(np.diag(results.best().confusion))
    i, j = divmod(int(wrong.argmax()), 20)
    assert f"{i} predicted as {j}: {wrong[i, j]} round" in page.text
    assert page.text.count(" predicted as ") == 12


def test_twenty_learners():
    learners = {f"Forgetron {i}": Forgetron(5 + i, gamma=1.0) for i in range(20)}
    page = Page(render(compare(learners, streams.two_gaussians(500, random_state=0))))
    assert len(page.tables[0]) == 21
    assert len(page.tables) == 1 + 12
    assert "The 12 learners with the fewest mistakes" in page.text


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_short_streams(rounds):
    comparison = Comparison({"a": Forgetron(5, gamma=1.0), "b": linear.Perceptron()}, [-1, 1])
    if rounds:
        comparison.learn(np.ones((rounds, 2)), np.ones(rounds, int))
    page = Page(render(comparison))
    assert ("No rounds were played" in page.text) == (rounds == 0)
    assert len(page.all("figure")) == (4 if rounds else 0)
    Page(render({"a": comparison, "b": comparison}))


def test_unknown_size_and_delayed_labels():
    X, y = streams.two_gaussians(60, random_state=0)
    page = Page(render(compare({"SGD": SGDClassifier(random_state=0)}, (X, y), delay=3)))
    assert page.tables[0][1][5:7] == ["-", "-"]
    assert len(page.all("figure")) == 2, "no plots of supports and bytes"
    assert "Labels arrived 3 rounds late." in page.text


def test_the_page_is_reproducible(gaussians, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    page = render(gaussians)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.color": "white"}):
        assert render(gaussians) == page, "the user's settings have no effect"
        assert matplotlib.rcParams["font.size"] == 30
    assert "01 January 1970, 00:00 UTC" in render(gaussians)


def test_write(gaussians, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    write(path, gaussians, title="new")
    assert path.read_text(encoding="utf-8") == render(gaussians, title="new")
    assert os.listdir(tmp_path) == ["page.html"]


def test_write_is_atomic(gaussians, tmp_path, monkeypatch):
    missing = tmp_path / "missing" / "page.html"
    with pytest.raises(FileNotFoundError, match=re.escape(repr(str(missing.parent)))):
        write(missing, gaussians)
    with pytest.raises(OSError, match=re.escape(repr(str(tmp_path)))):
        write(tmp_path, gaussians)  # a folder
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*page\.html"):
        write(str(path), gaussians)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


# ---------------------------------------------------------------------- relevant features


def relevant(n=600, d=20, seed=0):
    """Return rows whose class depends on the features 3 and, less, 11."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 3] + 0.3 * X[:, 11] > 0).astype(int)


class NamedStream:
    """A stream with names of its features."""

    def __init__(self, names):
        self.X, self.y = relevant(d=len(names))
        self.feature_names, self.classes = names, np.array([0, 1])

    def __iter__(self):
        return iter([(self.X, self.y)])


@pytest.fixture(scope="module")
def scaled():
    """Return a comparison in which two of three learners have learned feature scales."""
    learners = {
        "small": BudgetClassifier("1MB", random_state=0),
        "large": BudgetClassifier("2MB", random_state=0),
        "linear": linear.Perceptron(),
    }
    return compare(learners, NamedStream([f"column <{i}>" for i in range(20)]))


def test_relevant_features_are_shown_by_name(scaled):
    page = Page(render(scaled))
    assert "Most relevant features" in page.text
    tables = [rows for rows in page.tables if rows[0][0] == "Feature"]
    with_scales = [result for result in in_order(scaled) if result.name != "linear"]
    for rows, result in zip(tables, with_scales, strict=True):
        importances = result.model.feature_importances_
        order = np.argsort(-importances, kind="stable")[:12]
        assert order[0] == 3
        assert rows[1:] == [[f"column <{i}>", "", percent(importances[i])] for i in order]
        rest = percent(1.0 - importances[order].sum())
        assert f"The other 8 features together have {rest}\N{NO-BREAK SPACE}%." in page.text
    widths = [attributes.get("style") for attributes in page.all("i")]
    assert widths.count("width:100.0%") >= 2, "the bar of the most important feature has the full width"
    assert f"<summary>{with_scales[1].name}</summary>" in render(scaled)


def test_no_features_are_shown_before_scales_are_learned(gaussians):
    assert "relevant features" not in render(gaussians)
    X, y = relevant(n=100)
    early = compare([BudgetClassifier("1MB", random_state=0)], (X, y))
    assert np.ptp(early[0].model.feature_importances_) == 0.0
    assert "relevant features" not in render(early)


def test_names_of_features():
    X, y = relevant(d=12)
    learners = [BudgetClassifier("1MB", random_state=0)]
    numbered = Page(render(compare(learners, (X, y))))
    [rows] = [rows for rows in numbered.tables if rows[0][0] == "Feature"]
    assert rows[1][0] == "feature 3"
    assert len(rows) == 1 + 12
    assert "The other" not in numbered.text
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"{NASTY} {i}" for i in range(12)])
    named = Page(render(compare(learners, (frame, y))))
    [rows] = [rows for rows in named.tables if rows[0][0] == "Feature"]
    assert rows[1][0] == f"{NASTY} 3"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_a_browser_shows_the_page(gaussians, digits, scaled, certificates, tmp_path):
    streams_shown = {"a": gaussians, "b": digits, "c": scaled}
    write(tmp_path / "page.html", streams_shown, certificates={"a": certificates})
    picture = tmp_path / "page.png"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--screenshot={picture}",
        "--window-size=390,1200",
        (tmp_path / "page.html").as_uri(),
    ]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    from matplotlib.image import imread

    shown = imread(picture)
    assert shown.shape[:2] == (1200, 390)
    assert shown.std() > 0.05, "more than a blank page"


def test_learners_that_cost_less_are_named():
    X, y = streams.two_gaussians(500, random_state=0)
    comparison = compare(
        {"best": Forgetron(80, gamma=1.0), "cheap": Forgetron(10), "bad": Forgetron(40)}, (X, y)
    )
    for name, mistakes, seconds in (("best", 10, 2.0), ("cheap", 20, 0.1), ("bad", 30, 3.0)):
        comparison[name].confusion = np.array([[500 - mistakes, mistakes], [0, 0]])
        comparison[name].seconds = seconds
    share = 100 * comparison["cheap"].nbytes / comparison["best"].nbytes
    text = Page(render(comparison)).text
    assert f"cheap 4.00 % in 5.0 % of the time and {share:.0f} % of the memory" in text
    assert "learners that take less time or less memory: cheap" in text
    assert "bad 6.00 %" not in text


def test_ticks_of_memory_are_round_sizes():
    X, y = streams.two_gaussians(500, random_state=0)
    comparison = compare({"a": Forgetron(80), "b": Forgetron(10), "c": Forgetron(200)}, (X, y))
    figure = comparison.plot()
    figure.draw_without_rendering()
    (axis,) = (axis for axis in figure.axes if axis.get_xlabel() == "memory at the end")
    labels = [tick.get_text() for tick in axis.get_xticklabels()]
    assert len(labels) >= 2
    assert all(float(label.split()[0]).is_integer() for label in labels), labels
