"""Streams over arrays and files: their rows, for any size of blocks, and their error messages."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import subprocess
import sys
from copy import copy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.datasets import dump_svmlight_file

from budgetron import streams
from budgetron._util import running
from budgetron.streams import Encoder, StreamError, _bytes, arrays, frame, read
from budgetron.streams._running import Running

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")


def gather(stream):
    """Return all blocks joined."""
    blocks = list(stream)
    X = [X for X, _ in blocks]
    X = vstack(X).toarray() if issparse(X[0]) else np.concatenate(X)
    y = None if blocks[0][1] is None else np.concatenate([y for _, y in blocks])
    return X, y


def mixed(n=9000, seed=0):
    """Return a data frame with numbers near and far from 0, few levels, many levels, booleans and labels."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "near": rng.normal(size=n).round(6),
            "colour": rng.choice(["red", "green", "blue, dark"], n),
            "far": (1e6 + rng.normal(size=n)).round(4),
            "town": [f"town {i}" for i in rng.integers(0, 500, n)],
            "whole": rng.integers(0, 5, n),
            "wet": rng.choice([True, False], n),
            "y": rng.choice(["no", "yes"], n),
        }
    )


def by_pandas(df, hash_columns=64):
    """Return the expected features of `mixed`, computed by pandas."""
    parts = []
    for name in df.columns.drop("y"):
        column = df[name]
        if column.dtype.kind in "fi":
            values = column.astype(float) - column.iloc[0]  # pandas also loses digits far from 0
            window = values.expanding()
            std = window.std(ddof=0)
            parts.append(((values - window.mean()) / std.where(std > 0, 1)).to_numpy()[:, None])
            continue
        text = column.astype(str).str.lower() if column.dtype == bool else column
        if text.nunique() <= 64:
            levels = sorted(text.unique())
            parts.append(np.array([[value == level for level in levels] + [False] for value in text], float))
        else:
            counts = text.iloc[:4096].value_counts()
            known = sorted(counts.index[counts > 1])
            salt = crc32(name.encode())
            hashed = [len(known) + crc32(value.encode(), salt) % hash_columns for value in text]
            place = [known.index(v) if v in known else h for v, h in zip(text, hashed, strict=True)]
            parts.append(np.eye(len(known) + hash_columns)[place])
    return np.hstack(parts), df["y"].to_numpy().astype(str)


@pytest.fixture(scope="module")
def expected():
    return by_pandas(mixed())


def write(df, path):
    if ".csv" in path.name:
        df.to_csv(path, index=False)
    elif ".tsv" in path.name:
        df.to_csv(path, index=False, sep="\t")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(df), path, row_group_size=2500)
    else:
        df.to_json(path, orient="records", lines=True, double_precision=10)
    return path


NAMES = ["t.csv", "t.tsv", "t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zst", "t.jsonl", "t.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_what_pandas_gives(tmp_path, name, expected):
    path = tmp_path / name
    if name.endswith("zst"):
        plain = mixed().to_csv(index=False).encode()
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(plain)
    else:
        write(mixed(), path)
    stream = read(path, "y")
    X, y = gather(stream)
    assert X.shape == (9000, stream.n_features)
    assert len(stream.feature_names) == stream.n_features
    np.testing.assert_allclose(X, expected[0], atol=1e-7)
    np.testing.assert_array_equal(y, expected[1])
    assert stream.classes.tolist() == ["no", "yes"]
    assert stream.n_rows == 9000
    assert stream.size is None or stream.position == stream.size == path.stat().st_size
    np.testing.assert_array_equal(gather(stream)[0], X)  # a second pass is the same


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "categorical"])
def test_frames_give_what_pandas_gives(kind, expected):
    df = mixed()
    if kind == "polars":
        df = pytest.importorskip("polars").DataFrame(df.to_dict("list"))
    elif kind == "arrow":
        df = pa.Table.from_pandas(df)
    elif kind == "categorical":
        # Levels that do not occur in the first rows must not become features.
        df["colour"] = pd.Categorical(df["colour"], categories=["absent", *df["colour"].unique()])
        df["town"] = df["town"].astype("category")
    stream = frame(df, "y")
    X, y = gather(stream)
    np.testing.assert_allclose(X, expected[0], atol=1e-8)
    np.testing.assert_array_equal(y, expected[1])
    assert stream.n_rows == 9000
    assert stream.feature_names[:5] == ["near", "colour=blue, dark", "colour=green", "colour=red", "colour=?"]


@pytest.mark.parametrize("block", [1, 7, 1000, 4096, 100_000])
def test_cuts_change_nothing(tmp_path, block):
    df = mixed(5000)
    df.loc[::7, "near"] = np.nan
    df.loc[::11, "colour"] = None
    path = write(df, tmp_path / "t.csv")
    for scale in (True, False):
        options = {"missing": "mean", "scale": scale}
        whole = read(path, "y", **options)
        cut = read(path, "y", block=block, **options)
        sizes = [len(y) for _, y in cut]
        assert max(sizes) <= block
        np.testing.assert_array_equal(gather(cut)[0], gather(whole)[0])
        state, other = cut.encoder.state()["running"], whole.encoder.state()["running"]
        assert all(np.array_equal(state[key], other[key]) for key in state)
    np.testing.assert_array_equal(
        gather(frame(df, "y", missing="mean", scale=False, block=block))[0], gather(whole)[0]
    )


