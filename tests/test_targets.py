"""Targets that are numbers: when they are, and how they are read."""

import io

import numpy as np
import pandas as pd
import pytest

from budgetron import streams
from budgetron.streams import StreamError


def opened(targets, task="auto", **options):
    """Return a stream over a CSV file with these targets, as text."""
    lines = [f"{i % 7}.5;{target}" for i, target in enumerate(targets)]
    text = "\n".join(["x;y", *lines, ""])
    return streams.read(io.BytesIO(text.encode()), "y", format="csv", delimiter=";", task=task, **options)


def numbers(targets, **options):
    stream = opened(targets, **options)
    assert stream.task == "regression"
    assert stream.classes is None
    return np.concatenate([y for _, y in stream]).tolist()


QUANTITIES = {
    "decimals": ["1", "2", "2.5"],
    "one value": ["1.5", "1.5"],
    "prices": [str(100 * i + 50_000) for i in range(21)],
    "negative": [str(-i) for i in range(0, 2100, 100)],
    "exponents": ["1e-3", "2e-3"],
    "decimal commas": ["1,5", "2,25"],
    "currency": ["$1.50", "$2.25"],
    "text among numbers": ["1.5", "low", "2.5"],
}
CLASSES = {
    "two": ["0", "1", "1"],
    "signs": ["-1", "1", "-1"],
    "letters": [str(i) for i in range(26)],
    "a hundred": [str(i) for i in range(100)],
    "few large codes": ["100", "2000", "30000"] * 7,
    "whole numbers with a point": ["1.0", "2.0"],
    "leading zeros": ["00501", "10023", "0.5"],
    "text": ["a", "b"],
    "mostly text": ["1.5", "low", "high"],
    "numbers and text": ["1", "2", "3", "other"],
    "truth": ["true", "false"],
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_quantity_is_regression(name):
    assert opened(QUANTITIES[name]).task == "regression"


@pytest.mark.parametrize("name", CLASSES)
def test_labels_are_classes(name):
    stream = opened(CLASSES[name])
    assert stream.task == "classification"
    assert len(stream.classes) == len(set(CLASSES[name]))


@pytest.mark.parametrize("rest", ["0.5", "5", "x"])
def test_rows_after_the_first_thousand_do_not_decide(rest):
    """A long file is treated like its beginning."""
    labels = ["0", "1"] * 500
    assert opened(labels).task == "classification"
    assert opened([*labels, rest]).task == "classification"
    assert opened([*labels[1:], "0.5", rest]).task == "regression"


@pytest.mark.parametrize("targets", [QUANTITIES["prices"], CLASSES["letters"], CLASSES["two"]])
def test_all_formats_agree(tmp_path, targets):
    values = np.array(list(map(int, targets)))
    frame = pd.DataFrame({"x": np.arange(len(values)) % 5 + 0.5, "y": values})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "t.parquet")
    lines = [f"{y} 1:{x}\n" for x, y in zip(frame["x"], frame["y"], strict=True)]
    (tmp_path / "t.svm").write_text("".join(lines))
    found = {
        streams.frame(frame, "y", task="auto").task,
        streams.arrays(frame[["x"]], values, task="auto").task,
    }
    for name in ("t.csv", "t.jsonl", "t.parquet", "t.svm"):
        stream = streams.read(tmp_path / name, None if name == "t.svm" else "y", task="auto")
        np.testing.assert_array_equal(np.concatenate([y for _, y in stream]), values)
        found.add(stream.task)
    with open(tmp_path / "t.svm", "rb") as file:
        found.add(streams.read(io.BytesIO(file.read()), task="auto").task)
    assert len(found) == 1


def test_numbers_are_read_like_features():
    assert numbers(["1,5", "2.000,25"]) == [1.5, 2000.25]
    assert numbers(["12,5 %", "7 %"]) == [12.5, 7.0]
    assert numbers([" 1.5", "2.5 "]) == [1.5, 2.5]
    assert numbers(["1", "2"], task="regression") == [1.0, 2.0]
    with pytest.raises(StreamError, match=r"which may be 1\.234 or 1234"):
        opened(["1,234"], task="regression")
    assert numbers(["1,234"], task="regression", decimal=".") == [1234.0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "the target is missing; every row needs a target"),
        ("NA", "the target is missing"),
        ("?", "the target is missing"),
        ("-999", "the target is missing"),
        ("low", "the target 'low' is not a number; correct it; if the targets are classes"),
        ("1_000", "the target '1_000' is not a number"),
        ("inf", "the target 'inf' is infinite"),
        ("-Infinity", "the target '-Infinity' is infinite"),
        ("1e31", "the target '1e31' is too large"),
    ],
)
@pytest.mark.parametrize("line", [3, 1500])
def test_a_bad_target_names_its_line(bad, message, line):
    targets = ["1.5"] * 2000
    targets[line - 2] = bad
    with pytest.raises(StreamError) as error:
        numbers(targets, na_values=["-999"])
    assert str(error.value).startswith(f"stream:{line}: {message}")
    # A row to predict need not have a target
    encoder = opened(["1.5", "2.5"]).encoder
    stream = opened(targets, task="regression", encoder=encoder)
    y = np.concatenate([y for _, y in stream])
    assert np.flatnonzero(np.isnan(y)).tolist() == ([] if bad == "-999" else [line - 2])


def test_numbers_of_typed_formats(tmp_path):
    lines = ['{"x": 1, "y": 2}', '{"x": 2, "y": 3}', '{"x": 3, "y": 4.5}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    ((_, y),) = streams.read(tmp_path / "t.jsonl", "y", task="regression")
    assert y.tolist() == [2.0, 3.0, 4.5]
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [1.5, None, 2.5]})
    with pytest.raises(StreamError, match="frame, row 2: the target is missing"):
        list(streams.frame(frame, "y", task="regression"))
    with pytest.raises(StreamError, match="row 1: the target 'a' is not a number"):
        list(streams.frame(frame.assign(y=["a", "b", "c"]), "y", task="regression"))
    dates = pd.to_datetime(["2024-01-01"] * 3)
    with pytest.raises(StreamError, match="not a number"):
        list(streams.frame(frame.assign(y=dates), "y", task="regression"))
    assert streams.frame(frame.assign(y=["1.5", "2.5", "3.5"]), "y", task="auto").task == "classification"


def test_given_classes_are_classes():
    stream = opened(["1.5", "2.5"], classes=["1.5", "2.5"])
    assert stream.task == "classification"
    assert stream.classes.tolist() == [1.5, 2.5]


def test_an_unknown_task_is_an_error():
    for open_stream in (
        lambda: opened(["1"], task="ranking"),
        lambda: streams.arrays([[1.0]], [1.0], task="ranking"),
        lambda: streams.frame(pd.DataFrame({"x": [1], "y": [1]}), "y", task="ranking"),
    ):
        with pytest.raises(ValueError, match="task must be one of classification, regression, auto"):
            open_stream()


def test_the_form_of_targets_is_checked():
    assert streams.Targets(**opened(["1,5"]).targets.state()) == streams.Targets(form=",.")
    with pytest.raises(ValueError, match="not a form of numbers"):
        streams.Targets(form="abc")
    with pytest.raises(ValueError, match="not a form of numbers"):
        streams.Targets(unit="kg")
