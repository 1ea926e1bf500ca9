"""The papers' tables from the results of the jobs, beside what was published."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.experiments._published import FORGETRON, PROJECTRON
from budgetron.experiments._studies import SHARES, STUDIES, Job

__all__ = ["Table", "forgetron_table", "grouped", "projectron_table"]

Results = Mapping[Job, dict[str, Any]]


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading for people, and records of the same figures for machines."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: Sequence[dict[str, Any]]
    notes: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """The records, comma-separated, with a header."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return text.getvalue()

    def to_markdown(self) -> str:
        """As a table of a page."""
        lines = [
            "| " + " | ".join(row) + " |" for row in [self.columns, ("---",) * len(self.columns), *self.rows]
        ]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([*lines, *notes]) + "\n"

    def to_text(self) -> str:
        """In columns of equal width."""
        rows = [self.columns, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.columns))]
        aligned = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([self.title, aligned[0], "-" * len(aligned[0]), *aligned[1:], *self.notes]) + "\n"


def grouped(results: Results, study: str, share: float | None, name: str) -> NDArray[np.float64]:
    """The errors of one learner over all parts (and labellings) of a study."""
    jobs = sorted(
        (job for job in results if (job.study, job.share) == (study, share)), key=lambda job: job.part
    )
    return np.array([value for job in jobs for value in _list(results[job], name)])


def _list(result: dict[str, Any], name: str) -> list[float]:
    values = result["errors"][name]
    return values if isinstance(values, list) else [values]


# ---------------------------------------------------------------------- 002

NUMBERS = {"adult": "1", "vehicle": "2", "gaussians": "3"}


