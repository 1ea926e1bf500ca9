"""Reading files: the compiled parser of LIBSVM lines, reading ahead, and classes that appear late."""

import io
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, hstack, vstack
from sklearn.datasets import load_svmlight_file
from typer.testing import CliRunner

import budgetron
from budgetron._util import libsvm
from budgetron.cli import app
from budgetron.cli._read_ahead import read_ahead
from budgetron.streams import StreamError, read
from budgetron.streams._ahead import parsed

NUMBERS = [
    *("0", "-0", "1", "+1", "-1.5", ".5", "5.", "1e3", "1E-3", "-2.5e+10", "0.1", "123456789.123456789"),
    *("1e22", "1e23", "1e-22", "1e-23", "9007199254740993", "0.30000000000000004", "1e308", "4.9e-324"),
    *(
        "12345678901234567890",
        "0.000000000000000000000000000001",
        "1" * 400 + "e-390",
        "1.7976931348623157e308",
    ),
]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_those_of_python(text):
    labels, ends, indices, values = libsvm.parse(f"{text} 3:{text}\n".encode(), False)
    assert labels.tolist() == values.tolist() == [float(text)]
    assert np.signbit(values[0]) == text.startswith("-")
    assert (ends.tolist(), indices.tolist()) == ([0, 1], [2])


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".3f", ".17g", "e", "g"]))
def test_written_floats_are_read_exactly(value, form):
    text = repr(value) if form == "r" else format(value, form)
    assert libsvm.parse(f"1 1:{text}".encode(), False)[3].tolist() == [float(text)]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data):
    parsed = libsvm.parse(b"1 1:2 " + data, False)
    found = libsvm.survey(b"1 1:2 " + data)
    if parsed is not None:
        labels, ends, indices, values = parsed
        assert len(ends) == len(labels) + 1
        assert ends[-1] == len(indices) == len(values)
        assert np.isfinite(values).all()
        assert np.isfinite(labels).all()
        if found is not None:
            assert found == (sorted(set(labels.tolist())), indices.max(initial=-1) + 1, len(labels))


LINES = [
    "1 1:0.5 3:2",
    "",
    "  -1\t2:1e-3   7:4 # a comment",
    "# only a comment",
    "+1 qid:3 1:1",
    "2",
    "1 5:1\r",
]


def test_lines_are_those_of_scikit_learn():
    data = "\n".join(LINES).encode()
    labels, ends, indices, values = libsvm.parse(data, False)
    X, y = load_svmlight_file(io.BytesIO(data), zero_based=False)
    assert labels.tolist() == y.tolist()
    np.testing.assert_array_equal(values, X.data)
    np.testing.assert_array_equal(indices, X.indices)
    np.testing.assert_array_equal(ends, X.indptr)
    assert libsvm.survey(data) is None  # comments need a parser
    plain = "\n".join(line.partition("#")[0] for line in LINES).encode()
    assert libsvm.survey(plain) == ([-1.0, 1.0, 2.0], 7, 5)
    many = b"".join(b"%d 1:1\n" % (i % 100) for i in range(1000))
    assert libsvm.survey(many) == (list(range(100)), 1, 1000)


def test_a_constant_ends_each_row():
    data = "\n".join(LINES).encode()
    labels, ends, indices, values = libsvm.parse(data, False, 7, True)
    X, y = load_svmlight_file(io.BytesIO(data), zero_based=False, n_features=7)
    X = hstack([X, np.ones((len(y), 1))], format="csr")
    found = csr_matrix((values, indices, ends), shape=(len(labels), 8))
    assert (found != X).nnz == 0
    assert found.has_canonical_format
    assert libsvm.parse(data, False, 6) is None  # index 7
    assert libsvm.parse(data, False, 7)[2].max() == 6
    with pytest.raises(ValueError, match="needs the number of features"):
        libsvm.parse(data, False, constant=True)
    for block in (2, 100):
        stream = read(io.BytesIO(data), constant=True, block=block)
        rows = vstack([rows for rows, _ in stream])
        assert stream.n_features == 8
        assert (rows != X).nnz == 0


@pytest.mark.parametrize(
    "line",
    [
        *("x 1:1", "1 1", "1 1:", "1 :1", "1 1:x", "1 1:1x", "1 0:1", "1 2:1 2:1", "1 3:1 2:1", "1 -1:1"),
        *("1 1:nan", "inf 1:1", "1 1:1e999", "1,2 1:1", "1 2147483648:1", "1 1:1:1", "1 1:1e", "1 1:--1"),
    ],
)
def test_lines_that_are_not_valid_are_refused_with_their_number(line, tmp_path):
    assert libsvm.parse(f"{line}\n".encode(), False) is None
    path = tmp_path / "t.svm"
    path.write_text("\n".join(["1 1:1", "-1 2:1", *(["1 1:1"] * 3000), line, "1 1:1", ""]))
    with pytest.raises(StreamError, match=r"t\.svm:3003: "):
        list(read(path, classes=[-1, 1], n_features=5))


def test_libsvm_is_read_once_in_blocks(tmp_path, monkeypatch):
    path = tmp_path / "t.svm"
    path.write_text("".join(f"{i % 3} {1 + i % 50}:{i}.25 {60 + i % 7}:1\n" for i in range(120_000)))
    calls = []
    parse = libsvm.parse
    monkeypatch.setattr(libsvm, "parse", lambda *args: calls.append(len(args[0])) or parse(*args))
    stream = read(path)
    assert calls == []  # classes and width are found without parsing
    assert (stream.n_features, stream.classes.tolist(), stream.n_rows) == (66, [0, 1, 2], 120_000)
    rows = sum(len(y) for _, y in stream)
    assert rows == 120_000
    assert sum(calls) == path.stat().st_size
    assert max(calls) <= 1 << 21


