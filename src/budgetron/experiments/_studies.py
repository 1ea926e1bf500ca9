"""The papers' experiments, divided into independent jobs.

A job of the Projectron paper is one permutation of a data set. A job of the Forgetron paper is one row of its
table, or the budgets of its figure, or one row of the table over all kernel widths, on one part of a data
set. The result of a job is plain numbers, so that
it can be saved in a file. Learners and labellings of the same rows share kernel values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import log, sqrt
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron import datasets
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._evaluation.cohort import Cohort
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Rows
from budgetron.evaluate import compare
from budgetron.kernelized import (
    CKSPerceptron,
    Forgetron,
    KernelPerceptron,
    PassiveAggressive,
    Projectron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    Stoptron,
)
from budgetron.streams import two_gaussians

__all__ = ["PAPERS", "STUDIES", "Job", "JobResult", "Study", "jobs_of", "run_job"]

Labels = NDArray[Any]
PAPERS = {"002": "Projectron paper", "003": "Forgetron paper"}

# Increase this number when jobs of a paper have other learners or rows, so that saved results are not used.
VERSIONS = {"002": 1, "003": 2}

# Rows per block. Larger blocks need more memory for the kernel values of all learners.
BLOCK = 2048

# Labellings of the digits per job. They share kernel values; more of them need more memory.
LABELLINGS = 9

# Budgets of 003 Table 8.1 as fractions of the Perceptron's supports, and the number of runs of CG
SHARES = (0.25, 0.5, 1.0)
CG_RUNS = 10


@dataclass(frozen=True)
class Study:
    """A data set and the settings of a paper.

    `parts` is the number of permutations, samples or groups of labellings. `budgets` are those of the tables
    of the Projectron paper or of the figures of the Forgetron paper. A study with `widths` repeats a row of
    the Forgetron paper's table for each of these gammas, on the rows of the study `data`.
    """

    name: str
    paper: str
    title: str
    gamma: float
    parts: int
    quick_parts: int
    budgets: tuple[int, ...]
    quick_budgets: tuple[int, ...] | None = None
    widths: tuple[float, ...] = ()
    data: str = ""


STUDIES = {
    study.name: study
    for study in [
        Study("adult", "002", "Adult (a9a)", 0.02, 5, 2, (1500, 3000)),
        Study("vehicle", "002", "SensIT Vehicle", 0.125, 5, 1, (4000, 8000)),
        Study("gaussians", "002", "two Gaussians", 1.0, 100, 15, (1000, 500)),
        Study("mnist", "003", "MNIST", 0.5, 14, 1, (250, 500, 1000, 2000), (500, 2000)),
        Study("usps", "003", "USPS", 0.5, 14, 1, (25, 50, 100, 200, 400, 800), (50, 200)),
        Study("census", "003", "Census-Income", 0.5, 10, 1, (250, 500, 1000, 2000, 4000), (500, 2000)),
        Study(
            "noise-5", "003", "synthetic, 5 % noise", 0.5, 100, 10, (10, 25, 50, 100, 200, 500, 1000, 2000)
        ),
        Study(
            "noise-10", "003", "synthetic, 10 % noise", 0.5, 100, 10, (10, 25, 50, 100, 200, 500, 1000, 2000)
        ),
        Study(
            "census-widths",
            "003",
            "Census-Income, several widths",
            0.5,
            2,
            1,
            (),
            widths=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
            data="census",
        ),
        Study(
            "usps-widths",
            "003",
            "USPS, several widths",
            0.5,
            1,
            1,
            (),
            widths=(0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
            data="usps",
        ),
    ]
}


@dataclass(frozen=True)
class Job:
    """One part of a study.

    For the Forgetron paper, `share` is the budget as a fraction of the Perceptron's supports, or None for the
    budgets of the figure.
    """

    study: str
    part: int
    share: float | None = None
    quick: bool = False

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budgets of the table (Projectron paper) or figure (Forgetron paper), which one job runs."""
        study = STUDIES[self.study]
        if self.share is not None:
            return ()
        return study.quick_budgets if self.quick and study.quick_budgets else study.budgets

    @property
    def settings(self) -> dict[str, object]:
        """Everything that determines the result."""
        study = STUDIES[self.study]
        few_labellings = (self.quick and self.study in ("mnist", "usps")) or bool(study.widths)
        return {
            "study": self.study,
            "part": self.part,
            "share": self.share,
            "budgets": list(self.budgets),
            "gamma": list(study.widths) or study.gamma,
            "few_labellings": few_labellings,
            "version": VERSIONS[study.paper],
        }

    @property
    def key(self) -> str:
        """A file name. Jobs with other settings may have the same one, so files also store the settings."""
        share = "" if self.share is None else f"-{self.share:g}"
        return f"{self.study}{share}-{self.part:03d}{'-quick' if self.quick else ''}"


