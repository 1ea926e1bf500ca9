"""The loaders: real files if they are available, imitations of OpenML's data sets, and errors."""

import gzip
import json
import os
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

from budgetron import datasets
from budgetron.datasets._catalogue import CATALOGUE

FOLDER = os.environ.get("BUDGETRON_DATA", "")
PRESENT = {known.name for known in datasets.available() if known.present}
PARTS = [(name, part) for name, entry in CATALOGUE.items() for part in entry.parts]
SPARSE = {"adult", "phishing", "census_income"}


def loader(name):
    return getattr(datasets, f"load_{name}")


def load(name, part, **options):
    if len(CATALOGUE[name].parts) > 1:
        options["subset"] = part
    if name == "census_income":
        options["balanced"] = False
    return loader(name)(**options)


def needs(name):
    if name not in PRESENT:
        pytest.skip(f"{name} is not in the folder given by BUDGETRON_DATA")


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("BUDGETRON_DATA", raising=False)


@pytest.fixture
def openml(monkeypatch, no_folder):
    """Replace OpenML by `answers["bunch"]`; `answers["asked"]` holds the arguments of the call."""
    answers = {}

    def fetch(**options):
        answers["asked"] = options
        if isinstance(answers["bunch"], Exception):
            raise answers["bunch"]
        return answers["bunch"]

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fetch)
    return answers


def bunch(data, target, categories=None):
    names = [f"V{i + 1}" for i in range(data.shape[1])]
    return Bunch(data=data, target=target, feature_names=names, categories=categories or {})


def published(name, labels, order=None):
    """Return labels with the published class counts, part after part."""
    parts = CATALOGUE[name].parts
    return np.concatenate([np.repeat(labels, parts[part].counts) for part in order or parts])


# ---------------------------------------------------------------------- the folder


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_folder(name, part):
    needs(name)
    entry = CATALOGUE[name]
    data = load(name, part, dtype=np.float32)
    X, y = data
    assert X.shape == (entry.parts[part].rows, entry.features)
    assert X.dtype == np.float32
    assert np.unique(y, return_counts=True)[1].tolist() == list(entry.parts[part].counts)
    assert sparse.issparse(X) == (name in SPARSE)
    assert data.source == "folder"
    assert data.feature_names is None or len(data.feature_names) == entry.features
    assert "\n" not in data.description


def test_values_of_the_folder():
    for name in ("adult", "covertype", "electricity", "letter", "mnist", "phishing", "usps"):
        needs(name)
    X, y = datasets.load_adult()
    assert set(X.data) == {1.0}
    assert X.dtype == np.float64
    assert set(y) == {-1, 1}
    X, y = datasets.load_covertype(dtype=np.float32)
    assert X[0, :3].tolist() == [2596, 51, 3]
    assert y[:5].tolist() == [5, 5, 2, 2, 5]
    X, y = datasets.load_electricity()
    assert X[0, :4].tolist() == [0, 2, 0, 0.056443]
    assert (np.diff(X[:, 0]) >= 0).mean() > 0.99  # the date: rows are ordered by time
    assert y[0] == "UP"
    X, y = datasets.load_letter()
    np.testing.assert_allclose(X[0, :3], np.array([2, 4, 4]) / 7.5 - 1, atol=1e-6)
    assert y[0] == 26
    X, y = datasets.load_mnist("test")
    assert (X.min(), X.max()) == (0, 1)
    np.testing.assert_allclose(datasets.load_phishing().X.power(2).sum(axis=1), 1, atol=1e-3)
    X, y = datasets.load_usps()
    assert X.shape == (9298, 256)
    assert (X.min(), X.max()) == (-1, 1)
    assert X.flags.c_contiguous
    assert y.dtype == np.int64


def test_all_is_train_then_test():
    needs("letter")
    train, test, both = (datasets.load_letter(subset) for subset in ("train", "test", "all"))
    np.testing.assert_array_equal(both.X, np.vstack([train.X, test.X]))
    np.testing.assert_array_equal(both.y, np.concatenate([train.y, test.y]))