# ---------------------------------------------------------------------- reading ahead


def test_items_are_computed_in_advance_in_order():
    threads, computed = set(), []

    def items():
        for i in range(10):
            threads.add(threading.current_thread())
            computed.append(i)
            yield i

    ahead = read_ahead(items())
    assert next(ahead) == 0
    end = time.monotonic() + 10
    while len(computed) < 4 and time.monotonic() < end:
        time.sleep(0.001)
    assert len(computed) == 4  # one is held by the caller, two wait, and one is about to be put
    assert list(ahead) == list(range(1, 10))
    assert threading.current_thread() not in threads


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield from (1, 2, 3)
        raise StreamError("t.csv:4: broken")

    ahead = read_ahead(items())
    assert [next(ahead) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(StreamError, match="broken"):
        next(ahead)


def test_the_thread_ends_when_the_caller_stops():
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    ahead = read_ahead(items())
    next(ahead)
    ahead.close()
    assert closed.wait(10)


def test_parts_are_parsed_in_advance_in_order():
    started, both = [], threading.Barrier(2)

    def parse(item):
        started.append(item)
        if item < 2:
            both.wait(10)  # two threads parse at the same time
        return item * item

    parts = parsed(parse, iter(range(10)), ahead=True)
    item, result = next(parts)
    assert (item, result()) == (0, 0)
    assert max(started) <= 3  # few parts are parsed before they are requested
    assert [(item, result()) for item, result in parts] == [(i, i * i) for i in range(1, 10)]


@pytest.mark.parametrize("ahead", [True, False])
def test_errors_of_parts_come_in_their_order(ahead):
    def parse(item):
        if item == 2:
            raise StreamError("t.csv:2: broken")
        return item

    def items():
        yield from range(4)
        raise StreamError("t.csv:9: a long line")

    parts = parsed(parse, items(), ahead)
    results = [next(parts)[1] for _ in range(4)]
    assert [results[i]() for i in (0, 1, 3)] == [0, 1, 3]
    with pytest.raises(StreamError, match="broken"):
        results[2]()
    with pytest.raises(StreamError, match="a long line"):
        next(parts)


def test_no_thread_parses_after_the_caller_stops():
    def parsers():
        return [thread for thread in threading.enumerate() if thread.name.startswith("budgetron-parser")]

    parts = parsed(lambda item: item, iter(range(100)), ahead=True)
    next(parts)
    assert parsers()
    parts.close()
    assert not parsers()


def test_a_pipe_and_a_browser_are_parsed_without_threads(monkeypatch):
    def forbidden(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", forbidden)
    assert [result() for _, result in parsed(int, iter("123"), ahead=False)] == [1, 2, 3]
    monkeypatch.setattr("sys.platform", "emscripten")
    assert [result() for _, result in parsed(int, iter("123"), ahead=True)] == [1, 2, 3]


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_the_first_bad_line_of_a_long_file_is_named(tmp_path, suffix):
    good = {"csv": "1.25,a\n", "svm": "1 1:0.25\n"}[suffix]
    bad = {"csv": "1.25,a,3\n", "svm": "1 1:x\n"}[suffix]
    lines = ["v,y\n" if suffix == "csv" else "0 1:2\n", *[good] * 900_000]
    lines[650_000] = lines[800_000] = bad  # in two parts, which are parsed at the same time
    path = tmp_path / f"t.{suffix}"
    path.write_text("".join(lines))
    options = {
        "csv": {"target": "y", "classes": ["a", "b"]},
        "svm": {"n_features": 1, "classes": [0, 1]},
    }[suffix]
    blocks = iter(read(path, **options))
    rows = sum(next(blocks)[0].shape[0] for _ in range(500_000 // 4096))
    assert rows > 300_000
    with pytest.raises(StreamError, match=f"t.{suffix}:650001:"):
        list(blocks)


def test_a_saved_encoder_does_not_know_rows_that_were_read_but_not_learned(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{v:.4f},{int(v > 0)}" for v in rng.normal(size=30_000)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    options = ["run", str(tmp_path / "t.csv"), "-t", "y", "-l", "arow", "--save", str(tmp_path / "m")]
    assert CliRunner().invoke(app, [*options, "--rows", "5000"]).exit_code == 0
    assert budgetron.files.load_extras(tmp_path / "m")["encoder"]["running"]["rows"] == 5000


# ---------------------------------------------------------------------- classes


def test_a_class_that_appears_late_starts_the_run_again(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=150_000).round(5)
    labels = np.where(values > 0, "yes", "no").astype(object)
    labels[140_000] = "maybe"
    path = tmp_path / "t.csv"
    path.write_text(
        "a,y\n" + "\n".join(f"{v},{label}" for v, label in zip(values, labels, strict=True)) + "\n"
    )
    base = ["run", str(path), "-t", "y", "-l", "linear.pa", "--save"]
    done = CliRunner().invoke(app, [*base, str(tmp_path / "m")])
    assert done.exit_code == 0, done.output
    assert ":140002: label 'maybe' is not among the classes no, yes; finding all classes" in done.stderr
    given = CliRunner().invoke(app, [*base, str(tmp_path / "given"), "--classes", "no,maybe,yes"])
    assert "starting again" not in given.stderr
    one, other = (budgetron.load(tmp_path / name) for name in ("m", "given"))
    assert one.classes_.tolist() == ["maybe", "no", "yes"]
    np.testing.assert_array_equal(one.coef_, other.coef_)
    path.write_text(
        "a,y\n" + "\n".join(f"{v},{label}" for v, label in sorted(zip(values, labels, strict=True)))
    )
    stream = read(path, "y", scan=False)  # sorted: the first megabyte has one class
    assert stream.classes.tolist() == ["maybe", "no", "yes"]
