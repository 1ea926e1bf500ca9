"""What sharing kernel values saves: ten learners with one kernel, and many labellings of the same digits.

Needs BUDGETRON_DATA with a9a and MNIST. Figures to go by are the ratios within one run.
"""

import argparse
import time
from itertools import combinations
from math import log, sqrt

import numpy as np
from sklearn.base import clone

import budgetron as bt
from budgetron import datasets, evaluate
from budgetron.experiments import _studies as studies


def ten_learners(budget=1500, gamma=0.02):
    bound = 0.25 * sqrt((budget + 1) / log(budget + 1))
    kernel = {"gamma": gamma}
    return {
        "Perceptron": bt.KernelPerceptron(**kernel),
        "PA-I": bt.PassiveAggressive(**kernel),
        "Remove-Oldest": bt.RemoveOldestPerceptron(budget, **kernel),
        "Forgetron": bt.Forgetron(budget, **kernel),
        "Forgetron, greedy": bt.Forgetron(budget, "greedy", **kernel),
        "RBP": bt.RandomizedBudgetPerceptron(budget, random_state=0, **kernel),
        "CKS": bt.CKSPerceptron(budget, **kernel),
        "Stoptron": bt.Stoptron(budget, **kernel),
        "Projectron": bt.Projectron(norm_bound=bound, **kernel),
        "Projectron++": bt.ProjectronPlusPlus(norm_bound=bound, **kernel),
    }


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def adult():
    X, y = datasets.load_adult()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X.toarray()[order], y[order]
    alone = {}
    print(f"a9a, {len(y):,} rounds, budget 1500: seconds")
    for name, learner in ten_learners().items():
        alone[name], _ = timed(lambda learner=learner: evaluate.progressive(learner, (X, y)))
        print(f"  {name:20} {alone[name]:6.2f}")
    together, _ = timed(lambda: evaluate.compare(ten_learners(), (X, y)))
    dearest = max(alone.values())
    print(f"  all ten together     {together:6.2f}")
    print(
        f"  {together / dearest:.2f} times the dearest alone, {together / sum(alone.values()):.2f} of the sum"
    )


def digits(labellings, rows):
    X, y = studies._digits("mnist")
    X, y = X[:rows], y[:rows]
    sets = list(combinations(range(1, 10), 4))
    chosen = sets[:: len(sets) // labellings][:labellings]
    signs = [np.where(np.isin(y, (0, *others)), 1.0, -1.0) for others in chosen]
    budget = len(y) // 50
    learners = [
        {
            "Perceptron": bt.KernelPerceptron(gamma=0.5),
            "basic": bt.Forgetron(budget, "basic", gamma=0.5),
            "self-tuned": bt.Forgetron(budget, gamma=0.5),
            "greedy": bt.Forgetron(budget, "greedy", gamma=0.5),
            "CKS": bt.CKSPerceptron(budget, gamma=0.5),
        }
        for _ in signs
    ]
    fresh = [{name: clone(model) for name, model in group.items()} for group in learners]
    shared, ours = timed(lambda: studies.online_errors(X, signs, learners))
    alone, theirs = timed(lambda: studies.online_errors(X, signs, fresh, share=False))
    same = ours == theirs
    print(f"MNIST, {len(y):,} rows, {labellings} labellings x 5 learners, budget {budget}: seconds")
    print(f"  shared   {shared:6.1f}\n  separate {alone:6.1f}")
    said = "the same errors" if same else "the same errors but for rounding"
    print(f"  separate / shared {alone / shared:.2f}; {said}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labellings", type=int, default=9)
    parser.add_argument("--rows", type=int, default=60_000)
    options = parser.parse_args()
    adult()
    digits(options.labellings, options.rows)


if __name__ == "__main__":
    main()