def test_uncompressed_files_are_read(tmp_path, monkeypatch):
    needs("phishing")
    (tmp_path / "phishing").write_bytes(gzip.decompress((Path(FOLDER) / "phishing.gz").read_bytes()))
    expected = datasets.load_phishing()
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path))
    assert (datasets.load_phishing().X != expected.X).nnz == 0


# ---------------------------------------------------------------------- census


def test_census_balanced():
    needs("census_income")
    X, y = datasets.load_census_income(random_state=0)
    assert X.shape == (24764, 510)
    assert np.bincount(y).tolist() == [12382, 12382]
    # In random order: each tenth has about the same number of both classes, and half the neighbours differ.
    assert all(abs(tenth.mean() - 0.5) < 0.05 for tenth in np.array_split(y, 10))
    assert abs((y[1:] != y[:-1]).mean() - 0.5) < 0.02

    again = datasets.load_census_income(random_state=0)
    assert (again.X != X).nnz == 0
    np.testing.assert_array_equal(again.y, y)
    assert not np.array_equal(datasets.load_census_income(random_state=1).y, y)


def test_census_keeps_every_positive_and_draws_once():
    needs("census_income")
    rows = datasets.load_census_income("test", balanced=False, numeric="raw")
    drawn = datasets.load_census_income("test", random_state=3, numeric="raw")
    positives = [data.X[data.y == 1].sum(axis=0) for data in (rows, drawn)]
    np.testing.assert_allclose(*positives)


def test_census_features():
    needs("census_income")
    data = datasets.load_census_income(random_state=0, numeric="raw")
    assert data.feature_names[0] == "age"
    assert data.X[:, 0].max() <= 90
    indicators = data.X[:, 7:]
    assert set(indicators.data) == {1.0}
    assert (indicators.sum(axis=1) == 33).all()
    sex = [i for i, name in enumerate(data.feature_names) if name.startswith("sex=")]
    assert (data.X[:, sex].sum(axis=1) == 1).all()

    unit = datasets.load_census_income(balanced=False).X[:, :7].toarray()
    assert unit.min(axis=0).tolist() == [0] * 7
    assert unit.max(axis=0).tolist() == [1] * 7
    standard = datasets.load_census_income(balanced=False, numeric="standard").X[:, :7].toarray()
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(standard.std(axis=0), 1)


# ---------------------------------------------------------------------- OpenML


def test_openml_is_asked_for_the_right_entry(openml, tmp_path):
    openml["bunch"] = URLError("no network")
    asked = {}
    for name in CATALOGUE:
        with pytest.raises(datasets.DataNotFoundError):
            loader(name)(data_home=tmp_path)
        asked[name] = openml["asked"]
    assert {name: options.get("data_id") for name, options in asked.items()} == {
        "adult": 1430,
        "census_income": 4535,
        "covertype": 1596,
        "electricity": 151,
        "ijcnn1": 1575,
        "letter": 6,
        "mnist": 554,
        "phishing": 4534,
        "spambase": 44,
        "usps": 41082,
        "vehicle": None,
    }
    assert asked["vehicle"]["name"] == "SensIT-Vehicle-Combined"
    for options in asked.values():
        assert options["data_home"] == tmp_path
        assert options["cache"] is True
        assert options["as_frame"] is False
        assert options["parser"] == "auto"  # pandas is installed


