"""A zero-sum game, solved by playing it.

The row player of a random game uses exponential weights, and the column player answers with the best column
(section 8.5 of Mohri et al.). The left panel shows the bounds of the value, which meet. The right panel shows
their gap and the bound that follows from the regret.

    python examples/game.py [--output game.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from scipy.optimize import linprog

from budgetron import bounds, games

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROWS, COLUMNS = 20, 30


def value_of(M):
    """Return the value of the game by linear programming."""
    m, n = M.shape
    # Minimize v such that p' M <= v in each column, for a distribution p.
    solution = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.column_stack([M.T, -np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    return solution.fun


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("game.png"), help="file of the figure")
    options = parser.parse_args()
    M = np.random.default_rng(0).uniform(-1, 1, (ROWS, COLUMNS))
    value = value_of(M)
    times = (2 ** np.arange(2, 15)).tolist()
    solutions = [games.solve(M, rounds=T) for T in times]
    # Losses in [0, 1] have a regret of at most sqrt(T log(m) / 2); those of the game have a larger range.
    limits = [np.ptp(M) * bounds.game_gap(bounds.exponential_weights(ROWS, T), T) for T in times]

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    lower, upper = [one.lower for one in solutions], [one.upper for one in solutions]
    left.fill_between(times, lower, upper, alpha=0.3, label="between the two strategies")
    left.axhline(value, color="black", linewidth=1, label="value, by linear programming")
    left.set(title="bounds of the value", xlabel="rounds", xscale="log")
    right.plot(times, [one.gap for one in solutions], "o-", label="duality gap")
    right.plot(times, limits, "--", color="black", label="bound of the regret, divided by T")
    right.set(title="gap", xlabel="rounds", xscale="log", yscale="log")
    for axis in (left, right):
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    print(f"value {value:.4f}; after {times[-1]} rounds between {lower[-1]:.4f} and {upper[-1]:.4f}")
    print(f"gap {solutions[-1].gap:.4f}, bound {limits[-1]:.4f}")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