@pytest.mark.parametrize("centre", [0.0, 1e6, -1e9])
def test_standardised_by_the_rows_so_far(centre):
    rng = np.random.default_rng(3)
    X = centre + np.column_stack([rng.normal(size=9000), np.full(9000, 0.1), rng.exponential(size=9000)])
    X[0, 2] += 100  # an outlier first
    y = np.arange(9000) % 2
    Z = gather(arrays(X, y, scale=True))[0]
    assert (Z[:, 1] == 0).all()
    for t in (0, 1, 2, 10, 4095, 4096, 8999):
        so_far = X[: t + 1].astype(np.longdouble)
        std = so_far.std(axis=0)
        z = np.where(std > 0, (X[t] - so_far.mean(axis=0)) / np.where(std > 0, std, 1), 0)
        z[1] = 0
        np.testing.assert_allclose(Z[t], z.astype(float), rtol=1e-9, atol=1e-9)
    for block in (1, 13):
        np.testing.assert_array_equal(gather(arrays(X, y, scale=True, block=block))[0], Z)


def test_running_sums_are_those_of_a_plain_loop():
    rng = np.random.default_rng(4)
    X = np.where(rng.random((6000, 3)) < [0.0, 0.4, 0.999], np.nan, 100.0 + rng.normal(size=(6000, 3)))
    X[:7, 1] = np.nan
    filled, scaled = Running(3).fill(X), Running(3).standardise(X)
    for j in range(3):
        seen = []
        for t in range(6000):
            before = np.mean(np.array(seen, np.longdouble)) if seen else 0.0
            if np.isnan(X[t, j]):
                assert scaled[t, j] == 0.0
                assert filled[t, j] == pytest.approx(float(before), rel=1e-12)
                continue
            assert filled[t, j] == X[t, j]
            seen.append(X[t, j])
            if t % 97 == 0:
                values = np.array(seen, np.longdouble)
                std = values.std()
                expected = float((values[-1] - values.mean()) / std) if std > 0 else 0.0
                assert scaled[t, j] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    shared = Running(3)
    shared.fill(X[:100])
    other = copy(shared)
    state = shared.state()
    other.standardise(X[100:200])
    assert all(np.array_equal(state[name], value, equal_nan=True) for name, value in shared.state().items())
    with pytest.raises(ValueError, match="not that of these columns"):
        running.fill(X, np.zeros((7, 2)), np.empty_like(X))
    with pytest.raises(ValueError, match="shape of the rows"):
        running.standardise(X, np.zeros((7, 3)), np.empty((5, 3)))


def test_the_encoder_in_any_cut():
    rng = np.random.default_rng(1)
    x = np.where(rng.random(9000) < 0.3, np.nan, 1e6 + rng.normal(size=9000))
    x[:5] = np.nan
    codes = rng.integers(-1, 3, 9000)
    for scale in (True, False):
        results = []
        for cuts in ([], rng.integers(0, 9000, 50), range(0, 9000, 11)):
            encoder = Encoder(scale=scale, missing="mean")
            encoder.start({"x": x[:10], "k": (codes[:10], ["u", "v", "w"])})
            bounds = sorted({0, *cuts, 9000})
            results.append(
                np.concatenate(
                    [
                        encoder.transform({"x": x[a:b], "k": (codes[a:b], ["u", "v", "w"])})
                        for a, b in pairwise(bounds)
                    ]
                )
            )
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("missing", ["error", "mean"])
@pytest.mark.parametrize("source", ["table", "only numbers", "arrays", "libsvm"])
def test_rows_before_scaling(source, missing, tmp_path):
    df = mixed(5000)
    if missing == "mean" and source != "arrays":
        df.loc[::7, "near"] = np.nan
        df.loc[::11, "colour"] = None

    def opened(scale):
        if source == "arrays":
            return arrays(df[["near", "far"]].to_numpy(), df["y"].to_numpy(), scale=scale, block=1000)
        if source == "libsvm":
            return read(libsvm(tmp_path)[2], block=1000)
        table = df if source == "table" else df[["near", "far", "y"]]
        return frame(table, "y", scale=scale, missing=missing, block=1000, constant=source == "table")

    both = opened(scale=True)
    blocks = list(both.with_unscaled())
    scaled, unscaled = gather(opened(scale=True)), gather(opened(scale=False))
    for found, expected in ((0, scaled), (1, unscaled)):
        X, y = gather([(block[found], block[2]) for block in blocks])
        np.testing.assert_array_equal(X, expected[0])
        np.testing.assert_array_equal(y, expected[1])
    if source == "table":  # rows to predict as well, and the encoder is that of a pass over scaled rows
        rows = df.head(100)
        for X, other, _ in frame(rows, "y", encoder=both.encoder).with_unscaled():
            np.testing.assert_array_equal(X, gather(frame(rows, "y", encoder=both.encoder))[0])
            numbers = rows["near"].fillna(df["near"].mean())
            np.testing.assert_allclose(other[:, 0], numbers, rtol=1e-12)


