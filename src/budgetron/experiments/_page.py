"""The page with all tables and figures, and the files next to it."""

from __future__ import annotations

import csv
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from budgetron._util.atomic import atomic_write
from budgetron.experiments._figures import STUDIES_OF, figures
from budgetron.experiments._forgetron_tables import forgetron_table, width_table
from budgetron.experiments._studies import PAPERS, STUDIES, Job, JobResult, jobs_of
from budgetron.experiments._tables import Record, Table, projectron_table

__all__ = ["write_page"]

TABLE = "003-table-8.1"


def write_page(
    page: Path, results: Mapping[Job, JobResult], missing: dict[str, str], quick: bool
) -> tuple[dict[str, Table], dict[str, str], list[Path]]:
    """Write the page and its files; return the tables, the missing studies, and the files.

    Sections of the page that is replaced are kept if there are no results for them.
    """
    folder = page.with_suffix("")
    earlier = _earlier_sections(page, quick)
    tables, files = _tables(results, _earlier_records(folder, earlier)), [page]
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        files.append(folder / f"{name}.csv")
        with atomic_write(files[-1]) as file:
            file.write(table.to_csv().encode())
    pictures = {
        name: figure
        for name, figure in figures(results).items()
        if _is_complete(name, results) or not _has_earlier(name, folder, earlier)
    }
    for name, figure in pictures.items():
        files.append(folder / f"{name}.png")
        with atomic_write(files[-1]) as file:
            figure.savefig(file, dpi=110, format="png")
    sections = _sections(tables, list(pictures), folder, earlier)
    text = _text(sections, tables.get(TABLE), results, missing, quick)
    with atomic_write(page) as file:
        file.write(text.encode())
    return tables, missing, files


def _tables(results: Mapping[Job, JobResult], kept: Sequence[Record]) -> dict[str, Table]:
    """Return by file name the tables that there are results for."""
    tables = {
        f"002-table-{number}": projectron_table(results, study)
        for number, study in enumerate(("adult", "vehicle", "gaussians"), 1)
    }
    tables[TABLE] = forgetron_table(results, kept)
    for name in ("census-widths", "usps-widths"):
        tables[f"003-{name}"] = width_table(results, name)
    return {name: table for name, table in tables.items() if table is not None}


# ---------------------------------------------------------------------- the page that is replaced


def _command(quick: bool) -> str:
    return f"`budgetron reproduce{' --quick' if quick else ''}`"


def _earlier_sections(page: Path, quick: bool) -> dict[str, str]:
    """Return the sections of the page by their headings; none if it was made with other options."""
    try:
        text = page.read_text()
    except OSError:
        return {}
    start, *sections = text.split("\n## ")
    if _command(quick) not in start:
        return {}
    return {heading: body.strip() for heading, _, body in (part.partition("\n") for part in sections)}


def _earlier_records(folder: Path, earlier: Mapping[str, str]) -> list[Record]:
    """Return the records of the earlier Table 8.1, if the page has it."""
    path = folder / f"{TABLE}.csv"
    if not any(heading.startswith("Forgetron paper, Table 8.1:") for heading in earlier) or not path.exists():
        return []
    with path.open() as file:
        return [_typed(record) for record in csv.DictReader(file)]


def _typed(record: dict[str, str]) -> Record:
    """Return a record of a CSV file with the types that it had."""
    kinds: dict[str, type[Any]] = {"data": str, "learner": str, "runs": int}
    return {name: kinds.get(name, float)(value) for name, value in record.items()}


def _is_complete(name: str, results: Mapping[Job, JobResult]) -> bool:
    """Return whether there are results for all data sets of a figure."""
    studies = STUDIES_OF | {"003-figure-7": STUDIES_OF["003-figure-6"]}
    return {*studies.get(name, ())} <= {job.study for job in results}


def _has_earlier(name: str, folder: Path, earlier: Mapping[str, str]) -> bool:
    return CAPTIONS[name][0] in earlier and (folder / f"{name}.png").exists()


# ---------------------------------------------------------------------- the sections


def _sections(
    tables: Mapping[str, Table], pictures: list[str], folder: Path, earlier: Mapping[str, str]
) -> dict[str, tuple[str, bool]]:
    """Return by heading the text of each section, and whether it is kept from the earlier page."""
    sections: dict[str, tuple[str, bool]] = {}
    for name, start in TABLE_HEADINGS.items():
        if name in tables:
            table = tables[name]
            text = f"{table.to_markdown()}\n[As CSV]({folder.name}/{name}.csv)"
            sections[table.title] = text, False
        else:
            sections |= {head: (text, True) for head, text in earlier.items() if head.startswith(start)}
    for name, (heading, caption) in CAPTIONS.items():
        if name in pictures or _has_earlier(name, folder, earlier):
            text = f"![{heading}]({folder.name}/{name}.png)\n\n{caption}"
            sections[heading] = text, name not in pictures
    return sections