class JobResult(TypedDict):
    """The result of a job: errors in percent and supports by learner."""

    errors: dict[str, float] | dict[str, list[float]]
    supports: NotRequired[dict[str, int] | list[int]]
    curves: NotRequired[dict[str, dict[str, list[float]]]]
    seconds: NotRequired[float]


def jobs_of(study: Study, quick: bool) -> Iterator[Job]:
    """Yield all jobs of a study."""
    parts = range(study.quick_parts if quick else study.parts)
    shares = (None,) if study.paper == "002" else (SHARES[0],) if study.widths else (*SHARES, None)
    for share in shares:
        yield from (Job(study.name, part, share, quick) for part in parts)


def run_job(job: Job) -> JobResult:
    """Run a job; return its result, including the time it took."""
    start = time.perf_counter()
    study = STUDIES[job.study]
    if study.paper == "002":
        result = _projectron_job(study, job)
    else:
        result = _width_job(study, job) if study.widths else _forgetron_job(study, job)
    result["seconds"] = time.perf_counter() - start
    return result


# ---------------------------------------------------------------------- 002


def _projectron_job(study: Study, job: Job) -> JobResult:
    X, y = _rows(study.name, job.part)
    learners: dict[str, KernelClassifier] = {
        "Perceptron, 0": KernelPerceptron(gamma=study.gamma),
        "PA-I, 0": PassiveAggressive(C=1.0, gamma=study.gamma),
    }
    for budget in study.budgets:
        bound = 0.25 * sqrt((budget + 1) / log(budget + 1))  # U of the Forgetron's theorem
        learners |= {
            f"Projectron, {budget}": Projectron(norm_bound=bound, gamma=study.gamma),
            f"Projectron++, {budget}": ProjectronPlusPlus(norm_bound=bound, gamma=study.gamma),
            f"Forgetron, {budget}": Forgetron(budget, gamma=study.gamma),
            f"RBP, {budget}": RandomizedBudgetPerceptron(budget, random_state=job.part, gamma=study.gamma),
            f"Stoptron, {budget}": Stoptron(budget, gamma=study.gamma),
        }
    results = compare(learners, (X, y))
    shown = [name for name in learners if name.endswith((", 0", f", {study.budgets[0]}"))]
    return {
        "errors": {result.name: 100 * result.error_rate for result in results},
        "supports": {result.name: result.supports for result in results},
        "curves": {
            name: {key: results[name].curve[key].tolist() for key in ("round", "mistakes", "supports")}
            for name in (shown if study.name == "adult" else [])
        },
    }


