"""Table 8.1 of the Forgetron paper, next to the published numbers, and how it depends on the kernel width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

from budgetron.experiments._published import FORGETRON
from budgetron.experiments._studies import SHARES, STUDIES
from budgetron.experiments._tables import Record, Results, Table, deviation, grouped

__all__ = ["forgetron_table", "width_table"]

DATA = ("mnist", "usps", "census", "noise-5", "noise-10")
LEARNERS = ("Perceptron", "basic", "self-tuned", "greedy", "greedy-cumulative", "CKS")
BUDGETS = {0.25: "p/4", 0.5: "p/2", 1.0: "p"}

# Differences up to this many percentage points count as near, as in the tables of the Projectron paper.
NEAR = 0.3


def published_error(study: str, share: float, learner: str) -> float:
    """Return the published error; both tests of the greedy Forgetron are compared with its row."""
    return FORGETRON[study, share][learner.removesuffix("-cumulative")]


def forgetron_table(results: Results, kept: Sequence[Record] = ()) -> Table | None:
    """Return Table 8.1 of the Forgetron paper, as far as there are results; None without results.

    Parameters
    ----------
    results : mapping of Job to JobResult
    kept : sequence of Record
        Records of an earlier table. They are used for data sets without results.
    """
    rows: list[tuple[str, ...]] = []
    records: list[Record] = []
    for share in SHARES:
        for study in DATA:
            found = _records(results, study, share)
            if not found:
                found = [one for one in kept if (one["data"], one["share"]) == (study, share)]
            if found:
                records += found
                rows.append(_row(study, share, found))
    title = "Forgetron paper, Table 8.1: online error %, ours ± standard deviation (published, difference)"
    columns = ("B", "data", "runs", *LEARNERS, "near", "same order")
    return Table(title, columns, rows, records, (*_notes(records), *NOTES)) if rows else None


def _records(results: Results, study: str, share: float) -> list[Record]:
    found: list[Record] = []
    if any((job.study, job.share) == (study, share) for job in results):
        for learner in LEARNERS:
            errors = grouped(results, study, share, learner)
            found.append(
                {
                    "data": study,
                    "share": share,
                    "learner": learner,
                    "runs": len(errors),
                    "error": float(errors.mean()),
                    "error_sd": deviation(errors),
                    "published_error": published_error(study, share, learner),
                }
            )
    return found


def is_near(record: Record) -> bool:
    """Return whether a mean is near the published one, which is a mean of as many runs."""
    error_of_difference = record["error_sd"] * sqrt(2 / record["runs"])
    return bool(abs(record["error"] - record["published_error"]) <= max(NEAR, 3 * error_of_difference))


def same_order(records: Sequence[Record]) -> bool:
    """Return whether learners whose published errors differ have errors that differ in the same direction."""
    pairs = combinations([record for record in records if record["learner"] != "greedy-cumulative"], 2)
    return all(
        (a["published_error"] - b["published_error"]) * (a["error"] - b["error"]) > 0
        for a, b in pairs
        if abs(a["published_error"] - b["published_error"]) > NEAR
    )


def _row(study: str, share: float, records: Sequence[Record]) -> tuple[str, ...]:
    by_learner = {record["learner"]: record for record in records}
    cells = [
        "{error:.2f} ± {error_sd:.2f} ({published_error:.2f}, {difference:+.2f})".format(
            **record, difference=record["error"] - record["published_error"]
        )
        if (record := by_learner.get(learner)) is not None
        else "not run"
        for learner in LEARNERS
    ]
    near = [record["learner"] for record in records if is_near(record)]
    verdict = "all" if len(near) == len(records) else ", ".join(near) or "none"
    order = "yes" if same_order(records) else "no"
    return (BUDGETS[share], STUDIES[study].title, str(records[0]["runs"]), *cells, verdict, order)


def _notes(records: Sequence[Record]) -> list[str]:
    """Return what the numbers show about the basic Forgetron that shrinks although nothing is removed."""
    gaps = [
        f"{STUDIES[record['data']].title} {record['error'] - record['published_error']:+.1f}"
        for record in records
        if record["learner"] == "basic" and record["share"] == 1.0 and not is_near(record)
    ]
    if not gaps:
        return []
    return [
        "The basic Forgetron at B = p is not reproduced. Points from the published error: "
        f"{', '.join(gaps)}. By figure 2 of the paper it shrinks on every mistake, also where nothing is "
        "removed, and section 8 of the paper says the same."
    ]


NOTES = (
    '"Near" lists the learners whose error is within 0.3 points of the published one, or within three '
    'standard errors of the difference of two means of this many runs. "Same order" tells whether all '
    "learners whose published errors differ by more than 0.3 points are in the same order here; "
    "greedy-cumulative has no row of its own in the paper and is left out of that comparison.",
    "p is the number of supports of the Perceptron on the same problem. A run is one sample, or, for the "
    "digit sets, one problem: five digits against the other five. The standard deviation is that between "
    "runs.",
    "Kernel: the paper gives the width only for the digits, gamma = 1/2. For Census-Income and the "
    'synthetic sets it says "a Gaussian kernel". There gamma = 1/2 is our assumption. The tables over '
    "widths below show how much depends on it.",
    "Synthetic: we interpret (0.2, 2) as standard deviations, which gives the published errors of the "
    "Perceptron (as variances they would give 11.0 and 19.5). Both classes have 5,000 rows, as in the "
    "paper.",
    "The greedy Forgetron follows equation 52: it removes a support without shrinking if the damage of "
    "this removal is at most 15/32. It makes fewer mistakes than published on the synthetic sets, although "
    "the Perceptron and the self-tuned Forgetron agree with the paper there. The variant greedy-cumulative "
    "compares the sum of all damages with 15/32 of the mistakes instead, and is nearer to the published "
    "rows there. It makes more mistakes than equation 52 on the synthetic sets and Census-Income at B < p, "
    "and fewer on the digits. The paper's proof covers both. Equation 52 is the paper's definition, so that "
    "it stays the recommended one.",
    "The paper describes CKS only in words, so it is reproduced only roughly.",
    "MNIST, USPS: the paper does not specify the scaling of pixels. The order of the learners and the gaps "
    "between them can therefore be compared, but not the values. Here pixels are between 0 and 1 and rows "
    "have norm 1, which gives gaps similar to the published ones. With values in [-1, 1], as USPS is "
    "distributed, the Perceptron's error is 6.6, but that of the basic Forgetron is far below the "
    "published one. USPS has 9,298 images here and 10,000 in the paper.",
    "Census-Income: all 12,382 positive rows and the same number of negative rows, drawn again for each "
    "run. Nominal columns are one-hot encoded, and numeric ones are scaled to [0, 1]. The paper does not "
    "specify the encoding.",
)


def width_table(results: Results, name: str) -> Table | None:
    """Return the row at B = p/4 of a data set of Table 8.1 for several widths; None without results."""
    study = STUDIES[name]
    if not any(job.study == name for job in results):
        return None
    rows: list[tuple[str, ...]] = []
    records: list[Record] = []
    for gamma in study.widths:
        cells = []
        for learner in LEARNERS:
            errors = grouped(results, name, SHARES[0], f"{learner}, {gamma:g}")
            published = published_error(study.data, SHARES[0], learner)
            cells.append(f"{errors.mean():.2f} ({errors.mean() - published:+.2f})")
            records.append(
                {
                    "data": study.data,
                    "gamma": gamma,
                    "learner": learner,
                    "runs": len(errors),
                    "error": float(errors.mean()),
                    "published_error": published,
                }
            )
        rows.append((f"{gamma:g}", *cells))
    published_row = [f"{published_error(study.data, SHARES[0], learner):.2f}" for learner in LEARNERS]
    rows.append(("published", *published_row))
    runs = "drawings of the negative rows" if study.data == "census" else "of the 126 problems"
    title = (
        f"Forgetron paper, Table 8.1, B = p/4, by kernel width: {STUDIES[study.data].title}, "
        f"{records[0]['runs']} {runs}"
    )
    return Table(title, ("gamma", *LEARNERS), rows, records, (WIDTH_NOTE,))


WIDTH_NOTE = (
    "Mean online error in %, and its difference from the published one. Our table uses gamma = 0.5. A "
    "width that is chosen because its errors are near the published ones confirms nothing: with a free "
    "parameter, and an unknown encoding or scaling of the rows, some width is near for most learners. The "
    "table shows how far a verdict depends on the width, not which width the authors used."
)