def test_an_encoder_without_scaling_keeps_the_mean_for_rows_to_predict():
    df = pd.DataFrame({"a": [1.0, 2.0, 6.0], "y": [0, 1, 0]})
    stream = frame(df, "y", scale=False)
    gather(stream)
    encoder = Encoder.from_state(stream.encoder.state())
    encoder.missing = "mean"
    new = pd.DataFrame({"a": [5.0, np.nan]})
    assert gather(frame(new, encoder=encoder))[0].tolist() == [[5.0], [3.0]]
    huge = pd.DataFrame({"a": [1e300, -1e300, 1e308], "y": [0, 1, 0]})
    assert gather(frame(huge, "y", scale=False))[0][:, 0].tolist() == [1e300, -1e300, 1e308]


def test_errors_hold_the_problem_and_the_advice():
    with pytest.raises(StreamError) as caught:
        gather(read(csv("a,y", "1,0", ",1"), "y", missing="error"))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.problem, error.advice) == ('stream:3: column "a" has no value', streams.Advice.FILL_MISSING)
    assert str(error) == 'stream:3: column "a" has no value; fill it in, or set missing="mean"'


def test_gaps_get_the_mean_of_the_earlier_rows():
    df = pd.DataFrame({"a": [np.nan, 2.0, 4.0, np.nan, 9.0, np.nan], "y": [0, 1] * 3})
    X = gather(frame(df, "y", missing="mean", scale=False))[0]
    assert X[:, 0].tolist() == [0, 2, 4, 3, 9, 5]
    Z = gather(frame(df, "y", missing="mean"))[0][:, 0]
    present = gather(frame(df.dropna(), "y"))[0][:, 0]
    assert Z[[0, 3, 5]].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(Z[[1, 2, 4]], present)


def test_arrays():
    X, y = np.arange(20, dtype=np.float32).reshape(10, 2), ["a", "b"] * 5
    stream = arrays(X[:, ::-1], y, block=4)
    blocks = list(stream)
    assert [len(y) for _, y in blocks] == [4, 4, 2]
    assert all(X.dtype == np.float64 and X.flags.c_contiguous for X, _ in blocks)
    assert stream.classes.tolist() == ["a", "b"]
    assert (stream.n_rows, stream.n_features) == (10, 2)
    sparse = list(arrays(csr_matrix(X), y, block=4))
    assert all(X.format == "csr" and X.dtype == np.float64 for X, _ in sparse)
    np.testing.assert_array_equal(vstack([X for X, _ in sparse]).toarray(), X)
    with pytest.raises(StreamError, match=r"sparse rows cannot be scaled.*scale=False"):
        arrays(csr_matrix(X), y, scale=True)
    with pytest.raises(StreamError, match="inconsistent"):
        arrays(X, y[:-1])
    with pytest.raises(StreamError, match="1 class found"):
        arrays(X, [1] * 10)
    with pytest.raises(StreamError, match="quantity, not a class"):
        arrays(np.zeros((1001, 1)), np.linspace(0, 1, 1001))
    with pytest.raises(StreamError, match="NaN"):
        arrays(X * np.nan, y)
    with pytest.raises(ValueError, match="block must be"):
        arrays(X, y, block=0)


@pytest.fixture
def pipe(monkeypatch):
    """Return a function that streams bytes from standard input."""

    def piped(data, *args, **options):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return read("-", *args, **options)

    return piped


def test_a_pipe_of_gzip(tmp_path):
    df = pd.DataFrame({"a": np.arange(90_000) / 3, "y": ["no", "yes"] * 45_000})
    path = write(df, tmp_path / "t.csv")
    assert path.stat().st_size > 1 << 20
    program = (
        "from budgetron.streams import read; s = read('-', 'y'); n = 0\n"
        "for X, y in s: n += len(y)\n"
        "print(n, s.classes.tolist(), s.n_rows, X[-1].sum())\n"
        "try: next(iter(s))\n"
        "except ValueError as error: print(error)\n"
    )
    command, data = [sys.executable, "-c", program], gzip.compress(path.read_bytes())
    out = subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode()
    last = gather(read(path, "y"))[0][-1].sum()
    assert out.startswith(f"90000 ['no', 'yes'] None {last}\n")
    assert "standard input: a pipe can be read only once" in out


