"""Hostile input files end in one message and exit code 2, or are read, in bounded memory and time."""

import atexit
import csv
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import zlib
from functools import cache

import forked
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from memory_limit import limits_memory

from budgetron import streams
from budgetron.streams import StreamError, _columnar, _table, _text
from budgetron.streams._bytes import Chunk, Source, records

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and memory limits of Unix")

HEADER = "a,b,y\n"
BODY = "".join(f"{i % 7}.5,{i * i % 11},{'no' if i % 3 else 'yes'}\n" for i in range(60))
DIGITS = "9" * 1_000_000


@cache
def server():
    started = forked.Server(os.environ | {"COLUMNS": "200"})
    atexit.register(started.close)
    return started


def run(path, *options):
    target = [] if path.suffix == ".svm" else ["-t", "y"]
    return server().run(["run", path.name, "-l", "forgetron", "-b", "5", *target, *options], path.parent)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def invalid_text():
    """Return a column of text that is not UTF-8."""
    return pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"b"]).buffers())


# ---------------------------------------------------------------------- files that cannot be read

REFUSED = {
    "empty.csv": ("", "no rows; the file is empty"),
    "header.csv": (HEADER, "no rows; the file has only a header"),
    "nul.csv": (b"\0" * 100_000, "nul.csv: this is not a text file; give"),
    "nul_value.csv": (f"{HEADER}{BODY}1,\0,yes\n", r"""62: column "b" has '\x00' among numbers"""),
    "nul_label.csv": (f"{HEADER}{BODY}1,2,yes\0\n", ":62: a label that ends with a null character"),
    "latin.csv": (HEADER.encode() + b"1,\xff,yes\n", ":2: not UTF-8"),
    "utf16.csv": ((HEADER + BODY).encode("utf-16"), "utf16.csv: this is UTF-16 text; give"),
    "huge.csv": (f"{HEADER}{BODY}1e400,2,yes\n", ':62: column "a" has inf; numbers must be finite'),
    "digits.csv": (f"{HEADER}{BODY}{DIGITS},2,yes\n", ':62: column "a" has inf; numbers must be finite'),
    "duplicate.csv": ("a,a,y\n" + BODY, 'duplicate column "a"'),
    "long_label.csv": (f"{HEADER}{BODY}1,2,{'L' * 10**6}\n", ":62: a label of 1,000,000 characters"),
    "long_name.csv": (f"{'N' * 10**6},b,y\n{BODY}", ":1: not CSV; a name in the first line has more than"),
    "long_value.csv": (f"{HEADER}{BODY}{'V' * 10**6},2,yes\n", ':62: column "a" has'),
    "carriage_return.csv": ((HEADER + BODY).replace("\n", "\r"), "lines must end with a line feed"),
    "quotes.csv": (f'{HEADER}"' + '""\n' * 300_000, "quotes.csv:2: not a row of CSV"),
    "columns.csv": ("," * 200_000 + "y\n", "200,001 columns take about 781 MB of memory; at most 131,072"),
    "null.jsonl": ("null\n", ":1: not an object"),
    "null_first.jsonl": ('\nnull\n{"a":1,"y":1}\n', ":2: not an object"),
    "nested.jsonl": (
        '{"y":1,"a":' + "[" * 100_000 + "]" * 100_000 + '}\n{"y":2,"a":1}\n',
        ":1: values are nested more than 100 deep",
    ),
    "nested_lines.jsonl": ("[\n" * 100_000, ":1: not JSON"),
    "nested_strings.jsonl": (
        '{"y":1}\n{"a":' + '["]",' * 100_000 + "\n",
        ":2: values are nested more than 100",
    ),
    "digits.jsonl": (f'{{"a":1,"y":1}}\n{{"a":{DIGITS},"y":0}}\n', ':2: column "a" has inf'),
    "names.jsonl": (
        "".join(f'{{"y":{i % 2},"k{i}":1}}\n' for i in range(6000)),
        "the first 6,000 rows have 6,001 different names, a table of 275 MB; give sparse rows",
    ),
    "index.svm": (
        "1 1:1 2147483647:1\n-1 2:1\n",
        "index.svm:1: index 2147483647 is very high: one vector of",
    ),
    "second.svm": ("# x\n\n1 1:1\n-1 1:1 16777217:1\n", "second.svm:4: index 16777217 is very high"),
    "digits.svm": (f"1 {DIGITS}:1\n-1 1:1\n", "digits.svm:1: index 9999"),
    "text.parquet": (
        parquet(a=invalid_text(), y=["a", "b"]),
        "row 1: text in this row or a later one is not",
    ),
    "label.parquet": (parquet(a=[1, 2], y=invalid_text()), "row 1: text in this row or a later one is not"),
    "cut.parquet": (parquet(a=[1, 2], y=["a", "b"])[:100], "not a Parquet file"),
    "line.csv.gz": (gzip.compress(b"x" * (70 << 20), 1), ":1: a line of more than 64 MB"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_one_message(tmp_path, name):
    content, expected = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(path)
    text = done.stderr.decode()
    assert done.returncode == 2, text[-1000:]
    assert text.count("\n") == 1
    assert text.startswith("budgetron: ")
    assert expected in text
    assert len(text) < 11_000


def test_other_sources_that_are_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for name in ("folder.csv", "loop.csv", "absent.csv", "n" * 5000, "/dev/null"):
        done = run(tmp_path / name)
        assert done.returncode == 2
        assert re.fullmatch(rb"budgetron: [^\n]+\n", done.stderr)


READ = {
    "bom.csv": b"\xef\xbb\xbf" + (HEADER + BODY).encode(),
    "line_ends.csv": (HEADER + BODY).replace("\n", "\r\n", 30),
    "line_in_name.csv": '"a\nx",b,y\n' + BODY,
    "empty_name.csv": ",b,y\n" + BODY,
    "long_category.csv": HEADER + "".join(f"{'V' * 100_000}{i % 3},1,{i % 2}\n" for i in range(20)),
    "shallow.jsonl": '{"y":1,"a":1,"s":"[[[{{{\\\\"}\n{"y":0,"a":2,"s":"\\"["}\n' * 100,
    "null_later.jsonl": '{"y":1,"a":null}\n{"y":0,"a":2}\n',
    "features.svm": "1 1:1 16777216:1\n-1 2:1\n",
}


@pytest.mark.parametrize("name", READ)
def test_read(tmp_path, name):
    content = READ[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(path, "--missing", "mean")
    assert done.returncode == 0, done.stderr


def test_a_high_index_is_accepted_on_request():
    rows = b"1 1:1 16777217:1\n-1 2:1\n"
    with pytest.raises(StreamError, match="index 16777217 is very high: one vector of weights takes 128 MB"):
        streams.read(io.BytesIO(rows))
    with pytest.raises(
        StreamError, match=r"stream:1: index 16777217 .*if the index is right, set n_features"
    ):
        streams.read(io.BytesIO(rows), zero_based=True)
    stream = streams.read(io.BytesIO(rows), n_features=16777217)
    assert [X.shape for X, _ in stream] == [(2, 16777217)]
    with pytest.raises(ValueError, match="n_features must be an integer from 1 to 2147483648"):
        streams.read(io.BytesIO(rows), n_features=2**31 + 1)


@pytest.mark.parametrize("option", ["--rows", "--window"])
def test_numbers_that_are_too_large(tmp_path, option):
    (tmp_path / "t.csv").write_text(HEADER + BODY)
    done = run(tmp_path / "t.csv", option, "9" * 30)
    assert done.returncode == 2
    assert done.stderr.startswith(b"budgetron: a number is too large")


def test_deeply_nested_parameters(tmp_path):
    (tmp_path / "t.csv").write_text(HEADER + BODY)
    done = run(tmp_path / "t.csv", "-l", "forgetron:budget=" + "-" * 50_000 + "1")
    assert done.returncode == 2
    assert b"'budget' parameter of Forgetron must be" in done.stderr


# ---------------------------------------------------------------------- parts of the readers


def random_value(rng, depth):
    """Return a JSON value with strings that look like its syntax, and how deeply it is nested."""
    kind = rng.integers(3) if depth else 2
    if kind == 2:
        return "".join(rng.choice(list('[]{}"\\,:a'), rng.integers(6))), 0
    values, depths = zip(*(random_value(rng, depth - 1) for _ in range(rng.integers(1, 4))), strict=True)
    if kind == 1:
        values = {f"{i}{values[0] if depths[0] == 0 else ''}": value for i, value in enumerate(values)}
    return values, 1 + max(depths)


def test_depth_of_json():
    rng = np.random.default_rng(0)
    for _ in range(500):
        value, depth = random_value(rng, 5)
        assert _text._depth(json.dumps(value).encode()) == depth


def test_records_are_those_of_the_csv_module():
    rng = np.random.default_rng(1)
    values = ["1", "x y", "", 'say "no"', "two\nlines", ",", '"', "\n", 'a"b']
    for _ in range(50):
        table = [rng.choice(values, 3).tolist() for _ in range(5)]
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(table)
        found = list(records(Chunk(text.getvalue().encode(), 7), ","))
        assert [next(csv.reader(io.StringIO(record.decode(), newline=""))) for _, record in found] == table
        assert b"".join(record for _, record in found) == text.getvalue().encode()
        ends = np.cumsum([record.count(b"\n") for _, record in found])
        assert [line for line, _ in found] == [7, *(7 + ends[:-1])]


def test_an_unclosed_quote_is_one_record():
    data = b'1,2\n"3\n4,5\n'
    assert list(records(Chunk(data, 1), ",")) == [(1, b"1,2\n"), (2, b'"3\n4,5\n')]


def test_xz_files_of_several_streams(tmp_path):
    (tmp_path / "t.csv.xz").write_bytes(
        lzma.compress((HEADER + BODY).encode()) + b"\0" * 400_000 + lzma.compress(BODY.encode())
    )
    assert sum(len(y) for _, y in streams.read(tmp_path / "t.csv.xz", "y")) == 120
    whole = (tmp_path / "t.csv.xz").read_bytes()
    (tmp_path / "cut.csv.xz").write_bytes(whole[:-40])
    with pytest.raises(StreamError, match="cut short or damaged"):
        list(streams.read(tmp_path / "cut.csv.xz", "y"))


def test_blocks_of_wide_rows_are_smaller(monkeypatch):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.normal(size=300) for i in range(20)} | {"y": np.arange(300) % 2}
    table = pa.table(columns)
    whole = [(X, y) for X, y in streams.frame(table, "y")]
    monkeypatch.setattr(_table, "BLOCK_VALUES", 20 * 7)
    cut = [(X, y) for X, y in streams.frame(table, "y")]
    assert {len(y) for _, y in cut} == {7, 300 % 7}
    for place in (0, 1):
        joined = [np.concatenate([block[place] for block in blocks]) for blocks in (whole, cut)]
        np.testing.assert_array_equal(*joined)


def test_columns_read_in_groups(monkeypatch):
    text = "x,z,w,y\n" + "".join(f"{i}.5,k{i % 3},{i},{i % 2}\n" for i in range(50))

    def rows():
        stream = streams.read(io.BytesIO(text.encode()), "y", format="csv")
        return stream.feature_names, np.concatenate([X for X, _ in stream])

    names, expected = rows()
    monkeypatch.setattr(_text, "COLUMNS", 2)
    assert rows()[0] == names
    np.testing.assert_array_equal(rows()[1], expected)


def test_json_lines_with_few_values_are_cut(monkeypatch):
    monkeypatch.setattr(_text, "TABLE_VALUES", 40)
    lines = b'{"y":1,"a":1,"b":2,"c":3}\n{"y":0}\n' + b'{"y":1}\n' * 40 + b'{"y":2}\n'

    def pieces_of(data):
        reader = _text.JsonLines(Source(io.BytesIO(data)))
        return list(reader.pieces({name: pa.float64() for name in "yabc"}))

    pieces = pieces_of(lines)
    assert max(piece.table.num_rows for piece in pieces) == 10
    assert sum(piece.table.num_rows for piece in pieces) == 43
    assert pieces[-1].locate(pieces[-1].table.num_rows - 1).endswith(":43")
    with pytest.raises(StreamError, match=r":2: 11 objects; give one object per line"):
        pieces_of(b'{"y":1}\n' + b'{"y":1}' * 11 + b"\n")


# ---------------------------------------------------------------------- memory


def limited(code, *arguments, limit):
    """Run Python code in a process with limited memory; return its output and exit code."""
    import resource  # not on Windows

    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )


@limits_memory
def test_memory_of_wide_tables(tmp_path):
    n = 40_000
    header = ",".join(f"c{i}" for i in range(n))
    (tmp_path / "wide.csv").write_text(
        "\n".join([f"{header},y", *(",".join(["1"] * n) + f",{i % 2}" for i in range(4)), ""])
    )
    code = (
        "import resource, sys, pyarrow.csv\n"
        "from budgetron import streams\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "before = peak()\n"
        "rows = sum(len(y) for _, y in streams.read(sys.argv[1], 'y'))\n"
        "print(rows, peak() - before)\n"
    )
    done = limited(code, tmp_path / "wide.csv", limit=8 << 30)
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 4
    assert megabytes < 300  # it was 460 when all columns were parsed at once


@limits_memory
def test_a_learner_that_needs_too_much_memory(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n")
    code = "import sys; from budgetron.__main__ import main; sys.argv[0] = 'budgetron'; main()"
    arguments = ["run", tmp_path / "t.svm", "-l", "forgetron", "--features", 2**31]
    done = limited(code, *arguments, limit=4 << 30)
    assert done.returncode == 2
    assert re.fullmatch(r"budgetron: [^\n]*(memory|needs about)[^\n]+\n", done.stderr)


def test_an_xz_file_with_a_huge_dictionary(tmp_path):
    data = bytearray(
        lzma.compress((HEADER + BODY).encode(), filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])
    )
    # The header of the first block: its size, flags, the filter and its properties, padding, and a checksum.
    start, end = 12, 12 + (data[12] + 1) * 4
    assert data[14:16] == b"\x21\x01"
    data[16] = 37  # 1 GB
    data[end - 4 : end] = zlib.crc32(data[start : end - 4]).to_bytes(4, "little")
    (tmp_path / "t.csv.xz").write_bytes(data)
    done = run(tmp_path / "t.csv.xz")
    assert done.returncode == 2
    assert b"decompressing it takes more than 256 MB of memory" in done.stderr


def test_long_text_of_a_parquet_file(tmp_path):
    """Repeat a long text, which is stored once: as separate texts it would take more than 2 GB."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(300, np.int32)), pa.array(["x" * (8 << 20)]))
    table = pa.table({"a": text, "b": np.arange(300.0), "y": np.arange(300) % 2})
    pq.write_table(table, tmp_path / "t.parquet", store_schema=False)
    assert (tmp_path / "t.parquet").stat().st_size < 1 << 20
    assert sum(len(y) for _, y in streams.read(tmp_path / "t.parquet", "y")) == 300


def test_many_levels_of_a_parquet_file(tmp_path):
    """A few rows of a text with more levels than rows are read like any others."""
    levels = [f"k{i}" for i in range(5000)]
    table = pa.table({"a": [*levels, None, *levels[:3]], "y": np.arange(5004) % 2})
    pq.write_table(table, tmp_path / "t.parquet")
    expected = np.concatenate([X for X, _ in streams.frame(table, "y", missing="mean")])
    found = np.concatenate([X for X, _ in streams.read(tmp_path / "t.parquet", "y", missing="mean")])
    np.testing.assert_array_equal(found, expected)


def test_a_row_group_that_expands_enormously(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    table = pa.table({"a": np.zeros(1_000_000), "y": np.arange(1_000_000) % 2 == 0})
    pq.write_table(table, path, use_dictionary=False, compression="zstd", row_group_size=1_000_000)
    assert streams.read(path, "y").n_rows == 1_000_000
    monkeypatch.setattr(_columnar, "GROUP_BYTES", 1 << 20)
    monkeypatch.setattr(_columnar, "MAX_RATIO", 100)
    with pytest.raises(StreamError, match=r"a row group expands to 7.* MB, more than 100 times the size"):
        streams.read(path, "y")


def test_wide_rows_of_a_parquet_file_are_read_in_smaller_batches(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.normal(size=500) for i in range(20)} | {"y": np.arange(500) % 2})
    pq.write_table(table, tmp_path / "t.parquet")
    expected = np.concatenate([X for X, _ in streams.read(tmp_path / "t.parquet", "y")])
    monkeypatch.setattr(_columnar, "BATCH_BYTES", 20_000)
    blocks = [X for X, _ in streams.read(tmp_path / "t.parquet", "y")]
    assert 2 < len(blocks) < 100
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