def test_openml_without_pandas(openml, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    openml["bunch"] = URLError("no network")
    with pytest.raises(datasets.DataNotFoundError):
        datasets.load_mnist()
    assert openml["asked"]["parser"] == "liac-arff"


def test_adult_from_openml(openml):
    y = published("adult", ["-1", "1"])
    X = sparse.csr_matrix(
        (np.ones(len(y)), (np.arange(len(y)), np.arange(len(y)) % 123)), shape=(len(y), 123)
    )
    openml["bunch"] = bunch(X, y.astype(object))
    data = datasets.load_adult("test")
    assert data.source == "OpenML"
    assert data.X.shape == (16281, 123)
    assert (X[32561:] != data.X).nnz == 0
    assert set(data.y) == {-1, 1}


@pytest.mark.parametrize("order", [("train", "test", "tr", "val"), ("test", "tr", "train", "val")])
def test_ijcnn1_from_openml(openml, order):
    counts = {"tr": (31585, 3415), "val": (13552, 1438)}
    counts |= {name: part.counts for name, part in CATALOGUE["ijcnn1"].parts.items()}
    y = np.concatenate([np.repeat([-1, 1], counts[name]) for name in order])
    mark = np.concatenate([np.full(sum(counts[name]), 1.0 + i) for i, name in enumerate(order)])
    X = sparse.csr_matrix((mark, (np.arange(len(y)), np.zeros(len(y), int))), shape=(len(y), 22))
    openml["bunch"] = bunch(X, y.astype(str).astype(object))
    for part in ("train", "test"):
        data = datasets.load_ijcnn1(part)
        assert np.unique(data.X[:, 0]).tolist() == [1.0 + order.index(part)]


@pytest.mark.parametrize("coded", [False, True])
def test_electricity_from_openml(openml, coded):
    y = published("electricity", ["DOWN", "UP"])
    X = np.random.default_rng(0).random((len(y), 8))
    days = np.arange(len(y)) % 7
    if coded:  # as the parser without pandas returns it
        X[:, 1] = days
        openml["bunch"] = bunch(X, y, {"V2": [str(day + 1) for day in range(7)]})
    else:
        frame = X.astype(object)
        frame[:, 1] = (days + 1).astype(str)
        openml["bunch"] = bunch(frame, y.astype(object), {"V2": [str(day + 1) for day in range(7)]})
    data = datasets.load_electricity()
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X[:, 1], days + 1)
    np.testing.assert_array_equal(data.X[:, 2], X[:, 2])
    assert data.y[0] == "DOWN"


def test_letter_from_openml(openml):
    y = published("letter", [chr(65 + i) for i in range(26)])
    X = np.random.default_rng(0).integers(0, 16, (len(y), 16))
    openml["bunch"] = bunch(X, y.astype(object))
    data = datasets.load_letter("test")
    np.testing.assert_array_equal(data.X, X[15000:] / 7.5 - 1)
    assert (data.y[0], data.y[-1]) == (1, 26)


def test_mnist_from_openml(openml):
    y = published("mnist", list("0123456789"))
    X = np.zeros((len(y), 784), dtype=np.uint8)
    X[:, 5] = 255
    openml["bunch"] = bunch(X, y.astype(object))
    data = datasets.load_mnist("test", dtype=np.float32)
    assert data.X.shape == (10000, 784)
    assert data.X[:, 5].min() == 1
    assert data.y[-1] == 9


@pytest.mark.parametrize("low", [-1, 0])
def test_usps_from_openml(openml, low):
    y = published("usps", [str(digit + 1) for digit in range(10)])
    X = np.random.default_rng(0).uniform(low, 1, (len(y), 256))
    openml["bunch"] = bunch(X, y.astype(object))
    data = datasets.load_usps()
    assert data.X.min() < -0.99
    assert data.X.max() > 0.99
    assert set(data.y) == set(range(10))


