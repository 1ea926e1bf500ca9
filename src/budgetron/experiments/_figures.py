"""The papers' figures, drawn from the results of the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.plots import COLOURS, style
from budgetron._util.figures import new_figure
from budgetron.experiments._published import FORGETRON
from budgetron.experiments._studies import CG_RUNS, SHARES, STUDIES
from budgetron.experiments._tables import Results, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDIES_OF", "figures"]

# Learners of 003's figures, those with a row in its table, and the rows of a run (our USPS has fewer)
DRAWN = ("self-tuned", "greedy", "CKS", "CG", "greedy-cumulative")
IN_TABLE = ("self-tuned", "greedy", "CKS")
ROWS = {"mnist": 60_000, "usps": 10_000, "census": 24_764, "noise-5": 10_000, "noise-10": 10_000}


# The figures of the Forgetron paper over budgets, and the studies in each
STUDIES_OF = {
    "003-figure-4": ("usps", "mnist"),
    "003-figure-5": ("census",),
    "003-figure-6": ("noise-5", "noise-10"),
}


def figures(results: Results) -> dict[str, Figure]:
    """Return by file name the figures that there are results for."""
    drawn: dict[str, Figure] = {}
    if any(job.study == "adult" for job in results):
        drawn |= _projectron_figures(results)
    for name, studies in STUDIES_OF.items():
        present = [study for study in studies if _budgets(results, study)]
        if present:
            figure, axes = new_figure(6 * len(present), 4.5, 1, len(present))
            for axis, study in zip(axes, present, strict=True):
                _over_budget(axis, results, study)
            axes[0].legend(frameon=False)
            drawn[name] = figure
    present = [study for study in ("noise-5", "noise-10") if _budgets(results, study)]
    if present:
        drawn["003-figure-7"] = _single_runs(results, present)
    return drawn


def _projectron_figures(results: Results) -> dict[str, Figure]:
    """Draw Figures 1 to 3 of the Projectron paper: error and supports by rounds, and error by supports."""
    jobs = [job for job in results if job.study == "adult"]
    names = list(results[jobs[0]]["curves"])
    drawn = {}
    for number, (x, y) in enumerate([("round", "error"), ("round", "supports"), ("supports", "error")], 1):
        figure, (axis,) = new_figure(7, 5)
        for i, name in enumerate(names):
            curves = [results[job]["curves"][name] for job in jobs]
            mean = {key: np.mean([curve[key] for curve in curves], axis=0) for key in curves[0]}
            mean["error"] = 100 * mean["mistakes"] / mean["round"]
            shown = mean["round"] >= 500
            axis.plot(mean[x][shown], mean[y][shown], label=name.split(",")[0], **style(i))
        labels = {
            "round": "samples",
            "error": "average online error (%)",
            "supports": "size of the support set",
        }
        axis.set(xlabel=labels[x], ylabel=labels[y])
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
        drawn[f"002-figure-{number}"] = figure
    return drawn


def _budgets(results: Results, study: str) -> list[int]:
    jobs = [job for job in results if job.study == study and job.share is None]
    return sorted(jobs[0].budgets) if jobs else []


def _errors(results: Results, study: str, budget: int, name: str) -> NDArray[np.float64]:
    """Return the error of each part; for CG, one column per run."""
    if name != "CG":
        return grouped(results, study, None, f"{name}, {budget}")
    return np.stack([grouped(results, study, None, f"CG {run}, {budget}") for run in range(CG_RUNS)], axis=1)


def _over_budget(axis: Axes, results: Results, study: str) -> None:
    budgets = _budgets(results, study)
    for i, name in enumerate(DRAWN):
        means = [_errors(results, study, budget, name).mean() for budget in budgets]
        axis.plot(budgets, means, marker=".", label=name, **style(i))
    if len(grouped(results, study, SHARES[0], "Perceptron")):
        error = grouped(results, study, SHARES[0], "Perceptron").mean()
        supports = error / 100 * (9298 if study == "usps" else ROWS[study])
        axis.plot(supports, error, "o", mfc="none", color="black", label="Perceptron")
    for share in SHARES[:2]:
        published = FORGETRON[study, share]
        budget = share * published["Perceptron"] / 100 * ROWS[study]
        for i, name in enumerate(IN_TABLE):
            label = "published (Table 8.1)" if share == SHARES[0] and i == 0 else None
            axis.plot(budget, published[name], "x", color=COLOURS[i], label=label)
    _finish(axis, study, budgets)


def _finish(axis: Axes, study: str, budgets: list[int]) -> None:
    axis.set(title=STUDIES[study].title, xscale="log", xlabel="budget B", ylabel="online error (%)")
    axis.set_xticks(budgets, [str(budget) for budget in budgets])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def _single_runs(results: Results, studies: list[str]) -> Figure:
    """Draw Figure 7 of the Forgetron paper: one data set, the self-tuned Forgetron and ten runs of CG."""
    figure, axes = new_figure(6 * len(studies), 4.5, 1, len(studies))
    for axis, study in zip(axes, studies, strict=True):
        budgets = _budgets(results, study)
        runs = np.array([_errors(results, study, budget, "CG")[0] for budget in budgets])
        single = [_errors(results, study, budget, "self-tuned")[0] for budget in budgets]
        axis.fill_between(
            budgets, runs.min(axis=1), runs.max(axis=1), color=COLOURS[3], alpha=0.4, label="CG, 10 runs"
        )
        axis.plot(budgets, single, marker=".", label="self-tuned", **style(0))
        _finish(axis, study, budgets)
    axes[0].legend(frameon=False)
    return figure
