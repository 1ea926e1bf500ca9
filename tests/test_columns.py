"""How columns are read: dates, ids, codes, numbers in several forms, missing values, text."""

import io
import json
from datetime import datetime

import messy
import numpy as np
import pytest

from budgetron import evaluate, linear, streams
from budgetron.streams import Encoder, StreamError, frame, read

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def table(**columns):
    """Return a CSV file with these columns and a label `y`, quoted where necessary."""
    columns["y"] = [i % 2 for i in range(len(next(iter(columns.values()))))]
    return io.BytesIO(pd.DataFrame(columns).to_csv(index=False).encode())


def column_of(stream, name="a"):
    return next(column for column in stream.encoder.columns if column.name == name)


def features(stream, name="a"):
    """Return the features of a column by name, over all rows."""
    X = np.concatenate([X for X, _ in stream])
    return {f: X[:, i] for i, f in enumerate(stream.feature_names) if f.startswith(name)}


OTHER = [0.5, 1.5, 2.25, -1.0]


def of_first(values, **options):
    """Return the stream over a column `a` with these values and another column of numbers."""
    return read(table(a=values, b=(OTHER * len(values))[: len(values)]), "y", scale=False, **options)


# ---------------------------------------------------------------------- dates and times

MOMENTS = [datetime(2024, 2, 29, 23, 59, 30), datetime(2024, 3, 1, 0, 0), datetime(2023, 12, 31, 12, 30, 15)]


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("year-month-day", "%Y-%m-%d %H:%M:%S"),
        ("year-month-day", "%Y-%m-%dT%H:%M:%S.000Z"),
        ("year-month-day", "%Y/%m/%d %H:%M:%S"),
        ("day.month.year", "%d.%m.%Y %H:%M:%S"),
        ("day/month/year", "%d/%m/%Y %H:%M:%S"),
        ("month/day/year", "%m/%d/%Y %I:%M:%S %p"),
        ("day month year", "%d-%b-%Y %H:%M:%S"),
        ("month day year", "%B %d, %Y %H:%M:%S"),
    ],
)
def test_dates_in_many_forms(form, written):
    stream = of_first([moment.strftime(written) for moment in MOMENTS])
    column = column_of(stream)
    assert (column.kind, column.form) == ("time", form)
    found = features(stream)
    first = datetime(2024, 2, 29)
    expected = [(moment - first).total_seconds() / 86400 for moment in MOMENTS]
    np.testing.assert_allclose(found["a.days"], expected, atol=1e-9)
    hours = [2 * np.pi * (m.hour + m.minute / 60 + m.second / 3600) / 24 for m in MOMENTS]
    days = [2 * np.pi * m.weekday() / 7 for m in MOMENTS]
    for part, angles in (("hour", hours), ("weekday", days)):
        np.testing.assert_allclose(found[f"a.{part}_sin"], np.sin(angles), atol=1e-6)
        np.testing.assert_allclose(found[f"a.{part}_cos"], np.cos(angles), atol=1e-6)


def test_dates_without_time_and_times_without_date():
    assert list(features(of_first(["2024-01-31", "2024-02-01"]))) == [
        *("a.days", "a.weekday_sin", "a.weekday_cos"),
    ]
    found = features(of_first(["06:00", "18:00"]))
    np.testing.assert_allclose(found["a.hour_sin"], [1, -1])
    assert list(found) == ["a.hour_sin", "a.hour_cos"]


def test_unix_times_and_compact_dates_need_a_name_that_says_so():
    seconds = [1_700_000_000, 1_700_003_600, 1_700_086_400]
    for factor, unit in ((1, "s"), (1000, "ms"), (10**6, "us")):
        stream = read(table(event_time=[factor * s for s in seconds], b=OTHER[:3]), "y", scale=False)
        assert column_of(stream, "event_time").form == unit
        days = features(stream, "event_time")["event_time.days"]
        np.testing.assert_allclose(np.diff(days), [1 / 24, 23 / 24], atol=1e-6)
    assert column_of(of_first(seconds)).kind == "number"
    dates = read(table(orderDate=[20240131, 20240201, 20231231], b=OTHER[:3]), "y")
    assert column_of(dates, "orderDate").form == "yearmonthday"
    assert column_of(of_first([20240131, 20240201, 20231231])).kind == "number"