def test_phishing_from_openml(openml):
    y = published("phishing", ["-1", "1"])
    rng = np.random.default_rng(0)
    X = rng.choice([-1, 1], (len(y), 30))
    X[:, :8] = rng.integers(-1, 2, (len(y), 8))
    openml["bunch"] = bunch(X.astype(str).astype(object), y.astype(object))
    data = datasets.load_phishing()
    assert data.X.shape == (11055, 68)
    assert set(data.X.data) == {0.18257}
    assert data.X[0].indices.tolist() == list(range(30))  # numbered by first occurrence
    new = data.X[1].indices[data.X[1].indices >= 30]
    assert new.tolist() == list(range(30, 30 + len(new)))
    same = (X[:50, None] == X[None, :50]).sum(axis=2)
    np.testing.assert_allclose((data.X[:50] @ data.X[:50].T).toarray(), same * 0.18257**2)
    assert set(data.y) == {0, 1}


def test_spambase_and_covertype_from_openml(openml):
    y = published("spambase", ["0", "1"])
    openml["bunch"] = bunch(np.ones((len(y), 57)), y.astype(object))
    assert datasets.load_spambase().X.shape == (4601, 57)
    y = published("covertype", list("1234567"))
    openml["bunch"] = bunch(np.ones((len(y), 54), dtype=np.int8), y)
    assert datasets.load_covertype(dtype=np.float32).y.max() == 7


def test_vehicle_from_openml(openml):
    y = np.resize(["1", "2", "3"], 98528)
    openml["bunch"] = bunch(sparse.eye_array(98528, 100, format="csr"), y)
    data = datasets.load_vehicle("test", dtype=np.float32)
    assert data.X.shape == (19705, 100)
    assert isinstance(data.X, np.ndarray)


def test_census_from_openml(openml, monkeypatch):
    """The rows of the folder, in UCI's columns with blanks and missing values, are loaded unchanged."""
    needs("census_income")
    with np.load(Path(FOLDER) / "census-income.npz") as file:
        arrays = {name: file[name] for name in file.files}
    numeric = [0, 5, 16, 17, 18, 30, 39]
    nominal = [i for i in range(41) if i not in [*numeric, 24]]
    num = np.vstack([arrays["num_train"], arrays["num_test"]])
    cat = np.vstack([arrays["cat_train"], arrays["cat_test"]])
    X = np.empty((len(num), 41), dtype=object)
    X[:, numeric] = num
    X[:, 24] = 1.5
    for j, column in enumerate(nominal):
        levels = arrays[f"levels_{j:02}"].astype(object)
        levels[levels == "?"] = np.nan
        X[:, column] = levels[cat[:, j]]
    X[:, 2] = X[:, 2].astype(float)  # codes of industries may be parsed as numbers
    y = np.where(np.concatenate([arrays["y_train"], arrays["y_test"]]), " 50000+.", " - 50000.").astype(
        object
    )
    openml["bunch"] = bunch(X, y)
    data = datasets.load_census_income("test", random_state=0)
    assert openml["asked"]["target_column"] == "V42"
    assert data.feature_names[-1] == "V41=95"
    monkeypatch.setenv("BUDGETRON_DATA", FOLDER)
    expected = datasets.load_census_income("test", random_state=0)
    assert (data.X != expected.X).nnz == 0
    np.testing.assert_array_equal(data.y, expected.y)


def test_openml_in_another_order(openml):
    y = published("letter", [chr(65 + i) for i in range(26)])[::-1]
    openml["bunch"] = bunch(np.zeros((len(y), 16)), y)
    with pytest.raises(datasets.UnexpectedDataError, match="the train part of data set 6 on OpenML"):
        datasets.load_letter()
    assert len(datasets.load_letter("all").y) == 20000


def test_openml_in_another_form(openml):
    openml["bunch"] = bunch(np.full((5, 30), "a word", dtype=object), np.ones(5))
    with pytest.raises(
        datasets.UnexpectedDataError, match="4534 on OpenML does not have the form that load_phishing expects"
    ):
        datasets.load_phishing()


# ---------------------------------------------------------------------- errors