def test_a_class_after_the_first_megabyte_of_a_pipe(pipe):
    rows = [f"{i},{i % 2}" for i in range(200_000)]
    rows[150_000] = "1,2"
    data = "\n".join(["a,y", *rows]).encode()
    message = "standard input:150002: label '2' is not among the classes 0, 1; list all labels in classes"
    with pytest.raises(StreamError, match=message):
        gather(pipe(data, "y"))
    stream = pipe(data, "y", classes=["0", "1", "2"])
    assert stream.classes.tolist() == [0, 1, 2]
    assert len(gather(stream)[1]) == 200_000
    assert stream.position == len(data)


def test_parquet_cannot_be_piped(tmp_path, pipe):
    path = write(mixed(100), tmp_path / "t.parquet")
    with pytest.raises(StreamError, match=r"standard input: a Parquet file .* cannot be piped; give a file"):
        pipe(path.read_bytes(), "y")


def test_named_pipe(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with subprocess.Popen(["sh", "-c", f"printf 'a,y\\n1,0\\n2,1\\n' > {path}"]):
        stream = read(path, "y")
        assert gather(stream)[1].tolist() == [0, 1]
    with pytest.raises(StreamError, match="only once"):
        next(iter(stream))


def csv(*lines):
    return io.BytesIO("\n".join(lines).encode() + b"\n")


@pytest.mark.parametrize(
    ("labels", "classes", "given"),
    [
        (["0", "1"], [0, 1], ["1", "0"]),
        (["+1", "-1"], [-1, 1], [-1, 1]),
        (["1.0", "2"], [1, 2], ["1", "2.0"]),
        (["0.5", "1"], [0.5, 1.0], ["0.5", "1"]),
        (["true", "false"], [False, True], [True, False]),
        (["True", "False"], [False, True], ["true", "false"]),
        (["a", "1"], ["1", "a"], ["a", "1"]),
        (["012345678901234567890", "1"], ["012345678901234567890", "1"], None),
    ],
)
def test_labels_keep_their_type(labels, classes, given):
    rows = [f"{i},{labels[i % 2]}" for i in range(10)]
    for known in (None, given):
        stream = read(csv("x,y", *rows), "y", classes=known)
        assert stream.classes.tolist() == classes
        assert type(stream.classes.tolist()[0]) is type(classes[0])
        y = gather(stream)[1]
        assert set(y.tolist()) == set(classes)
        assert y.dtype == stream.classes.dtype
    assert stream.n_rows == (10 if given is None else None)


def test_typed_labels(tmp_path):
    for values, given, classes in [
        ([0, 1, 1], ["0", "1"], [0, 1]),
        ([0.0, 1.0, 1.0], ["0", "1"], [0, 1]),
        (["0", "1", "1"], ["0", "1"], ["0", "1"]),
        (["0", "1", "1"], None, ["0", "1"]),
        ([True, False, True], ["true", "false"], [False, True]),
        (pd.Categorical(["u", "v", "u"]), None, ["u", "v"]),
    ]:
        df = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": values})
        assert frame(df, "y", classes=given).classes.tolist() == classes
        paths = [write(df, tmp_path / "t.jsonl"), write(df, tmp_path / "t.parquet")]
        for path in paths:
            stream = read(path, "y", classes=given)
            assert stream.classes.tolist() == classes
            assert [str(label) for label in gather(stream)[1]] == [
                str(classes[classes.index(v)]) for v in df["y"]
            ]
    with pytest.raises(StreamError, match=r'column "y": class .no. is not an integer, but the labels are'):
        frame(pd.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", classes=["no", "yes"])


def test_encodings():
    rows = [f"{i}.5,L{i % 70:02},{i % 2}" for i in range(6000)]
    assert len(read(csv("a,k,y", *rows), "y").feature_names) == 1 + 70 + 64
    forced = read(csv("a,k,y", *rows), "y", encode="onehot", constant=True)
    assert forced.feature_names[1:3] + forced.feature_names[-2:] == ["k=L00", "k=L01", "k=?", "constant"]
    X, _ = gather(forced)
    assert (X[:, -1] == 1).all()
    assert (X[:, 1:-2].argmax(axis=1) == np.arange(6000) % 70).all()
    hashed = read(csv("a,k,y", *rows), "y", encode="hash", hash_columns=8)
    assert hashed.feature_names == ["a", *(f"k#{i}" for i in range(8))]
    assert (gather(hashed)[0][:, 1:].sum(axis=1) == 1).all()
    numbers = read(csv("a,y", *(f"{i % 3},{i % 2}" for i in range(9))), "y", categorical=["a"])
    assert numbers.feature_names == ["a=0", "a=1", "a=2", "a=?"]
    assert read(csv("a,k,y", *rows), "y", ignore=["k"]).feature_names == ["a"]


def test_levels_are_those_of_the_first_rows():
    levels = ["u"] * 4096 + ["v", "u", ""]
    source = csv("k,y", *(f"{level},{i % 2}" for i, level in enumerate(levels)))
    stream = read(source, "y", missing="mean", block=100)
    assert stream.feature_names == ["k=u", "k=?"]
    assert gather(stream)[0][-3:].tolist() == [[0, 1], [1, 0], [0, 1]]
    gaps = read(csv("k,y", "missing,0", "NA,1", "u,0", "?,1"), "y")
    assert gaps.feature_names == ["k=missing", "k=u", "k=missing?", "k=?"]
    assert gather(gaps)[0].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_without_header():
    for target in ("c3", 3, -1, "-1"):
        stream = read(csv("1,a,0", "2,b,1"), target, header=False)
        assert stream.feature_names == ["c1", "c2=a", "c2=b", "c2=?"]
        assert gather(stream)[1].tolist() == [0, 1]
    for options in ({"delimiter": ";"}, {}):
        assert read(csv("1;a;0", "2;b;1"), 1, header=False, **options).classes.tolist() == [1, 2]
    named = pd.DataFrame([[1, 0], [2, 1]])  # columns 0 and 1
    assert frame(named, 1).feature_names == ["0"]


def test_quotes_line_breaks_and_blank_lines(tmp_path):
    note = 'said ""no"",\nand left' + " again" * 30
    rows = [f'{i * i},"{note} {i % 3}",{i % 2}\r' + ("\n" if i % 10 == 0 else "") for i in range(12_000)]
    path = tmp_path / "t.csv"
    path.write_bytes(("\ufeffa,note,y\r\n" + "\n".join(rows)).encode())
    assert path.stat().st_size > 2 << 20
    stream = read(path, "y")
    X, y = gather(stream)
    assert len(y) == stream.n_rows == 12_000
    assert stream.feature_names[1] == f"note={note.replace(2 * chr(34), chr(34))} 0"
    assert (X[:, 1:4].argmax(axis=1) == np.arange(12_000) % 3).all()
    rows[11_000] = rows[11_000].replace("121000000", "x", 1)
    path.write_text("a,note,y\n" + "\n".join(rows))
    line = path.read_text().split("\n").index(rows[11_000].split("\n")[0]) + 1
    with pytest.raises(StreamError, match=rf"t.csv:{line}: column \"a\" has 'x'"):
        gather(read(path, "y"))
    # A quote inside a field is a character like others, also where chunks are cut.
    inches = [f'{i},5" pipe,{i % 2}' for i in range(100_001)]
    assert len(gather(read(csv("a,k,y", *inches), "y"))[1]) == 100_001


def test_scaling_is_what_rows_to_predict_are_encoded_by():
    table = csv("flat,b,k,y", "3,1,u,0", "3,2,v,1", "3,6,u,0")
    for scale in (True, False):
        stream = read(table, "y", scale=scale)
        gather(stream)
        assert list(stream.encoder.scaling) == ["flat", "b"]
        table.seek(0)
        X, _ = gather(read(csv("flat,b,k", "5,7,u"), encoder=stream.encoder))
        by_hand = [(x - m) / s for x, (m, s) in zip([5, 7], stream.encoder.scaling.values(), strict=True)]
        np.testing.assert_allclose(X[0, :2], by_hand, rtol=1e-12)
    assert stream.encoder.scaling == {"flat": (0.0, 1.0), "b": (0.0, 1.0)}


def test_encoder_round_trip(tmp_path):
    df = mixed(6000)
    df.loc[::9, "near"] = np.nan
    stream = read(write(df, tmp_path / "t.csv"), "y", missing="mean", constant=True)
    gather(stream)
    encoder = Encoder.from_state(stream.encoder.state())
    new = mixed(500, seed=5)
    new.loc[3, "colour"] = "never seen"
    new.loc[4, "near"] = np.nan
    shuffled = new.drop(columns="y")[["wet", "town", "near", "whole", "far", "colour"]].assign(extra=1)
    results = []
    for name in ("n.csv", "n.jsonl", "n.parquet"):
        unlabelled = read(write(shuffled, tmp_path / name), "y", encoder=encoder, block=64)
        assert unlabelled.feature_names == stream.feature_names
        assert unlabelled.classes is None
        X, y = gather(unlabelled)
        assert y is None
        results.append(X)
    for X in results[1:]:
        np.testing.assert_allclose(X, results[0], atol=1e-9)
    z = (new["far"] - df["far"].mean()) / df["far"].std(ddof=0)
    np.testing.assert_allclose(results[0][:, stream.feature_names.index("far")], z, atol=1e-7)
    mean, deviation = encoder.scaling["far"]
    np.testing.assert_allclose((new["far"] - mean) / deviation, z, atol=1e-7)
    assert results[0][3, stream.feature_names.index("colour=?")] == 1
    assert results[0][4, 0] == 0
    assert encoder.state()["running"]["rows"] == 6000  # predicting does not update it
    labelled = read(write(new.assign(y="no"), tmp_path / "l.csv"), "y", encoder=encoder)
    X, y = gather(labelled)
    np.testing.assert_array_equal(X, results[0])
    assert set(y) == {"no"}
    with pytest.raises(
        StreamError,
        match=r'column "town" is missing; the columns are "near", "colour".*; give the columns that',
    ):
        read(write(new.drop(columns="town"), tmp_path / "m.csv"), encoder=encoder)
    wrong = pa.Table.from_pandas(new.assign(near="text"))
    with pytest.raises(StreamError, match=r'row 1: column "near" is of type .*string, but was numeric'):
        gather(frame(wrong, encoder=encoder))


def libsvm(tmp_path, name="a9a.t", n=3000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 12)).round(3) * (rng.random((n, 12)) < 0.4)
    X[0] = np.arange(1, 13)
    y = rng.choice([-1, 1], n)
    dump_svmlight_file(X, y, str(tmp_path / name), zero_based=False, comment="made here")
    return X, y, tmp_path / name


@pytest.mark.parametrize("name", ["a9a", "a9a.t", "a.libsvm", "a.svm", "a.txt"])
def test_libsvm(tmp_path, name):
    X, y, path = libsvm(tmp_path, name)
    stream = read(path, block=1000)
    assert (stream.n_rows, stream.n_features, stream.classes.tolist()) == (3000, 12, [-1, 1])
    assert all(issparse(X) and X.shape[0] <= 1000 for X, _ in stream)
    found, labels = gather(stream)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)
    assert labels.dtype == np.int64
    for squeeze, suffix in ((gzip, "gz"), (bz2, "bz2"), (lzma, "xz")):
        packed = path.with_name(f"{path.name}.{suffix}")
        packed.write_bytes(squeeze.compress(path.read_bytes()))
        again = read(packed, n_features=20, classes=["-1", "+1"], constant=True)
        found = gather(again)[0]
        assert again.n_rows is None
        assert found.shape == (3000, 21)
        np.testing.assert_array_equal(found[:, :12], X)
        assert (found[:, 20] == 1).all()
    with pytest.raises(
        StreamError, match=r"sparse rows that start with their label; target, .* are for tables"
    ):
        read(path, scale=True)


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("1 2:x", {}, r"t.svm:2004: '2:x' is not `index:value`"),
        ("1 2", {}, r"t.svm:2004: '2' is not `index:value`"),
        ("1 2:inf", {}, r"t.svm:2004: '2:inf' is not .* finite"),
        ("yes 2:1", {}, r"t.svm:2004: label 'yes' is not a number"),
        ("1 3:1 2:1", {}, r"t.svm:2004: index 2 comes after 3; indices must ascend"),
        ("1 0:1", {}, r"t.svm:2004: index 0, but indices count from 1; .* set zero_based=True"),
        (
            "1 13:1",
            {"n_features": 12},
            r"t.svm:2004: index 13 is above 12, the highest expected; set n_features",
        ),
        ("1 9999999999:1", {}, r"t.svm:2004: index 9999999999 is too large"),
        ("2 1:1", {"classes": [-1, 1]}, r"t.svm:2004: label 2 is not among the classes -1, 1"),
    ],
)
def test_libsvm_faults(tmp_path, line, options, message):
    _, _, path = libsvm(tmp_path, "t.svm")
    lines = path.read_text().split("\n")
    comments = sum(line.startswith("#") for line in lines)
    lines[2003] = line
    path.write_text("\n".join(lines))
    assert comments < 2003
    with pytest.raises(StreamError, match=message):
        gather(read(path, **options))


