"""The regret of exponential weights against the number of rounds.

Two experts have the losses of fair coin flips, for which no algorithm has a small expected regret (Theorem
8.5 of Mohri et al.). The figure shows the mean regret of three rates of exponential weights, the lower bound
sqrt(T / 8), and the upper bounds of the three.

    python examples/regret.py [--output regret.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import bounds
from budgetron.experts import ExponentialWeights
from budgetron.streams import coin_flips

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROUNDS, RUNS = 4096, 200
RATES = {
    "best for this T": (None, bounds.exponential_weights),
    "doubling": ("doubling", bounds.exponential_weights_doubling),
    "anytime": ("anytime", bounds.exponential_weights_anytime),
}


def mean_regrets(eta, times):
    """Return the mean regret after each of these numbers of rounds; without eta, with the best for each."""
    regrets = np.zeros((RUNS, len(times)))
    for run in range(RUNS):
        losses = coin_flips(ROUNDS, run)
        best = np.cumsum(losses, axis=0).min(axis=1)
        if eta is not None:
            own = np.cumsum(ExponentialWeights(eta).play_losses(losses).losses)
            regrets[run] = (own - best)[times - 1]
            continue
        for i, T in enumerate(times):
            rate = float(np.sqrt(8 * np.log(2) / T))
            regrets[run, i] = ExponentialWeights(rate).play_losses(losses[:T]).regret
    return regrets.mean(axis=0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("regret.png"), help="file of the figure")
    options = parser.parse_args()
    times = 2 ** np.arange(3, 13)
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    found = {}
    for i, (name, (eta, bound)) in enumerate(RATES.items()):
        found[name] = mean_regrets(eta, times)
        axis.plot(times, found[name], "o-", color=f"C{i}", label=f"eta {name}")
        axis.plot(times, [bound(2, T) for T in times], "--", color=f"C{i}", label="its bound")
    axis.plot(times, [bounds.coin_flips(T) for T in times], color="black", label="lower bound sqrt(T / 8)")
    axis.set(xlabel="rounds T", ylabel="regret", xscale="log", yscale="log", title="Coin flips, two experts")
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    for name, regrets in found.items():
        print(f"eta {name}: mean regret {regrets[-1]:.1f} after {ROUNDS} rounds")
    print(f"lower bound: {bounds.coin_flips(ROUNDS):.1f}")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
