"""Figures of mistakes against the size of a problem, for the scripts of this folder."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def output_path(description, default):
    """Return where to write the figure, as given on the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path(default), help="file of the figure")
    return parser.parse_args().output


def draw(
    output: Path,
    quantity: str,
    sizes: Sequence[int],
    rows: Callable,
    learners: Mapping[str, Callable],
    limits: Mapping[str, Callable[[int], float]],
    runs: int,
):
    """Draw and print the mean number of mistakes of each learner, and its bound, for each size.

    `rows(size, run)` returns X and y, `learners` maps names to functions that make a learner, and `limits`
    maps the same names to functions of the size that return the bound.
    """
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    problems = {size: [rows(size, run) for run in range(runs)] for size in sizes}
    for i, (name, make) in enumerate(learners.items()):
        found = [np.mean([make().fit(X, y).mistakes_ for X, y in problems[size]]) for size in sizes]
        axis.plot(sizes, found, "o-", color=f"C{i}", label=name)
        axis.plot(sizes, list(map(limits[name], sizes)), "--", color=f"C{i}", label=f"bound of {name}")
        counts = dict(zip(sizes, (round(float(count)) for count in found), strict=True))
        print(f"{name}: mistakes by {quantity} {counts}")
    rounds = len(problems[sizes[0]][0][1])
    axis.set(xscale="log", yscale="log", xlabel=quantity, ylabel=f"mistakes in {rounds} rounds")
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=110)
    print(f"Figure: {output}")