def test_libsvm_pipe(pipe):
    lines = [f"{i % 2} {i % 5 + 1}:1.{0:020}" for i in range(60_000)]
    stream = pipe("\n".join(lines).encode())
    assert (stream.n_rows, stream.n_features) == (None, 5)
    assert len(gather(stream)[1]) == 60_000
    lines[50_000] = "1 6:1"
    with pytest.raises(StreamError, match="standard input:50001: index 6 is above 5"):
        gather(pipe("\n".join(lines).encode()))


def test_the_format_is_recognised(tmp_path):
    df = mixed(50)
    for name, wanted in [("a.csv", "near"), ("a.jsonl", "near"), ("a.parquet", "near"), ("a.tsv", "near")]:
        path = write(df, tmp_path / name)
        other = path.rename(tmp_path / f"unknown-{name.split('.')[1]}.dat")
        assert read(other, "y").feature_names[0] == wanted
        if name != "a.parquet":
            assert read(io.BytesIO(other.read_bytes()), "y").feature_names[0] == wanted
    with pytest.raises(ValueError, match="format must be one of"):
        read(other, "y", format="xls")


def fault_file(tmp_path, line, number=123_456, rows=140_000):
    path = tmp_path / "big.csv"
    lines = ["a,b,y", *(f"{i}.25,{i % 7},{i % 2}" for i in range(rows))]
    lines[number - 1] = line
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,0,4", "4 fields; the first line has 3"),
        ("1,2", "2 fields; the first line has 3"),
        ("1,x,0", "column \"b\" has 'x', but numbers before; .* add it to categorical"),
        ("1,,0", 'column "b" has no value; fill it in, or set missing="mean"'),
        ("nan,1,0", 'column "a" has no value'),
        ("-inf,1,0", 'column "a" has -inf; numbers must be finite'),
        ("1e200,1,0", r'column "a" has 1e\+200; numbers'),
        ("1,1,", "the label is missing"),
        ("1,1,5", "label '5' is not among the classes 0, 1"),
    ],
)
def test_error_messages_name_the_line(tmp_path, line, message):
    path = fault_file(tmp_path, line)
    blocks = []
    with pytest.raises(StreamError, match=rf"big\.csv:123456: {message}") as caught:
        blocks.extend(len(y) for _, y in read(path, "y", classes=[0, 1], missing="error"))
    assert sum(blocks) > 50_000  # the rows before the fault were read
    assert "CSV parse" not in str(caught.value)
    assert "Row #" not in str(caught.value)