def _rows(name: str, part: int) -> tuple[NDArray[np.float64], Labels]:
    """Return a permutation of a data set; of the two Gaussians, five of each of twenty samples."""
    if name == "gaussians":
        X, y = two_gaussians(10_000, 0.1, "variance", random_state=part // 5)
    else:
        X, y = _data(name)
    order = np.random.default_rng(part).permutation(len(y))
    return X[order], y[order]


@lru_cache(maxsize=1)
def _data(name: str) -> tuple[NDArray[np.float64], Labels]:
    if name == "adult":
        X, y = datasets.load_adult()
        return X.toarray(), y
    X, y = datasets.load_vehicle()
    return X.toarray() if issparse(X) else X, np.where(y == 3, 1, -1)


# ---------------------------------------------------------------------- 003


def _forgetron_job(study: Study, job: Job) -> JobResult:
    X, labellings = _problems(study.name, job)
    if job.share is None:
        learners = [_figure_learners(job.budgets, study.gamma) for _ in labellings]
        return {"errors": online_errors(X, labellings, learners)}
    return _table_row(X, labellings, job.share, study.gamma)


def _width_job(study: Study, job: Job) -> JobResult:
    """Run a row of the table for each width; the names of the results end with the width."""
    X, labellings = _problems(study.data, job)
    errors: dict[str, list[float]] = {}
    for gamma in study.widths:
        row = _table_row(X, labellings, SHARES[0], gamma)["errors"]
        errors |= {f"{name}, {gamma:g}": np.atleast_1d(values).tolist() for name, values in row.items()}
    return {"errors": errors}


def _table_row(X: Rows, labellings: list[Labels], share: float, gamma: float) -> JobResult:
    """Run the learners of the table, with a share of the Perceptron's supports as budget."""
    perceptron = online_errors(
        X, labellings, [{"Perceptron": KernelPerceptron(gamma=gamma)} for _ in labellings]
    )
    supports = [round(error * X.shape[0] / 100) for error in perceptron["Perceptron"]]
    learners = []
    for p in supports:
        budget = max(1, round(share * p))
        learners.append(
            {
                "basic": Forgetron(budget, "basic", gamma=gamma),
                "self-tuned": Forgetron(budget, gamma=gamma),
                "greedy": Forgetron(budget, "greedy", gamma=gamma),
                "greedy-cumulative": Forgetron(budget, "greedy-cumulative", gamma=gamma),
                "CKS": CKSPerceptron(budget, gamma=gamma),
            }
        )
    return {"errors": perceptron | online_errors(X, labellings, learners), "supports": supports}


def _figure_learners(budgets: tuple[int, ...], gamma: float) -> dict[str, KernelClassifier]:
    learners: dict[str, KernelClassifier] = {}
    for budget in budgets:
        learners[f"self-tuned, {budget}"] = Forgetron(budget, gamma=gamma)
        learners[f"greedy, {budget}"] = Forgetron(budget, "greedy", gamma=gamma)
        learners[f"greedy-cumulative, {budget}"] = Forgetron(budget, "greedy-cumulative", gamma=gamma)
        learners[f"CKS, {budget}"] = CKSPerceptron(budget, gamma=gamma)
        for run in range(CG_RUNS):
            learners[f"CG {run}, {budget}"] = RandomizedBudgetPerceptron(
                budget, random_state=run, gamma=gamma
            )
    return learners


def online_errors(
    X: Rows, labellings: list[Labels], learners: list[dict[str, KernelClassifier]], share: bool = True
) -> dict[str, list[float]]:
    """Return the online error in percent of the learners of each labelling of the same rows.

    Parameters
    ----------
    X : array-like or CSR matrix
    labellings : list of arrays of labels -1 and +1
    learners : list of dict of name to learner
        New learners for each labelling, with the same names.
    share : bool, default=True
        Whether learners share kernel values.
    """
    models = [model for group in learners for model in group.values()]
    labels = [y for y, group in zip(labellings, learners, strict=True) for _ in group]
    cohort = Cohort(models)
    for rows in row_blocks(X.shape[0], BLOCK):
        if share:
            cohort.progressive_fit(X[rows], [y[rows] for y in labels], [-1, 1])
        else:
            for model, y in zip(models, labels, strict=True):
                model.partial_fit(X[rows], y[rows], classes=[-1, 1])
    return {name: [100 * group[name].mistakes_ / X.shape[0] for group in learners] for name in learners[0]}


def _problems(data: str, job: Job) -> tuple[Rows, list[Labels]]:
    """Return the rows of a part of a data set, and their labellings."""
    if data.startswith("noise"):
        noise = 0.05 if data == "noise-5" else 0.1
        X, y = two_gaussians(10_000, noise, "std", random_state=job.part, balanced=True)
        return X, [y]
    if data == "census":
        X, y = datasets.load_census_income(balanced=True, random_state=job.part)
        return X, [np.where(y == 1, 1.0, -1.0)]
    images, digits = _digits(data)
    sets = list(combinations(range(1, 10), 4))  # with 0, half of the digits
    # Jobs with few labellings have four from all over the list.
    sets = (
        sets[:: len(sets) // 4][:4]
        if job.settings["few_labellings"]
        else sets[job.part * LABELLINGS : (job.part + 1) * LABELLINGS]
    )
    return images, [np.where(np.isin(digits, (0, *others)), 1.0, -1.0) for others in sets]


@lru_cache(maxsize=1)
def _digits(name: str) -> tuple[NDArray[np.floating], Labels]:
    """Return images with ink from 0 to 1, scaled to norm 1, so that float32 can hold every kernel value."""
    X: NDArray[np.floating]
    X, y = datasets.load_usps(dtype=np.float32) if name == "usps" else datasets.load_mnist(dtype=np.float32)
    X = (X + 1) / 2 if name == "usps" else X
    return X / np.linalg.norm(X, axis=1, keepdims=True), y
