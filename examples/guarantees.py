"""Draw mistakes and their bounds against rounds, on a separable, a noisy and a drifting stream.

python examples/guarantees.py                 draw guarantees.png
python examples/guarantees.py --theorems      print the table of docs/theorems.md
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import budgetron
from budgetron import bounds, certify, streams


def prefix_losses(kernel, X, y, rows, coef):
    """Return the sum of the competitor's hinge losses up to each round."""
    return np.cumsum(np.maximum(0.0, 1.0 - y * (kernel(X, rows) @ coef)))


def rbf(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def separable(n):
    """Yield runs on a stream with margin 1/5, on which a competitor of norm 5 has no loss."""
    X, y, w = streams.separable(n, 1000, 0.2, random_state=0)
    g = 5 * w
    for model, bound in (
        (budgetron.KernelPerceptron(kernel="linear"), bounds.perceptron(5.0, 0.0)),
        (budgetron.Forgetron(3500, kernel="linear"), bounds.forgetron(5.0, 0.0, 3500)),
        (budgetron.Projectron(norm_bound=5.0, kernel="linear"), bounds.projectron_norm_bound(5.0, 0.0, 5.0)),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        print(certify(model, X, y, trace, g))
        yield type(model).__name__, trace, np.full(n, bound)


def noisy(n):
    """Yield runs on a stream with a tenth of the labels flipped; the competitor is the best one for it."""
    X, y = streams.two_gaussians(n, 0.1, spread="std", random_state=0)
    for model, weight, factor in (
        (budgetron.KernelPerceptron(gamma=0.5), 1.0, 2.0),
        (budgetron.Forgetron(1000, gamma=0.5), 2.0, 4.0),
        (budgetron.Projectron(norm_bound=3.0, gamma=0.5), 2.0, 4.0),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        certificate = certify(model, X, y, trace)
        print(certificate)
        rows, coef = certificate.expansion
        losses = prefix_losses(rbf, X, y, rows, coef)
        yield type(model).__name__, trace, weight * certificate.norm**2 + factor * losses


def drifting(n):
    """Yield runs on a stream whose separating line turns by half a circle, like the competitors."""
    X, y, competitors, _ = streams.rotating_hyperplane(
        n, steps=16, margin=0.95, norm=1 / 0.95, random_state=0
    )
    starts, weights = zip(*competitors, strict=True)
    shifts = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(weights, axis=0), axis=1))])
    shift = shifts[np.searchsorted(starts, np.arange(n), side="right") - 1]
    for model, theorem in (
        (budgetron.Forgetron(2000, "simplified", kernel="linear"), bounds.simplified_forgetron),
        (
            budgetron.RandomizedBudgetPerceptron(100, "modified", kernel="linear", random_state=0),
            bounds.modified_randomized_budget,
        ),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        print(certify(model, X, y, trace, competitors))
        norm = np.linalg.norm(weights[0])
        curve = [theorem(norm, 0.0, model.budget, s) for s in shifts]
        yield (
            f"{type(model).__name__}, {model.variant}",
            trace,
            np.array(curve)[np.searchsorted(shifts, shift)],
        )


def draw(n, path):
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6))
    panels = (
        ("separable: margin 1/5", separable),
        ("noisy: two Gaussians, a tenth of the labels flipped", noisy),
        ("drifting: the separating line turns", drifting),
    )
    for axis, (title, runs) in zip(axes, panels, strict=True):
        rounds = np.arange(1, n + 1)
        axis.fill_between(rounds, rounds, n, color="0.93", label="above the number of rounds: no information")
        for i, (name, trace, bound) in enumerate(runs(n)):
            axis.plot(rounds, np.cumsum(trace.mistakes), color=f"C{i}", label=name, linewidth=5 - 1.8 * i)
            axis.plot(rounds, bound, color=f"C{i}", linestyle="--", linewidth=3.6 - 1.2 * i)
        axis.set(title=title, xlabel="rounds", xscale="log", yscale="log", ylim=(0.8, n), xlim=(1, n))
        axis.legend(fontsize=8, loc="upper left")
    axes[0].set_ylabel("mistakes (solid) and bound (dashed)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def theorems():
    """Return the table of docs/theorems.md."""
    lines = [
        "| theorem | function of `budgetron.bounds` | bounds | learner | assumes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in bounds.THEOREMS.values():
        cells = [entry.source, f"`{entry.name}`", entry.quantity, entry.learner, entry.assumptions]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--output", default="guarantees.png")
    parser.add_argument("--theorems", action="store_true")
    options = parser.parse_args()
    if options.theorems:
        print(theorems())
    else:
        draw(options.rounds, options.output)


if __name__ == "__main__":
    main()