def test_the_order_of_day_and_month_is_never_guessed():
    dates = ["03/04/2024", "05/06/2024"]
    with pytest.raises(StreamError, match=r"stream:2: .*'03/04/2024', which may begin .*; set date_order to"):
        of_first(dates)
    for order, month in (("day", 4), ("month", 3)):
        stream = of_first(dates, date_order=order)
        day = 3 if order == "day" else 4
        assert column_of(stream).origin == (datetime(2024, month, day) - datetime(1970, 1, 1)).days
    assert column_of(of_first(["03/04/2024", "05/16/2024"])).form == "month/day/year"
    assert column_of(of_first(["2024-02-30", "2024-02-01"])).kind == "onehot"  # no such day


def test_a_bad_date_later_names_its_line():
    values = ["2024-01-01 10:00"] * 5000
    values[4500] = "2024-13-01 10:00"
    stream = of_first(values)
    with pytest.raises(StreamError, match=r"stream:4502: column \"a\" has '2024-13-01 10:00', but dates"):
        list(stream)


def test_typed_dates_are_read_like_written_ones(tmp_path):
    moments = pd.to_datetime(MOMENTS)
    df = pd.DataFrame({"a": moments, "b": OTHER[:3], "y": [0, 1, 0]})
    expected = features(of_first([str(moment) for moment in moments]))
    df.to_parquet(tmp_path / "t.parquet")
    zoned = df.assign(a=moments.tz_localize("Europe/Rome"))
    for stream in (
        frame(df, "y", scale=False),
        frame(zoned, "y", scale=False),
        read(tmp_path / "t.parquet", "y", scale=False),
    ):
        found = features(stream)
        assert list(found) == list(expected)
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-9)
    lines = "\n".join(json.dumps({"a": str(m), "b": 1.5, "y": i % 2}) for i, m in enumerate(MOMENTS))
    stream = read(io.BytesIO(lines.encode()), "y", scale=False, format="jsonl")
    np.testing.assert_allclose(features(stream)["a.days"], expected["a.days"], atol=1e-9)


# ---------------------------------------------------------------------- ids and codes


def test_columns_that_look_like_ids_are_not_used():
    n = 300
    names = [f"user {i}" for i in range(n)]
    for values in (names, list(range(n)), list(range(5 * n, 0, -5))):
        stream = of_first(values)
        assert column_of(stream).kind == "none"
        assert stream.feature_names == ["b"]
        kept = of_first(values, keep=["a"])
        assert column_of(kept).kind in ("number", "hash")
    numbers = np.random.default_rng(0).permutation(10**6)[:n].tolist()
    assert column_of(of_first(numbers)).kind == "number"
    for name in ("id", "customerId", "order_id", "Unnamed: 0"):
        assert column_of(read(table(**{name: numbers}, b=OTHER * 75), "y"), name).kind == "none"
    # A column that repeats is a category, and something must be left to learn.
    users = read(table(user_id=[i % 90 for i in range(n)], b=OTHER * 75), "y")
    assert column_of(users, "user_id").kind == "hash"
    assert read(table(a=names), "y").n_features == 64
    assert read(table(a=list(range(n))), "y").feature_names == ["a"]


def test_codes_are_categories():
    assert column_of(of_first(["00501", "94110", "10001"])).kind == "onehot"
    zips = read(table(zip=[94110, 10001, 94110], b=OTHER[:3]), "y")
    assert zips.feature_names[:3] == ["zip=10001", "zip=94110", "zip=?"]
    numbers = read(table(zip=[94110, 10001], b=OTHER[:2]), "y", numeric=["zip"])
    assert column_of(numbers, "zip").kind == "number"


def test_the_decision_depends_on_the_first_rows_only(tmp_path):
    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    messy.write(long, 20_000)
    lines = long.read_text().splitlines(keepends=True)
    short.write_text("".join(lines[:6001]))
    states = [read(path, "returned").encoder.state() for path in (short, long)]
    assert states[0]["columns"] == states[1]["columns"]
    kinds = {c["name"]: c["kind"] for c in states[0]["columns"]}
    assert kinds == {
        "transaction_id": "none",
        "timestamp": "time",
        "birth_date": "time",
        "zip": "hash",
        "merchant": "hash",
        "amount": "number",
        "age": "number",
        "channel": "onehot",
        "member": "onehot",
        "comment": "words",
        "note": "onehot",
    }


# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (["1,5", "-2,25", "3"], [1.5, -2.25, 3]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1.234,5", "12", "2.345.678,9"], [1234.5, 12, 2345678.9]),
        (["1.234.567", "999"], [1234567, 999]),
        (["1,234.5", "12", "2,345,678"], [1234.5, 12, 2345678]),
        (["1,234,567", "1,000"], [1234567, 1000]),
        (["1 234,5", "12"], [1234.5, 12]),
        (["1\u202f234.5", "+12"], [1234.5, 12]),
        (["1'234.50", "7"], [1234.5, 7]),
        (["1.234", "5.678"], [1.234, 5.678]),
        (["1e3", "2.5E-1"], [1000, 0.25]),
    ],
)
def test_forms_of_numbers(written, numbers):
    stream = read(table(a=written, b=["u", "v", "u"][: len(written)]), "y", scale=False)
    assert features(stream)["a"].tolist() == numbers


def test_ambiguous_numbers_are_never_misread():
    with pytest.raises(StreamError, match=r"has '1,234', which may be 1.234 or 1234; set decimal to"):
        read(table(a=["1,234", "5,678"], b=["u", "v"]), "y")
    for decimal, value in ((",", 1.234), (".", 1234)):
        stream = read(table(a=["1,234", "5,678"], b=["u", "v"]), "y", scale=False, decimal=decimal)
        assert features(stream)["a"][0] == value
    # Another column of the same file decides.
    for other, value in (("0,5", 1.234), ("0.5", 1234)):
        stream = read(table(a=["1,234", "5,678"], b=[other, "1"]), "y", scale=False)
        assert features(stream)["a"][0] == value
    stream = read(table(a=["1.234", "5.678"], b=["0,5", "1"]), "y", scale=False)
    assert features(stream)["a"].tolist() == [1234, 5678]
    with pytest.raises(StreamError, match=r"has '2\.5', which is not written like '1,5'"):
        read(table(a=["1,5", "2.5"], b=["u", "v"]), "y")


def test_a_number_in_another_form_later_names_its_line():
    values = ["1,5"] * 5000
    values[4200] = "2.5"
    with pytest.raises(StreamError, match=r"stream:4202: column \"a\" has '2\.5', but numbers before"):
        list(of_first(values))


# ---------------------------------------------------------------------- missing values


def test_missing_values_known_by_default_and_given():
    values = ["1", "?", "NA", "N/A", "null", "-", "", " ?", "3"]
    found = features(of_first(values))
    assert found["a=missing"].tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 0]
    assert found["a"].tolist() == [1] * 8 + [3]
    assert features(of_first(["1", "-999", "3"], na_values=["-999"]))["a"].tolist() == [1, 1, 3]
    df = pd.DataFrame({"a": [1.0, -999.0, 3.0], "y": [0, 1, 0]})
    assert features(frame(df, "y", scale=False, na_values=["-999"]))["a"].tolist() == [1, 1, 3]
    text = of_first(["x", "", "-", "z"])
    assert text.feature_names[:4] == ["a=x", "a=z", "a=missing", "a=?"]
    assert features(text)["a=missing"].tolist() == [0, 1, 1, 0]
    dates = features(of_first(["2024-01-01", "?", "2024-01-03"]))
    assert dates["a.days"].tolist() == [0, 0, 2]
    assert dates["a=missing"].tolist() == [0, 1, 0]
    assert dates["a.weekday_sin"][1] == dates["a.weekday_cos"][1] == 0
    with pytest.raises(StreamError, match=r"stream:3: column \"a\" has no value"):
        list(of_first(["2024-01-01", "?", "2024-01-03"], missing="error"))


def test_labels_may_be_signs():
    source = io.BytesIO(b"a,y\n1,+\n2,-\n3,?\n")
    assert read(source, "y").classes.tolist() == ["+", "-", "?"]


# ---------------------------------------------------------------------- states and text


