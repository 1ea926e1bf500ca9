"""All budget learners side by side, over two streams.

A noisy two-Gaussian stream and scikit-learn's bundled digits (odd against even) are
learned round by round by every learner with a budget, and by the Perceptron and PA-I
without one for comparison. Prints a table for each stream and draws online error and
support-set size against rounds.

    python examples/demo.py [--output demo.png]
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits

import budgetron as bt

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def two_gaussians(n, noise=0.1, seed=0):
    """Two overlapping Gaussian clouds; each label is flipped with probability `noise`."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n)
    X = y[:, None] + rng.normal(size=(n, 2)) * np.sqrt([0.2, 2.0])
    return X, np.where(rng.random(n) < noise, -y, y)


def odd_digits(seed=0):
    """The digits in random order: odd (+1) against even (-1)."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order] / 16.0, np.where(y[order] % 2, 1, -1)


def learners(budget, gamma):
    """Name and model of everything that takes part."""
    kernel = {"gamma": gamma}
    bound = 0.25 * np.sqrt((budget + 1) / np.log(budget + 1))  # U(B): what the Forgetron can compete with
    return {
        "Perceptron (no budget)": bt.KernelPerceptron(**kernel),
        "PA-I (no budget)": bt.PassiveAggressive(**kernel),
        "Stoptron": bt.Stoptron(budget, **kernel),
        "Remove-Oldest": bt.RemoveOldestPerceptron(budget, **kernel),
        "CKS": bt.CKSPerceptron(budget, **kernel),
        "Random (RBP)": bt.RandomizedBudgetPerceptron(budget, random_state=0, **kernel),
        "Random, modified": bt.RandomizedBudgetPerceptron(budget, "modified", random_state=0, **kernel),
        "Forgetron, self-tuned": bt.Forgetron(budget, **kernel),
        "Forgetron, basic": bt.Forgetron(budget, "basic", **kernel),
        "Forgetron, greedy": bt.Forgetron(budget, "greedy", **kernel),
        "Forgetron, simplified": bt.Forgetron(budget, "simplified", **kernel),
        "Projectron": bt.Projectron(norm_bound=bound, budget=budget, **kernel),
        "Projectron++": bt.ProjectronPlusPlus(norm_bound=bound, budget=budget, **kernel),
    }


def run(models, X, y, progress, title, batch=1000):
    """Learn the stream with every model; the curves, and the rows of the table."""
    task = progress.add_task(title, total=len(models) * len(y))
    curves, rows = {}, []
    for name, model in models.items():
        mistakes, sizes, seconds = [], [], 0.0
        for start in range(0, len(y), batch):
            piece = slice(start, start + batch)
            before = time.perf_counter()
            trace = model.progressive_fit(X[piece], y[piece], classes=[-1, 1])
            seconds += time.perf_counter() - before
            mistakes.append(trace.mistakes)
            sizes.append(trace.support_sizes)
            progress.advance(task, len(trace))
        errors = np.cumsum(np.concatenate(mistakes)) / np.arange(1, len(y) + 1)
        curves[name] = errors, np.concatenate(sizes)
        rows.append((name, 100 * errors[-1], model.n_support_, model.nbytes_, len(y) / seconds))
    return curves, rows


def print_table(console, title, rows):
    table = Table(title=title, title_justify="left")
    table.add_column("learner", no_wrap=True)
    for column in ("online error %", "supports", "bytes", "rounds/s"):
        table.add_column(column, justify="right")
    for name, error, supports, size, rate in rows:
        table.add_row(name, f"{error:.2f}", f"{supports:,}", f"{size:,}", f"{rate:,.0f}")
    console.print(table)


def draw(results, path):
    figure, axes = plt.subplots(2, len(results), figsize=(12, 8), sharex="col", layout="constrained")
    colours = plt.get_cmap("tab20").colors
    for column, (title, curves) in enumerate(results.items()):
        for i, (name, (errors, sizes)) in enumerate(curves.items()):
            style = {"color": colours[i], "linestyle": "--" if "no budget" in name else "-", "linewidth": 1.5}
            rounds = np.arange(1, len(errors) + 1)
            axes[0, column].plot(rounds[50:], 100 * errors[50:], label=name, **style)
            axes[1, column].plot(rounds, sizes, **style)
        final = [100 * errors[-1] for errors, _ in curves.values()]
        ticks = [t for t in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50) if t > 0.8 * min(final)]
        axes[0, column].set(title=title, yscale="log", ylim=(0.85 * min(final), 1.25 * max(final)))
        axes[0, column].set_yticks(ticks, [str(t) for t in ticks])
        axes[0, column].minorticks_off()
        axes[1, column].set(xlabel="round", yscale="log")
        for axis in axes[:, column]:
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("online error (%)")
    axes[1, 0].set_ylabel("supports")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="where to draw the picture")
    options = parser.parse_args()
    streams = {
        "two Gaussians, 10 % noise, budget 200": (*two_gaussians(20_000), 200, 1.0),
        "digits, odd against even, budget 50": (*odd_digits(), 50, 0.3),
    }
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results = {}
    for title, (X, y, budget, gamma) in streams.items():
        with Progress(*columns, console=console, transient=True) as progress:
            results[title], rows = run(learners(budget, gamma), X, y, progress, title)
        print_table(console, title, rows)
    draw(results, options.output)
    console.print(f"Picture: {options.output}")


if __name__ == "__main__":
    main()
