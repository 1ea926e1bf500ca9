"""Measure the coverage and the size of conformal predictions, for docs/conformal.md.

    BUDGETRON_DATA=folder python benchmarks/conformal.py     measure; write docs/conformal/results.json
    python benchmarks/conformal.py --steps                   print figures for several steps, on `CHOSEN_ON`
    python benchmarks/generated.py                           write the tables of the page

All streams of benchmarks/quality.py, in their first order, and of benchmarks/regression.py. Each row is
predicted before its label is seen. Rows are standardised by the rows so far, except for BudgetClassifier and
BudgetRegressor, which need no scaling. The step was chosen on the streams in `CHOSEN_ON`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import (
    BudgetClassifier,
    BudgetRegressor,
    ConformalClassifier,
    ConformalRegressor,
    SecondOrderProjectron,
    SecondOrderRegressor,
    certify,
    linear,
)
from budgetron._util.atomic import atomic_write
from quality_streams import CHOSEN_ON, STREAMS, load
from regression import STREAMS as NUMBERS
from regression import standardised

FOLDER = Path(__file__).parent.parent / "docs" / "conformal"
RESULTS = FOLDER / "results.json"
COVERAGE = 0.9
RECENT = 500  # rounds of the worst part of a stream
# Streams that BudgetClassifier plays, too: of each kind one or two.
WITH_BUDGET = ("phishing", "usps-10", "digits-10", "sea", "electricity")


def worst(covered: np.ndarray) -> float:
    """Return the lowest coverage of `RECENT` rounds in a row."""
    counts = np.concatenate([[0], np.cumsum(covered)])
    size = min(RECENT, len(covered))
    return float((counts[size:] - counts[:-size]).min() / size)


def play_classes(stream: str, learner: Any, scale: bool, **parameters: float) -> dict[str, float]:
    """Play a stream of classes, and return the figures."""
    X, y = load(stream, 0)
    rows = standardised(np.asarray(X, np.float64)) if scale else X
    model = ConformalClassifier(learner, COVERAGE, **parameters)
    trace = model.progressive_fit(rows, y)
    assert trace.sets is not None
    assert trace.covered is not None
    assert certify(model, rows, y, trace).holds
    assert certify(model, rows, y, trace, theorem="conformal_deviation").holds
    sizes = trace.sets.sum(axis=1)
    return {
        "rows": len(y),
        "classes": len(model.classes_),
        "error": trace.error_rate,
        "coverage": trace.coverage,
        "worst": worst(trace.covered),
        "size": trace.mean_set_size,
        "empty": float((sizes == 0).mean()),
        "single": float((sizes == 1).mean()),
    }


def play_numbers(stream: str, learner: Any, scale: bool) -> dict[str, float]:
    """Play a stream of numbers, and return the figures; widths are in standard deviations of the targets."""
    X, y = NUMBERS[stream]()
    rows = standardised(X) if scale else X
    mean, deviation = (y[:100].mean(), y[:100].std()) if scale else (0.0, 1.0)
    targets = (y - mean) / deviation
    model = ConformalRegressor(learner, COVERAGE)
    trace = model.progressive_fit(rows, targets)
    assert trace.intervals is not None
    assert certify(model, rows, targets, trace).holds
    assert certify(model, rows, targets, trace, theorem="conformal_deviation").holds
    low, high = trace.intervals.T
    return {
        "rows": len(y),
        "coverage": trace.coverage,
        "worst": worst((low <= targets) & (targets <= high)),
        "width": trace.median_width / float(targets.std()),
    }


def measure() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    classes: dict[str, dict[str, dict[str, float]]] = {}
    for stream in STREAMS:
        learners: dict[str, tuple[Any, bool]] = {
            "SecondOrderProjectron(100)": (SecondOrderProjectron(100, gamma="auto"), True),
            "linear.Perceptron()": (linear.Perceptron(), True),
        }
        if stream in WITH_BUDGET:
            learners['BudgetClassifier("1MB")'] = (BudgetClassifier("1MB", random_state=0), False)
        classes[stream] = {}
        for name, (learner, scale) in learners.items():
            classes[stream][name] = play_classes(stream, learner, scale)
            print(stream, name, classes[stream][name], flush=True)
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for stream in NUMBERS:
        numbers[stream] = {
            "SecondOrderRegressor": play_numbers(stream, SecondOrderRegressor(gamma="auto"), True),
            "linear.PARegressor": play_numbers(stream, linear.PARegressor(), True),
            "BudgetRegressor": play_numbers(stream, BudgetRegressor(), False),
        }
        print(stream, numbers[stream], flush=True)
    return {"classes": classes, "numbers": numbers}


def compare_steps() -> None:
    for stream in CHOSEN_ON:
        for step in (0.002, 0.005, 0.01, 0.02, 0.05):
            learner = SecondOrderProjectron(100, gamma="auto")
            found = play_classes(stream, learner, True, step=step)
            print(stream, step, {name: round(value, 4) for name, value in found.items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", action="store_true")
    if parser.parse_args().steps:
        compare_steps()
        return
    results = measure()
    FOLDER.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