def test_a_saved_encoder_reads_other_files_in_the_same_way(tmp_path):
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    lines = messy.write(tmp_path / "all.csv", 6000).read_text().splitlines(keepends=True)
    first.write_text("".join(lines[:5001]))
    second.write_text(lines[0] + "".join(lines[5001:]))
    whole = np.concatenate([X for X, _ in read(tmp_path / "all.csv", "returned")])
    stream = read(first, "returned")
    start = np.concatenate([X for X, _ in stream])
    encoder = Encoder.from_state(stream.encoder.state())
    # Learning continues as if both files were one, and rows to predict do not change the means.
    continued = read(second, "returned", encoder=encoder, update_encoder=True)
    rest = np.concatenate([X for X, _ in continued])
    np.testing.assert_array_equal(np.concatenate([start, rest]), whole)
    np.testing.assert_array_equal(np.concatenate([X for X, _ in continued]), rest)
    fixed = np.concatenate([X for X, _ in read(second, encoder=encoder)])
    assert fixed.shape == rest.shape
    assert (fixed != rest).any()
    assert encoder.state()["running"]["rows"] == 5000


def test_states_are_checked():
    stream = of_first(["2024-01-01", "2024-01-02"])
    for change in (
        {"kind": "unknown"},
        {"form": "unknown"},
        {"parts": ["minute"]},
        {"unknown": 1},
        {"parts": [], "kind": "onehot"},
    ):
        state = stream.encoder.state()
        state["columns"][0] = {**state["columns"][0], **change}
        with pytest.raises(ValueError, match=r"column"):
            Encoder.from_state(state)


def test_states_of_earlier_versions_are_read():
    stream = of_first(["x", "z", "x"])
    old = stream.encoder.state()
    del old["options"]["na_values"]
    kept = ("name", "kind", "levels", "missing")
    old["columns"] = [{name: column[name] for name in kept} for column in old["columns"]]
    encoder = Encoder.from_state(old)
    assert "?" not in encoder.na_values  # it was a level like any other
    assert encoder.feature_names == stream.feature_names


def test_words_are_hashed():
    texts = [f"the {word} parcel number {i} came" for i, word in enumerate(["late", "broken"] * 20)]
    stream = of_first(texts)
    assert column_of(stream).kind == "words"
    X = np.stack(list(features(stream).values()), axis=1)
    np.testing.assert_allclose((X**2).sum(axis=1), 1.0)
    swapped = of_first([" ".join(reversed(text.split())).upper() for text in texts])
    np.testing.assert_array_equal(np.stack(list(features(swapped).values()), axis=1), X)


def test_a_table_of_text_has_sparse_rows():
    rng = np.random.default_rng(0)
    words = [["late", "broken", "lost"], ["great", "fast", "happy"]]
    texts = [f"the parcel was {words[i % 2][rng.integers(3)]} on day {i} of my life" for i in range(600)]
    stream = read(table(a=texts), "y", constant=True)
    assert stream.n_features == 2**18 + 1 == len(stream.feature_names)
    X = next(iter(stream))[0]
    assert X.format == "csr"
    assert X.shape == (600, 2**18 + 1)
    dense = read(table(a=texts, b=OTHER * 150), "y")
    assert dense.n_features == 128 + 1
    model = linear.AROW(covariance="diagonal")
    assert evaluate.progressive(model, stream).error_rate < 0.05
    encoder = Encoder.from_state(stream.encoder.state())
    (again, _), *_ = read(table(a=texts), encoder=encoder)
    np.testing.assert_array_equal(again[:9].toarray(), X[:9].toarray())
    cut = [X for X, _ in read(table(a=texts), "y", constant=True, block=70)]
    assert max(X.shape[0] for X in cut) == 70
    texts[300] = ""
    (gap, _), *_ = read(table(a=texts), "y")
    assert gap[300].nnz == 0
    with pytest.raises(StreamError, match=r"stream:302: column \"a\" has no value"):
        list(read(table(a=texts), "y", missing="error"))


def test_without_options_a_messy_table_is_learned_as_well_as_with_the_best(tmp_path):
    path = messy.write(tmp_path / "messy.csv", 12_000)
    useless = ["transaction_id", "birth_date", "note"]

    def error(**options):
        stream = read(path, "returned", constant=True, **options)
        return evaluate.progressive(linear.AROW(), stream).error_rate

    best = min(
        error(ignore=useless),
        error(ignore=useless, encode="onehot"),
        error(ignore=[*useless, "timestamp"]),
        error(ignore=useless, hash_columns=64),
        error(ignore=useless, hash_columns=512),
    )
    assert error() <= best + 0.005
    text = {"categorical": ["transaction_id", "timestamp", "birth_date", "comment"]}
    assert error(**text) > best + 0.02  # what earlier versions did