def projectron_table(results: Results, study: str) -> Table | None:
    """002 Table 1, 2 or 3."""
    jobs = sorted((job for job in results if job.study == study), key=lambda job: job.part)
    if not jobs:
        return None
    rows, records = [], []
    for (learner, budget), published in PROJECTRON[study].items():
        name = f"{learner}, {budget}"
        errors = np.array([results[job]["errors"][name] for job in jobs])
        supports = np.array([results[job]["supports"][name] for job in jobs], np.float64)
        if study == "gaussians":  # the published set is one drawing: what counts is how drawings differ
            errors, supports = (_means_of_drawings(values, jobs) for values in (errors, supports))
        gap = errors.mean() - published.error
        if study == "gaussians":
            near = abs(gap) <= 3 * _sd(errors)
            near_supports = abs(supports.mean() - published.supports) <= max(
                3 * _sd(supports), 0.03 * published.supports
            )
        else:
            near = abs(gap) <= max(2 * published.error_sd, 0.3)
            near_supports = abs(supports.mean() / published.supports - 1) <= 0.03
        records.append(
            {
                "learner": learner,
                "budget": budget or None,
                "error": errors.mean(),
                "error_sd": _sd(errors),
                "published_error": published.error,
                "published_error_sd": published.error_sd,
                "error_near": near,
                "supports": supports.mean(),
                "supports_sd": _sd(supports),
                "published_supports": published.supports,
                "published_supports_sd": published.supports_sd,
                "supports_near": near_supports,
            }
        )
        rows.append(
            (
                learner,
                str(budget) if budget else "none",
                f"{errors.mean():.2f} ± {_sd(errors):.2f}",
                f"{published.error:.2f} ± {published.error_sd:.2f}",
                f"{gap:+.2f}",
                "yes" if near else "no",
                f"{supports.mean():,.0f} ± {_sd(supports):.0f}",
                f"{published.supports:,.0f} ± {published.supports_sd:.0f}",
                "yes" if near_supports else "no",
            )
        )
    columns = (
        "learner",
        "budget",
        "mistakes %",
        "published",
        "difference",
        "near",
        "supports",
        "published",
        "near",
    )
    number = NUMBERS[study]
    drawings = len({job.part // 5 for job in jobs})
    over = f"{len(jobs)} permutations" + (f" of {drawings} drawings" if study == "gaussians" else "")
    title = f"002 Table {number}: {STUDIES[study].title}, {over}"
    return Table(title, columns, rows, records, _projectron_notes(study))


def _means_of_drawings(values: NDArray[np.float64], jobs: list[Job]) -> NDArray[np.float64]:
    drawings = sorted({job.part // 5 for job in jobs})
    return np.array([values[[job.part // 5 == drawing for job in jobs]].mean() for drawing in drawings])


def _sd(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _projectron_notes(study: str) -> tuple[str, ...]:
    plus = (
        "Projectron++ by the paper's equations 14 to 17 comes out slightly better and sparser than printed; "
        "no variant that we tried gives the printed rows. We keep the equations."
    )
    if study == "gaussians":
        return (
            "Near: within three deviations between drawings (supports also within 3 %). The paper does not "
            "print its drawing. Errors differ more between drawings than between permutations of one, "
            "but for the Stoptron, which hangs on its first mistakes.",
            plus,
        )
    if study == "vehicle":
        return (
            "Unverified: the data set was not to be had where this was written. Read as class 3 against the "
            "rest; the paper does not say how it makes two classes of three.",
        )
    return ("Near: within two printed deviations or 0.3 points; supports within 3 %.", plus)


# ---------------------------------------------------------------------- 003


def forgetron_table(results: Results) -> Table | None:
    """003 Table 8.1, as far as there are results."""
    rows: list[tuple[str, ...]] = []
    records = []
    for share in SHARES:
        for study in ("mnist", "usps", "census", "noise-5", "noise-10"):
            published = FORGETRON[study, share]
            values = {name: grouped(results, study, share, name) for name in published}
            if not len(values["Perceptron"]):
                continue
            cells = []
            for name, value in published.items():
                mean, sd = float(values[name].mean()), _sd(values[name])
                cells.append(f"{mean:.2f} ± {sd:.2f} ({value:.2f}, {mean - value:+.2f})")
                records.append(
                    {
                        "data": study,
                        "share": share,
                        "learner": name,
                        "runs": len(values[name]),
                        "error": mean,
                        "error_sd": sd,
                        "published_error": value,
                    }
                )
            budget = {0.25: "p/4", 0.5: "p/2", 1.0: "p"}[share]
            rows.append((budget, STUDIES[study].title, str(len(values["Perceptron"])), *cells))
    columns = ("B", "data", "runs", "Perceptron", "basic", "self-tuned", "greedy", "CKS")
    title = "003 Table 8.1: online error %, ours ± deviation (published, difference)"
    return Table(title, columns, rows, records, NOTES) if rows else None


NOTES = (
    "p is the number of supports of the Perceptron on the same problem. Runs are drawings, or for digits "
    "problems: five digits against the other five. The deviation is that between runs.",
    "Synthetic: (0.2, 2) are taken as standard deviations, which gives the printed errors of the Perceptron "
    "(as variances they would be 11.0 and 19.5). Classes are drawn by chance; the paper has 5,000 of each.",
    "Greedy follows equation 52 and makes fewer mistakes than printed on the synthetic sets, where the "
    "Perceptron and the self-tuned Forgetron agree with the paper; the printed rows agree better with "
    "always removing the minimizer, which the paper's proof does not cover. CKS is described in words only, "
    "and is reproduced roughly.",
    "MNIST, USPS: the paper does not say how pixels are scaled, so that orders and gaps can be compared, not "
    "figures. Here ink is from 0 to 1 and rows have length 1, which gives gaps like those printed; USPS with "
    "values in [-1, 1] as published brings the Perceptron to 6.6, but the basic Forgetron far below its "
    "printed errors. USPS has 9,298 images here, 10,000 in the paper.",
    "Census-Income: all 12,382 positives and as many negatives, drawn anew for each run; nominal columns "
    "one-hot, numeric ones scaled to [0, 1]; the paper does not say how features were coded.",
)