def _text(
    sections: Mapping[str, tuple[str, bool]],
    table: Table | None,
    results: Mapping[Job, JobResult],
    missing: dict[str, str],
    quick: bool,
) -> str:
    seconds = sum(result["seconds"] for result in results.values())
    run = {job.study for job in results}
    kept = [heading for heading, (_, is_kept) in sections.items() if is_kept]
    records = table.records if table is not None else ()
    data = list(dict.fromkeys(record["data"] for record in records if record["data"] not in run))
    shown = [heading.partition(":")[0] if "width" not in heading else heading for heading in kept]
    if data:
        shown.append("the rows " + ", ".join(STUDIES[name].title for name in data) + " of Table 8.1")
    lines = [
        "# The papers' experiments, repeated",
        "",
        f"Written by {_command(quick)}: {len(results)} jobs, "
        f"{seconds / 60:.0f} minutes of one core ({platform.machine()}). Results are means ± standard "
        "deviations. Published values are shown next to ours. The papers do not give the curves of their "
        "figures as numbers, so the figures show only those published points that the tables also contain, "
        "as crosses.",
        "",
    ]
    if shown:
        lines += [f"From an earlier run: {'; '.join(shown)}.", ""]
    for heading, (text, _) in sections.items():
        lines += [f"## {heading}", "", text, ""]
    incomplete = list(_incomplete(results, missing, quick, {*data, *_studies_of(kept)}))
    if incomplete:
        lines += ["## Not included", "", *incomplete, ""]
    return "\n".join(lines)


def _studies_of(kept: Sequence[str]) -> Iterator[str]:
    """Yield the studies whose tables are kept from the earlier page."""
    studies = {
        "002-table-1": "adult",
        "002-table-2": "vehicle",
        "002-table-3": "gaussians",
        "003-census-widths": "census-widths",
        "003-usps-widths": "usps-widths",
    }
    for name, study in studies.items():
        if any(heading.startswith(TABLE_HEADINGS[name]) for heading in kept):
            yield study


def _incomplete(
    results: Mapping[Job, JobResult], missing: dict[str, str], quick: bool, kept: set[str]
) -> Iterator[str]:
    """Yield a line for each study of which some or all jobs were not run."""
    for study in STUDIES.values():
        all_jobs = list(jobs_of(study, quick))
        done = sum(job in results for job in all_jobs)
        if done == 0 and study.name in kept:
            continue
        if study.name in missing:
            unverified = (
                " Table 2 of the Projectron paper is not verified." if study.name == "vehicle" else ""
            )
            yield f"- {study.title} ({PAPERS[study.paper]}): the data set was not available.{unverified}"
        elif done < len(all_jobs):
            yield f"- {study.title} ({PAPERS[study.paper]}): {done} of {len(all_jobs)} jobs were run."


# The first words of the headings of the tables, in their order on the page
TABLE_HEADINGS = {
    "002-table-1": "Projectron paper, Table 1:",
    "002-table-2": "Projectron paper, Table 2:",
    "002-table-3": "Projectron paper, Table 3:",
    TABLE: "Forgetron paper, Table 8.1:",
    "003-census-widths": "Forgetron paper, Table 8.1, B = p/4, by kernel width: Census-Income",
    "003-usps-widths": "Forgetron paper, Table 8.1, B = p/4, by kernel width: USPS",
}

CAPTIONS = {
    "002-figure-1": (
        "Projectron paper, Figure 1: online error against samples, Adult, B = 1500",
        "As in the paper, the Projectron's curve is close to the Perceptron's, the Forgetron and the RBP "
        "(Randomized Budget Perceptron) stop improving when the budget is full, and Projectron++ and PA-I "
        "have a lower error.",
    ),
    "002-figure-2": (
        "Projectron paper, Figure 2: supports against samples, Adult, B = 1500",
        "The number of supports grows linearly for the Perceptron and PA-I, and ever more slowly for "
        "Projectron and Projectron++.",
    ),
    "002-figure-3": (
        "Projectron paper, Figure 3: online error against supports, Adult, B = 1500",
        "With the same number of supports, Projectron and Projectron++ make fewer mistakes than the "
        "Perceptron.",
    ),
    "003-figure-4": (
        "Forgetron paper, Figure 4: online error against budget, USPS and MNIST",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1.",
    ),
    "003-figure-5": (
        "Forgetron paper, Figure 5: online error against budget, Census-Income",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1.",
    ),
    "003-figure-6": (
        "Forgetron paper, Figure 6: online error against budget, synthetic",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1. "
        "The paper describes a curve of the greedy Forgetron that is good for small budgets, becomes worse "
        "for larger ones, and better again for large ones. Here greedy-cumulative has a curve of this "
        "shape. That of the greedy Forgetron by equation 52 falls, or rises only slightly before its end.",
    ),
    "003-figure-7": (
        "Forgetron paper, Figure 7: single runs, synthetic",
        "One data set: the self-tuned Forgetron, and the range of ten runs of CG, which depends on random "
        "choices.",
    ),
}