def test_frequent_levels_have_features_of_their_own():
    levels = {"a": 100, "b": 1000, "c": 3000}
    rng = np.random.default_rng(0)
    rows = {name: [f"{name}{int(i)}" for i in rng.integers(0, n, 4096)] for name, n in levels.items()}
    stream = read(table(**rows), "y", constant=True)
    assert stream.n_features == 960
    columns = {c.name: c for c in stream.encoder.columns}
    assert len(columns["a"].levels) == 100
    assert {c.width for c in columns.values()} == {64}
    counts = {(n, v): rows[n].count(v) for n in rows for v in set(rows[n])}
    chosen = {(c.name, level) for c in columns.values() for level in c.levels}
    least = min(counts[key] for key in chosen)
    assert all(count <= least for key, count in counts.items() if key not in chosen)
    X = next(iter(stream))[0]
    assert (X[:, :-1].sum(axis=1) == 3).all()
    for name, column in columns.items():
        for level in column.levels[:3]:
            place = stream.feature_names.index(f"{name}={level}")
            assert (X[:, place] == [value == level for value in rows[name]]).all()
    given = read(table(**rows), "y", hash_columns=8)
    assert given.n_features == 24
    few = table(a=[f"u{i % 80}" for i in range(81)], b=[f"v{i % 90}" for i in range(81)])
    once = read(few, "y", keep=["b"])
    assert [len(c.levels) for c in once.encoder.columns] == [1, 0]


def test_describe_and_summary():
    encoder = streams.read(table(id=[f"u{i}" for i in range(40)], b=OTHER * 10), "y", constant=True).encoder
    assert encoder.summary() == "1 numeric (b), constant, 1 not used (id)"
    described = {row["column"]: row for row in encoder.describe()}
    assert described["id"]["features"] == 0
    assert "40 different values" in described["id"]["remark"]
    assert described["b"]["read_as"] == "number"


# ---------------------------------------------------------------------- units, delimiters, missing values


@pytest.mark.parametrize(
    ("texts", "form", "unit", "described"),
    [
        (["€1.50", "-€2", "€ 3.25", "4€"], "", "€", "number (in €)"),
        (["12%", "7.5 %", "-3%"], "", "%", "number (in %)"),
        (["$1,234.50", "$7.00", "$12,345,678"], ".,", "$", "number (as 1,234.5, in $)"),
        (["1.234,50 €", "7,25 €", "-3,00 €"], ",.", "€", "number (as 1.234,5, in €)"),
    ],
)
def test_numbers_with_a_unit(texts, form, unit, described):
    values = [*texts, *texts[:2], "NA"] * 3
    stream = of_first(values)
    column = column_of(stream)
    assert (column.kind, column.form, column.unit) == ("number", form, unit)
    assert column.description() == described
    plain = [text.strip(" €%$").replace("-€", "-").replace("-$", "-") for text in texts]
    if form == ".,":
        plain = [text.replace(",", "") for text in plain]
    elif form == ",.":
        plain = [text.replace(".", "").replace(",", ".") for text in plain]
    expected = [float(text) for text in plain]
    found = features(stream)
    np.testing.assert_array_equal(found["a"][: len(texts)], expected)
    assert found["a=missing"].sum() == 3
    saved = Encoder.from_state(json.loads(json.dumps(stream.encoder.state(), default=np.ndarray.tolist)))
    assert saved.columns == stream.encoder.columns
    state = stream.encoder.state()
    state["columns"][0]["unit"] = "x"
    with pytest.raises(ValueError, match="an unknown unit: 'x'"):
        Encoder.from_state(state)


def test_a_column_without_a_unit_is_stored_as_before():
    state = of_first(["1.5", "2.5", "3.5"]).encoder.state()
    assert all("unit" not in column for column in state["columns"])