def test_blank_lines_count(tmp_path):
    path = fault_file(tmp_path, "1,x,0")
    path.write_text(path.read_text().replace("100.25", "\n\n100.25", 1))
    with pytest.raises(StreamError, match=r"big\.csv:123458: column"):
        gather(read(path, "y"))


def test_bad_bytes(tmp_path):
    path = fault_file(tmp_path, "1,\N{EURO SIGN},0")
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp1252"))
    with pytest.raises(StreamError, match=r"big\.csv:123456: not UTF-8; save the file as UTF-8, or"):
        gather(read(path, "y"))
    path.write_bytes("a,y\n1,0\n".encode("utf-16"))
    with pytest.raises(StreamError, match="this is UTF-16 text; give"):
        read(path, "y")


def message_of(source, *args, **options):
    with pytest.raises(StreamError) as caught:
        gather(read(source, *args, **options))
    assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, StreamError)
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    assert message_of(tmp_path / "none.csv", "y").endswith("none.csv: no such file")
    assert "this is a directory; give a file" in message_of(tmp_path, "y")
    empty = tmp_path / "empty.csv"
    empty.touch()
    assert "empty.csv: no rows" in message_of(empty, "y")
    for content in ("a,y\n", "a,y", "a,y\n\n\n"):
        empty.write_text(content)
        assert "no rows; the file has only a header" in message_of(empty, "y")
    empty.write_text("\n\n")
    assert "no rows" in message_of(empty, "y")
    whole = gzip.compress(mixed(20_000).to_csv(index=False).encode())
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[:-5000])
    assert "cut.csv.gz: the compressed file is cut short or damaged" in message_of(cut, "y")
    cut.write_bytes(whole[: len(whole) // 2] + b"\0" * 100 + whole[len(whole) // 2 + 100 :])
    assert "the compressed file is cut short or damaged" in message_of(cut, "y")
    cut.write_bytes(bz2.compress(b"a,y\n1,0\n" * 9999)[:-40])
    assert "the compressed file is cut short or damaged" in message_of(cut, "y")
    monkeypatch.setattr(
        "budgetron.streams._bytes.open", lambda *_: (_ for _ in ()).throw(PermissionError()), raising=False
    )
    assert "permission denied" in message_of(cut, "y")
    with pytest.raises(StreamError, match="binary mode"):
        read(io.StringIO("a,y"), "y")
    with pytest.raises(TypeError, match="source must be a path"):
        read(7, "y")


def test_invalid_tables():
    assert 'no column "z"; the columns are "a", "b", "y"' in message_of(csv("a,b,y", "1,2,0"), "z")
    assert 'no target column given; the columns are "a", "y"; set target' in message_of(csv("a,y", "1,0"))
    assert 'no column "k"; the columns are "a", "y"' in message_of(csv("a,y", "1,0"), "y", ignore=["k"])
    assert "1 class found; at least two" in message_of(csv("a,y", "1,0", "2,0"), "y")
    assert "1 class found" in message_of(csv("a,y", "1,0", "2,0"), "y", classes=["0"])
    assert (
        'duplicate column "a"; names must differ; if the file has no header, set header=False'
        in message_of(csv("a,a,y", "1,2,0"), "y")
    )
    assert "no column besides the target" in message_of(csv("y", "0", "1"), "y")
    rows = [f"{i},{i / 7}" for i in range(2000)]
    assert "looks like a quantity, not a class" in message_of(csv("a,y", *rows), "y")
    assert ":3: the label is missing" in message_of(csv("a,y", "1,0", "2,"), "y")
    nested = pa.table({"a": [[1], [2]], "y": [0, 1]})
    with pytest.raises(StreamError, match=r'column "a" is of type list.*add it to ignore'):
        frame(nested, "y")
    with pytest.raises(StreamError, match='column "a" is of type list'):
        frame(nested, "a")
    assert "lines must end with a line feed" in message_of(io.BytesIO(b"a,y\r1,0\r2,1\r"), "y")
    assert ":1: not an object" in message_of(io.BytesIO(b'[{"a": 1, "y": 0}]'), "y")
    assert ":2: 1 field; the first line has 2; a quote is not closed" in message_of(
        csv("a,y", '"1,0', "2,1"), "y"
    )
    assert "neither" in message_of(csv('{"a": {"b": 1}, "y": 0}', '{"a": {"b": 2}, "y": 1}'), "y")
    with pytest.raises(ValueError, match="encoder has no columns yet"):
        read(csv("a,y", "1,0", "2,1"), encoder=Encoder())
    with pytest.raises(StreamError, match="cannot become an arrow table"):
        frame(pd.DataFrame({"a": [1, "x", {}], "y": [0, 1, 0]}), "y")


def test_parquet_faults(tmp_path):
    df = mixed(6000)
    df.loc[5000, "far"] = np.nan
    path = write(df, tmp_path / "t.parquet")
    assert 't.parquet, row 5001: column "far" has no value' in message_of(path, "y", missing="error")
    assert gather(read(path, "y", missing="mean"))[0].shape[0] == 6000
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    assert "not a Parquet file, or it is damaged or cut short" in message_of(path, "y")
    path.write_bytes(data[:2000] + b"\xff" * 50_000 + data[52_000:])
    assert "t.parquet" in message_of(path, "y", missing="mean")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "not JSON; JSON lines have one object"),
        ("[1, 2]", "not an object"),
        ('{"a": 1, "k": "x", "y": 0', "not JSON"),
        ('{"a": "text", "k": "x", "y": 0}', "column \"a\" has 'text', not of type double"),
        ('{"a": 1, "k": 3, "y": 0}', 'column "k" has 3, not of type string'),
        ('{"k": "x", "y": 0}', 'column "a" has no value'),
        ('{"a": null, "k": "x", "y": 0}', 'column "a" has no value'),
        ('{"a": 1, "y": 0}', 'column "k" has no value'),
        ('{"a": 1, "k": "x"}', "the label is missing"),
        ('{"a": 1, "k": "x", "y": 7}', "label 7 is not among the classes 0, 1"),
        ('{"a": 1, "k": "x", "y": 0.5}', 'column "y" has 0.5, not of type int64'),
    ],
)
def test_json_faults(tmp_path, line, message):
    lines = [f'{{"a": {i * i}, "k": "x", "y": {i % 2}}}' for i in range(45_000)]
    lines[44_443] = line
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(StreamError) as caught:
        gather(read(path, "y", classes=["0", "1"], missing="error"))
    assert f"t.jsonl:44444: {message}" in str(caught.value)