def test_not_found(openml, monkeypatch, tmp_path):
    openml["bunch"] = URLError("no network")
    with pytest.raises(
        datasets.DataNotFoundError, match=r"BUDGETRON_DATA is not set.*1430.*no network.*a9a\.gz"
    ):
        datasets.load_adult()
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path))
    with pytest.raises(
        OSError, match=rf"{tmp_path}.*has no a9a\.gz and a9a\.t\.gz.*no network.*a folder with"
    ):
        datasets.load_adult("all")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("adult", "a9a.gz"),
        ("census_income", "census-income.npz"),
        ("covertype", "covtype.npz"),
        ("electricity", "electricity.csv.gz"),
        ("mnist", "mnist-train-images-idx3-ubyte.gz"),
        ("mnist", "mnist-train-labels-idx1-ubyte.gz"),
        ("spambase", "spambase.data.gz"),
        ("usps", "usps.npz"),
    ],
)
@pytest.mark.parametrize("how", ["truncated", "nonsense", "empty"])
def test_damaged_file(name, file, how, tmp_path, monkeypatch):
    needs(name)
    content = (Path(FOLDER) / file).read_bytes()
    content = {"truncated": content[: len(content) // 2], "nonsense": b"nonsense" * 50, "empty": b""}[how]
    for other in (path for part in CATALOGUE[name].parts.values() for path in part.files):
        for whole in Path(FOLDER).glob(f"{other}*"):
            if not (tmp_path / whole.name).exists():
                (tmp_path / whole.name).symlink_to(whole)
    (tmp_path / file).unlink()
    (tmp_path / file).write_bytes(content)
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path))
    with pytest.raises(datasets.UnexpectedDataError, match=file):
        loader(name)()


def test_rows_missing(tmp_path, monkeypatch):
    (tmp_path / "phishing").write_text("1 1:0.5\n0 2:0.5\n")
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path))
    with pytest.raises(datasets.UnexpectedDataError, match=r"phishing: 2 x 68 .* has 11,055 x 68"):
        datasets.load_phishing()


def test_arguments(no_folder):
    with pytest.raises(ValueError, match="subset must be 'train', 'test' or 'all', not 'validation'"):
        datasets.load_adult("validation")
    with pytest.raises(ValueError, match="subset must be"):
        datasets.load_census_income("some")
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        datasets.load_mnist(dtype=int)
    with pytest.raises(ValueError, match="numeric must be"):
        datasets.load_census_income(numeric="log")


# ---------------------------------------------------------------------- the list


def test_available(no_folder, openml, tmp_path, monkeypatch):
    openml["bunch"] = AssertionError("nothing is fetched")
    known = {entry.name: entry for entry in datasets.available(data_home=tmp_path)}
    assert sorted(known) == list(known) == sorted(CATALOGUE)
    assert all(hasattr(datasets, entry.loader) for entry in known.values())
    assert not any(entry.present or entry.cached for entry in known.values())
    assert known["adult"].rows == {"train": 32561, "test": 16281}
    assert known["vehicle"].openml_id is None
    assert known["vehicle"].cached is None
    assert not list(tmp_path.iterdir())

    (tmp_path / "phishing.bz2").touch()
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path))
    present = [entry.name for entry in datasets.available(data_home=tmp_path) if entry.present]
    assert present == ["phishing"]


def test_cached(no_folder, tmp_path):
    def cached():
        return next(
            entry.cached for entry in datasets.available(data_home=tmp_path) if entry.name == "spambase"
        )

    cache = tmp_path / "openml" / "openml.org"
    about = cache / "api" / "v1" / "json" / "data" / "44.gz"
    about.parent.mkdir(parents=True)
    url = "https://www.openml.org/data/v1/download/44/spambase.arff"
    about.write_bytes(gzip.compress(json.dumps({"data_set_description": {"url": url}}).encode()))
    assert cached() is False
    file = cache / "data" / "v1" / "download" / "44" / "spambase.arff.gz"
    file.parent.mkdir(parents=True)
    file.touch()
    assert cached() is True
    about.write_bytes(b"")
    assert cached() is None