def test_another_unit_and_text_with_a_sign_are_not_numbers():
    late = ["€1.5", "€2.5"] * 3000
    with pytest.raises(StreamError, match=r"""stream:6002: column "a" has '£3', but numbers before"""):
        list(of_first([*late, "£3"]))
    assert column_of(of_first(["50% off", "20% off", "10% off"])).kind == "onehot"
    assert column_of(of_first(["$5", "€6", "$7"])).kind == "onehot"
    assert column_of(of_first(["$5", "$6", "$7"], categorical=["a"])).kind == "onehot"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a|b|y\n1|2|0\n3|4|1\n", ["a", "b"]),
        ("a, net;b;y\n1,5;2;0\n3,25;4;1\n", ["a, net", "b"]),
        ('"a;b;c;d;e",b,y\n1,2,0\n3,4,1\n', ["a;b;c;d;e", "b"]),
        ("a,b;y\n1,0\n2,1\n", ["a"]),
    ],
)
def test_the_delimiter_is_the_most_frequent_one(text, names):
    stream = read(io.BytesIO(text.encode()), -1)
    assert [column.name for column in stream.encoder.columns] == names


def test_missing_values_that_appear_late_are_missing():
    numbers = [f"{i / 8}" for i in range(100_000)]
    for text in ("?", " NA", "nan", ""):
        values = [*numbers, text, "1.5"]
        stream = of_first(values)
        found = features(stream)["a"]
        assert found[-1] == 1.5
        assert found[-2] == pytest.approx(np.mean([i / 8 for i in range(100_000)]))
    with pytest.raises(StreamError, match=r"""column "a" has 'oops', but numbers before"""):
        list(of_first([*numbers, "?", "oops"]))


@pytest.mark.parametrize("name", ["orders", "sensors", "visits"])
def test_messy_tables_are_read_as_their_columns_are_meant(tmp_path, name):
    path = messy.write(tmp_path / "t.csv", 4200, 7, name)
    encoder = read(path, -1).encoder
    kinds = {column.name: column.kind for column in encoder.columns}
    expected = {
        "orders": {"transaction_id": "none", "timestamp": "time", "zip": "hash", "amount": "number"},
        "sensors": {"Messung-Nr.": "none", "Kennung": "none", "Zeitpunkt": "time", "Umsatz": "number"},
        "visits": {"sessionId": "none", "customer_id": "hash", "started": "time", "epoch_ms": "time"},
    }[name]
    assert expected.items() <= kinds.items()
    forms = {column.name: column.form for column in encoder.columns}
    if name == "sensors":
        assert forms["Zeitpunkt"] == "day.month.year"
        assert forms["Umsatz"] == forms["Temperatur"] == ",."
    if name == "visits":
        assert (forms["started"], forms["epoch_ms"], forms["spent"]) == ("month/day/year", "ms", ".,")


BAD_ROWS = {
    "a date": ("1.5,someday,x,yes", "someday"),
    "another date": ("1.5,2024-13-01,x,yes", "2024-13-01"),
    "a number": ("much,2024-01-05,x,yes", "much"),
    "a number that is too large": ("1e300,2024-01-05,x,yes", "1e+300"),
    "a label": ("1.5,2024-01-05,x,perhaps", "perhaps"),
    "a missing label": ("1.5,2024-01-05,x,", "the label is missing"),
    "too few fields": ("1.5,2024-01-05,x", "3 fields"),
}


@pytest.mark.parametrize("second", BAD_ROWS)
@pytest.mark.parametrize("first", BAD_ROWS)
def test_of_two_bad_rows_the_first_is_reported(tmp_path, first, second):
    good = [f"{i}.5,2024-01-{1 + i % 28:02},{'xyz'[i % 3]},{'no' if i % 2 else 'yes'}" for i in range(40)]
    path = tmp_path / "good.csv"
    path.write_text("\n".join(["a,d,c,y", *good]) + "\n")
    stream = read(path, "y")
    list(stream)
    rows = good.copy()
    rows[10], rows[20] = BAD_ROWS[first][0], BAD_ROWS[second][0]
    rows[5] += "\n"  # a blank line counts
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(["a,d,c,y", *rows]) + "\n")
    with pytest.raises(StreamError) as raised:
        list(read(bad, "y", classes=["no", "yes"], encoder=stream.encoder, update_encoder=True))
    assert "bad.csv:13: " in str(raised.value)
    assert BAD_ROWS[first][1] in str(raised.value)