def test_json_that_mixes_types_early():
    source = io.BytesIO(b'{"a": 1, "y": 0}\n{"a": "x", "y": 1}\n')
    assert "stream:2: a column changes its type" in message_of(source, "y")


def test_without_pyarrow(tmp_path):
    _, _, path = libsvm(tmp_path, "t.svm")
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from budgetron.streams import read\n"
        f"print(read({str(path)!r}).n_features)\n"
        f"try: read({str(tmp_path / 't.csv')!r}, 'y')\n"
        "except ImportError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "12\nreading CSV needs pyarrow: pip install 'budgetron[cli]'\n"


def test_streams_import_no_learner():
    for file in Path(streams.__file__).parent.glob("*.py"):
        imports = [
            line for line in file.read_text().split("\n") if line.startswith(("from budg", "import budg"))
        ]
        assert all(line.split()[1].startswith(("budgetron.streams", "budgetron._util")) for line in imports)


def test_text_among_numbers_is_not_a_category():
    rows = [f"{i},{i % 2}" for i in range(30)]
    path = csv("a,y", *rows[:20], "1.5e3,0", "two,1", *rows[20:])
    assert message_of(path, "y").endswith(
        ":23: column \"a\" has 'two' among numbers; if the column holds categories, add it to categorical; "
        "if the text means a missing value, add it to na_values"
    )
    stream = read(csv("a,y", *rows[:20], "1.5e3,0", "two,1", *rows[20:]), "y", categorical=["a"])
    assert stream.feature_names[-2:] == ["a=two", "a=?"]
    # A column with much text is a category.
    assert read(csv("a,y", *rows[:4], "x,0", "y,1", "z,1", "w,0"), "y").feature_names[-1] == "a=?"


@pytest.mark.skipif(os.name != "posix", reason="needs select on pipes")
def test_a_slow_pipe_is_read_as_it_comes(monkeypatch):
    monkeypatch.setattr(_bytes, "FIRST_CHUNK_SECONDS", 0.1)
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as source, open(write_end, "wb", buffering=0) as sink:
        sink.write(b"a,y\n1,u\n2,v\n3,")
        stream = read(source, "y", scale=False)
        blocks = iter(stream)
        X, y = next(blocks)
        assert (X[:, 0].tolist(), y.tolist()) == ([1.0, 2.0], ["u", "v"])
        sink.write(b"u\n4,v\n")
        X, y = next(blocks)
        assert (X[:, 0].tolist(), y.tolist()) == ([3.0, 4.0], ["u", "v"])
        sink.write(b"5,u")
        sink.close()
        X, y = next(blocks)
        assert (X[:, 0].tolist(), y.tolist()) == ([5.0], ["u"])
        assert next(blocks, None) is None
