"""Compare mistakes with their bounds, and write the tables of docs/guarantees.md.

    python benchmarks/guarantees.py              evaluate all certificates; write the tables
    python benchmarks/guarantees.py --print      print the tables only

The first table has several learners on a separable, a noisy and a drifting stream, and on 5,000 rows of Adult
(BUDGETRON_DATA names the folder with a9a.gz). The second summarizes the certificates of second-order learners
on many short streams. The third has the vote of `BudgetClassifier`, by the theorems of its experts. All
competitors are the best ones that `certify` finds.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from budgetron import (
    BudgetClassifier,
    Certificate,
    Forgetron,
    KernelPerceptron,
    ProjectronPlusPlus,
    SecondOrderProjectron,
    certify,
    linear,
    streams,
)
from budgetron._base.online_classifier import OnlineClassifier
from budgetron.bounds import norm_limit

PAGE = Path(__file__).parent.parent / "docs" / "guarantees.md"
ROUNDS, BUDGET = 5000, 300
Stream = tuple[np.ndarray, np.ndarray]


def adult(rounds: int) -> Stream:
    """Return a part of a permutation of a9a."""
    X, y = load_svmlight_file(str(Path(os.environ["BUDGETRON_DATA"]) / "a9a.gz"), n_features=123)
    chosen = np.random.default_rng(0).permutation(len(y))[:rounds]
    return X[chosen].toarray(), y[chosen]


# Streams of so many rounds, and the gamma of the kernels.
STREAMS: dict[str, tuple[Callable[[int], Stream], float]] = {
    "separable, margin 0.1": (lambda n: streams.separable(n, 20, 0.1, 0)[:2], 0.5),
    "two Gaussians, 10 % of the labels flipped": (
        lambda n: streams.two_gaussians(n, 0.1, random_state=0),
        0.5,
    ),
    "drifting Gaussians, 5 % of the labels flipped": (
        lambda n: streams.drifting_gaussians(n, noise=0.05, random_state=0)[:2],
        0.5,
    ),
    "Adult": (adult, 0.02),
}


def learners(gamma: float, budget: int) -> dict[str, OnlineClassifier]:
    """Return learners with the same kernel, and linear ones."""
    return {
        "`KernelPerceptron`": KernelPerceptron(gamma=gamma),
        f"`Forgetron`, B = {budget}": Forgetron(budget, gamma=gamma),
        "`ProjectronPlusPlus`": ProjectronPlusPlus(norm_bound=norm_limit(budget), gamma=gamma),
        "`linear.AROW`": linear.AROW(fit_intercept=False),
        "`linear.AROW`, diagonal": linear.AROW(covariance="diagonal", fit_intercept=False),
        f"`SecondOrderProjectron`, B = {budget}": SecondOrderProjectron(budget, gamma=gamma),
        "`linear.AROW`, logistic": linear.AROW(loss="logistic", fit_intercept=False),
        f"`SecondOrderProjectron`, B = {budget}, logistic": SecondOrderProjectron(
            budget, loss="logistic", gamma=gamma
        ),
    }


def certified(model: OnlineClassifier, X: np.ndarray, y: np.ndarray) -> Certificate:
    return certify(model, X, y, model.progressive_fit(X, y, classes=[-1, 1], ledger=True))


def main_table(names: Iterable[str], rounds: int = ROUNDS, budget: int = BUDGET) -> Iterator[str]:
    """Yield the lines of the table of learners and streams."""
    yield "| stream | learner | mistakes | bound | known anyway |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name in names:
        make, gamma = STREAMS[name]
        X, y = make(rounds)
        for label, model in learners(gamma, budget).items():
            found = certified(model, X, y)
            assert found.holds, str(found)
            yield f"| {name} | {label} | {found.count:,} | {cells(found)} |"


def cells(found: Certificate) -> str:
    """Return the bound, and what is known anyway."""
    known = found.rounds if found.most is None else found.most
    return f"{found.bound:,.0f}{' (vacuous)' if found.vacuous else ''} | {known:,}"


VOTES = ("fixed_share", "second_order", "second_order_rows", "second_order_logistic")


def vote_table(names: Iterable[str], rounds: int = ROUNDS, memory: str = "4MB") -> Iterator[str]:
    """Yield the lines of the table of the vote of BudgetClassifier, by stream and theorem."""
    yield "| stream | theorem | expert | loss of the vote | bound | known anyway |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for name in names:
        X, y = STREAMS[name][0](rounds)
        model = BudgetClassifier(memory, random_state=0)
        trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
        for theorem in VOTES:
            found = certify(model, X, y, trace, theorem=theorem)
            assert found.holds, str(found)
            experts = re.findall('"([^"]+)"( in [0-9,]+ rounds)?', found.competitor)
            expert = "".join(experts[0]) if len(experts) == 1 else "a sequence"
            yield f"| {name} | `{theorem}` | {expert} | {found.count:,.0f} | {cells(found)} |"


MANY: dict[str, Callable[[], OnlineClassifier]] = {
    "`linear.AROW`": lambda: linear.AROW(fit_intercept=False),
    "`linear.AROW`, r = 0.1": lambda: linear.AROW(0.1, fit_intercept=False),
    "`linear.AROW`, diagonal": lambda: linear.AROW(covariance="diagonal", fit_intercept=False),
    "`SecondOrderProjectron`, B = 50": lambda: SecondOrderProjectron(50, gamma=0.5),
    "`SecondOrderProjectron`, B = 8": lambda: SecondOrderProjectron(8, gamma=0.5),
    "`SecondOrderProjectron`, B = 8, without linear part": lambda: SecondOrderProjectron(
        8, linear=False, gamma=0.5
    ),
    "`linear.AROW`, logistic": lambda: linear.AROW(loss="logistic", fit_intercept=False),
    "`linear.AROW`, diagonal, logistic": lambda: linear.AROW(
        covariance="diagonal", loss="logistic", fit_intercept=False
    ),
    "`SecondOrderProjectron`, B = 50, logistic": lambda: SecondOrderProjectron(
        50, loss="logistic", gamma=0.5
    ),
    "`SecondOrderProjectron`, B = 8, logistic": lambda: SecondOrderProjectron(8, loss="logistic", gamma=0.5),
}


def short_streams(count: int, n: int = 400) -> Iterator[Stream]:
    """Yield streams of four kinds; in the last, clusters of rows move, so that supports are exchanged."""
    for seed in range(count):
        yield streams.separable(n, 4, 0.1, seed)[:2]
        yield streams.two_gaussians(n, 0.2, random_state=seed)
        yield streams.drifting_gaussians(n, noise=0.05, random_state=seed)[:2]
        rng = np.random.default_rng(seed)
        centres, which = 3.0 * rng.normal(size=(-(-n // 80), 6, 2)), rng.integers(6, size=n)
        X = centres[np.arange(n) // 80, which] + 0.3 * rng.normal(size=(n, 2))
        yield X, np.where((which % 2 == 0) ^ (rng.random(n) < 0.1), 1.0, -1.0)


def many_table(count: int) -> Iterator[str]:
    """Yield the lines of the summary over many streams."""
    yield "| learner | runs | violations | vacuous | median ratio | largest ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    total: list[Certificate] = []
    for label, make in MANY.items():
        found = [certified(make(), X, y) for X, y in short_streams(count)]
        total += found
        yield summary(label, found)
    yield summary("all", total)


def summary(label: str, found: list[Certificate]) -> str:
    informative = [one.ratio for one in found if not one.vacuous]
    violations = sum(not one.holds for one in found)
    counts = f"{len(found)} | {violations} | {len(found) - len(informative)}"
    ratios = f"{np.median(informative):.2f} | {max(informative):.4f}" if informative else "none | none"
    return f"| {label} | {counts} | {ratios} |"


def replaced(page: str, name: str, lines: list[str]) -> str:
    """Return the page with the lines between the two comments of this name replaced."""
    pattern = rf"(<!-- {name}, by benchmarks/guarantees.py -->\n).*?(<!-- end -->)"
    new, times = re.subn(
        pattern, lambda m: m[1] + "\n" + "\n".join(lines) + "\n\n" + m[2], page, flags=re.DOTALL
    )
    if times != 1:
        raise ValueError(f"the page must have the comments of the table {name!r} once; found {times}")
    return new


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--print", action="store_true", dest="only_print")
    parser.add_argument("--streams", type=int, default=25, help="short streams of each kind")
    options = parser.parse_args()
    tables = {
        "many runs": list(many_table(options.streams)),
        "bounds": list(main_table(STREAMS)),
        "votes": list(vote_table(STREAMS)),
    }
    for name, lines in tables.items():
        print(name, *lines, sep="\n")
    if not options.only_print:
        page = PAGE.read_text()
        for name, lines in tables.items():
            page = replaced(page, name, lines)
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
