"""Write the parts of pages that contain measured numbers, from the files that the benchmarks wrote.

    python benchmarks/generated.py            write them
    python benchmarks/generated.py --check    only say which pages are out of date

A part of a page stands between `<!-- generated: name -->` and `<!-- end -->`. `PARTS` names the function that
writes it. tests/test_docs.py checks that all parts are up to date.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from budget_learners import BUDGETS, LEARNERS, NAMES, PUBLISHED
from budget_learners import RESULTS as BUDGET_LEARNERS
from budget_learners import STREAMS as BUDGET_STREAMS
from budgetron._util.units import format_bytes
from choices import RESULTS as CHOICES
from choices import STREAMS, summary
from conformal import RESULTS as CONFORMAL
from messy_files import RESULTS as MESSY_FILES
from novelty import CHOSEN_ON as NOVELTY_CHOSEN_ON
from novelty import RESULTS as NOVELTY
from rare_classes import CHOSEN_ON as RARE_CHOSEN_ON
from rare_classes import RESULTS as RARE_CLASSES
from regression import CHOSEN_ON
from regression import RESULTS as REGRESSION
from scale_model import COST_HEAD, NEEDS_HEAD, cost_rows, load_sentence, needs_rows
from serve import RESULTS as SERVE
from single_rounds import RESULTS as SINGLE_ROUNDS
from throughput import RESULTS as THROUGHPUT

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(<!-- generated: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def share(value: float) -> str:
    """Return a ratio as a fraction that is easy to read."""
    if value > 0.95:
        return "1"
    return f"1/{1 / value:.0f}" if value < 0.4 else f"{value:.1f}"


def choices_table() -> str:
    rows = [
        [
            f"`{row['learner']}`",
            *(f"{error:.1f}" for error in row["errors"]),
            f"**{row['error']:.1f}**",
            share(row["time"]),
            format_bytes(round(row["bytes"])),
        ]
        for row in summary(json.loads(CHOICES.read_text()))
    ]
    return table(["mistakes in %", *STREAMS, "mean", "time", "memory"], rows)


def choices_short() -> str:
    chosen = (0, 1, 3, 5, 7)
    rows = [
        [
            f"`{row['learner']}`",
            f"{row['error']:.1f} %",
            share(row["time"]),
            format_bytes(round(row["bytes"])),
        ]
        for row in (summary(json.loads(CHOICES.read_text()))[i] for i in chosen)
    ]
    return table(["learner", "mistakes", "time", "memory"], rows)


def choices_speed() -> str:
    times = summary(json.loads(CHOICES.read_text()))[0]["microseconds"]
    low, high = (round(value, -1) for value in (min(times), max(times)))
    return f"In the runs below, it takes {low:.0f} to {high:.0f} µs per row in batches with 16 MB.\n"


def single_rounds() -> str:
    results = json.loads(SINGLE_ROUNDS.read_text())
    rows = [
        [
            classes,
            f"{found['play']:.0f} µs",
            f"{found['experts']:.0f} µs",
            f"{found['river']:.0f} µs",
            f"{found['limit']:.0f} µs for {format_bytes(round(found['bytes']))}",
        ]
        for classes, found in results.items()
    ]
    head = ["classes", "`play`", "its experts alone", "`learn_one` of the river adapter", "reading once"]
    return table(head, rows)


def messy_files() -> str:
    results = json.loads(MESSY_FILES.read_text())
    rows = []
    for name in dict.fromkeys(result["table"] for result in results):
        own = [result for result in results if result["table"] == name]
        plain, best = (sum(result[key] for result in own) / len(own) for key in ("plain", "best"))
        most = max(result["plain"] - result["best"] for result in own)
        rows.append([name, str(len(own)), f"{plain:.2f} %", f"{best:.2f} %", f"{most:.2f} points"])
    head = ["table", "seeds", "without options", "best options", "largest difference"]
    return table(head, rows)


def throughput() -> str:
    found = json.loads(THROUGHPUT.read_text())
    figures = found["figures"]
    rows = [
        [
            name,
            f"{own['seconds']:.2f} s",
            f"{own['times_vowpal_wabbit']:.2f}",
            f"{own['cpu_times_vowpal_wabbit']:.2f}",
            f"{own['mb_per_second']:.0f} MB/s",
        ]
        for name, own in figures.items()
        if "times_vowpal_wabbit" in own
    ]
    head = [
        "program, format",
        "total time",
        "total time / Vowpal Wabbit's",
        "processor time / Vowpal Wabbit's",
        "after startup",
    ]
    start = figures["Budgetron, CSV"]["seconds"] - figures["Budgetron, CSV"]["after_startup"]
    seconds = {name: f"{own['seconds']:.2f} s" for name, own in figures.items()}
    lines = [
        f"Startup takes {start:.2f} s, of which the imports of other libraries (NumPy, SciPy, scikit-learn,",
        f"PyArrow, Typer and Rich) take {seconds['libraries in budgetron run']}. `budgetron --help` takes",
        f"{seconds['budgetron --help']}, `import budgetron` {seconds['import budgetron']}, and "
        f"`import sklearn.linear_model` {seconds['import sklearn.linear_model']}.",
        f"Before the run, the load average of the machine was {found['load']:.1f} on two cores.",
    ]
    return table(head, rows) + "\n" + "\n".join(lines) + "\n"


def serve() -> str:
    found = json.loads(SERVE.read_text())
    single, memory = found["single"], found["memory"]
    rows = [
        [
            text,
            f"{single[kind]['per_second']:,.0f}",
            ratio(single, kind),
            f"{single[kind]['microseconds']:.0f} µs",
        ]
        for kind, text in (
            ("empty", "empty endpoint of the same framework"),
            ("predict", "predict one row"),
            ("learn", "learn one row, durably"),
        )
    ]
    head = ["128 connections", "requests per second", "of the empty endpoint", "processor time of a request"]
    both, batches, p99 = found["side_by_side"], found["batches"], found["p99_ms"]
    lines = [
        f"- Requests of 1,000 rows: {batches['predict']['per_second']:,.0f} rows per second are predicted "
        f"({batches['predict']['per_processor_second']:,.0f} per second of processor time), and "
        f"{batches['learn']['per_second']:,.0f} learned durably "
        f"({batches['learn']['per_processor_second']:,.0f}).",
        f"- Side by side, 64 connections each: {both['predict']:,.0f} predictions and {both['learn']:,.0f} "
        "durable learns per second.",
        f"- 99 % of predictions take less than {p99['predict']:.1f} ms while 4 other connections learn. "
        f"The empty endpoint, called in the same way, takes less than {p99['empty']:.1f} ms.",
        f"- Memory of the process: {format_bytes(memory[1][1])} after {memory[1][0]:,} requests, "
        f"{format_bytes(memory[-1][1])} after {memory[-1][0]:,}.",
        f"- The load average of the machine, which had other work, was {found['load']:.0f} on two cores"
        + ("; servers and clients had real-time priority." if found.get("realtime") else "."),
    ]
    return table(head, rows) + "\n" + "\n".join(lines) + "\n"


def ratio(single: dict[str, dict[str, float]], kind: str) -> str:
    """Return the rate of requests, and their processor time, next to those of the empty endpoint."""
    if kind == "empty":
        return "1"
    time = single["empty"]["microseconds"] / single[kind]["microseconds"]
    return f"{single[kind]['of_empty']:.2f} (by processor time {time:.2f})"


def regression_results() -> dict[str, dict[str, dict[str, float]]]:
    results: dict[str, dict[str, dict[str, float]]] = json.loads(REGRESSION.read_text())
    return results


def regression_errors() -> str:
    results = regression_results()
    names = list(next(iter(results.values())))
    rows = []
    for stream, found in results.items():
        best = min(one["rmse"] for one in found.values())
        cells = [f"{found[name]['rmse']:.3g}" for name in names]
        marked = [f"**{c}**" if found[n]["rmse"] == best else c for n, c in zip(names, cells, strict=True)]
        rows.append([stream + (" *" if stream in CHOSEN_ON else ""), *marked])
    return table(
        ["RMSE", *(f"`{name}`" if "." in name or name[0].isupper() else name for name in names)], rows
    )


def regression_costs() -> str:
    rows = []
    for stream, found in regression_results().items():
        own, forest, knn = (found[name] for name in ("BudgetRegressor", "river forest", "river KNN"))
        rows.append(
            [
                stream + (" *" if stream in CHOSEN_ON else ""),
                f"{forest['seconds'] / own['seconds']:.0f}",
                f"{knn['seconds'] / own['seconds']:.0f}",
                f"{forest['seconds'] / found['SecondOrderRegressor']['seconds']:.0f}",
                format_bytes(own["bytes"]),
                format_bytes(forest["bytes"]),
                f"{100 * own['coverage']:.1f} %",
            ]
        )
    head = [
        "",
        "rate / forest's",
        "rate / KNN's",
        "`SecondOrderRegressor` / forest's",
        "memory",
        "forest's memory",
    ]
    return table([*head, "coverage of 90 % intervals"], rows)


def conformal_classes() -> str:
    rows = []
    for stream, found in json.loads(CONFORMAL.read_text())["classes"].items():
        for name, one in found.items():
            figures = [f"{100 * one[key]:.1f}" for key in ("error", "coverage", "worst")]
            sizes = [f"{one['size']:.2f}", f"{100 * one['empty']:.1f}", f"{100 * one['single']:.1f}"]
            rows.append([stream, f"{one['classes']}", f"`{name}`", *figures, *sizes])
    head = ["stream", "classes", "learner", "mistakes %", "coverage %", "worst 500 rounds %"]
    return table([*head, "mean set size", "empty %", "one class %"], rows)


def conformal_numbers() -> str:
    rows = []
    for stream, found in json.loads(CONFORMAL.read_text())["numbers"].items():
        for name, one in found.items():
            figures = [f"{100 * one[key]:.1f}" for key in ("coverage", "worst")]
            rows.append([stream, f"`{name}`", *figures, f"{one['width']:.2f}"])
    return table(["stream", "regressor", "coverage %", "worst 500 rounds %", "median width"], rows)


def conformal_range() -> str:
    results = json.loads(CONFORMAL.read_text())
    found = [one["coverage"] for part in results.values() for runs in part.values() for one in runs.values()]
    low, high = 100 * min(found), 100 * max(found)
    return f"The coverage of all {len(found)} runs is between {low:.1f} % and {high:.1f} %.\n"


def novelty_results() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(NOVELTY.read_text())
    return results


def best_in_bold(values: list[float]) -> list[str]:
    """Return numbers with the largest in bold."""
    return [f"**{value:.3f}**" if value == max(values) else f"{value:.3f}" for value in values]


def novelty_head(names: list[str]) -> list[str]:
    return [name if name.startswith("river") else f"`{name}`" for name in names]


def novelty_means() -> str:
    rows, names = [], []
    for stream, classes in novelty_results().items():
        runs = list(classes.values())
        names = list(runs[0])
        means = [sum(run[name]["auc"] for run in runs) / len(runs) for name in names]
        alarms = [run["SecondOrderDetector"]["alarms"] for run in runs]
        own, trees = (
            sum(run[name]["seconds"] for run in runs)
            for name in ("SecondOrderDetector", "river HalfSpaceTrees")
        )
        rows.append(
            [
                stream + (" *" if stream in NOVELTY_CHOSEN_ON else ""),
                str(len(runs)),
                *best_in_bold(means),
                f"{100 * min(alarms):.2f} to {100 * max(alarms):.2f} %",
                f"{own / trees:.1f}",
            ]
        )
    return table(["mean AUC", "classes", *novelty_head(names), "alarms", "time / trees'"], rows)


def novelty_classes() -> str:
    rows, names = [], []
    for stream in ("shuttle", "usps", "ijcnn1"):
        for held_out, found in novelty_results()[stream].items():
            names = list(found)
            rows.append([f"{stream}, class {held_out}", *best_in_bold([found[n]["auc"] for n in names])])
    return table(["AUC, held out:", *novelty_head(names)], rows)


def rare_classes() -> str:
    results: dict[str, dict[str, dict[str, float]]] = json.loads(RARE_CLASSES.read_text())
    streams = list(results)
    rows = []
    for name in next(iter(results.values())):
        learner, _, setting = name.partition(", ")
        rows.append([f"`{learner}`" + (f", {setting}" if setting else "")])
        for stream in streams:
            for measure in ("auc", "precision"):
                best = max(found[measure] for found in results[stream].values())
                value = results[stream][name][measure]
                rows[-1].append(f"**{value:.3f}**" if value == best else f"{value:.3f}")
        rows[-1].append(" / ".join(f"{100 * results[stream][name]['balanced']:.0f}" for stream in streams))
        rows[-1].append(" / ".join(f"{results[stream][name]['microseconds']:.0f}" for stream in streams))
    head = ["learner"]
    for stream in streams:
        rare = 100 * next(iter(results[stream].values()))["rare"]
        star = " *" if stream in RARE_CHOSEN_ON else ""
        head += [f"{stream}{star}, {rare:.1f} % rare: AUC", "average precision"]
    return table([*head, "balanced accuracy %", "µs per row"], rows)


def adult() -> dict[str, dict[str, object]]:
    results: dict[str, dict[str, object]] = json.loads((ROOT / "docs" / "adult" / "results.json").read_text())
    return results


def adult_online() -> str:
    rows = [[f"`{name}`", f"{100 * float(str(error)):.1f} %"] for name, error in adult()["online"].items()]
    return table(["one pass over Adult", "mistakes"], rows)


def adult_averages() -> str:
    rows = []
    for name, scores in adult()["held out"].items():
        assert isinstance(scores, list)
        rows.append([f"`{name}`", *(f"{100 * score:.1f} %" for score in scores)])
    return table(["", "last hypothesis", "average", "least penalized risk"], rows)


def published() -> str:
    with (ROOT / "docs" / "reproduction" / "002-table-1.csv").open(newline="") as file:
        results = [row for row in csv.DictReader(file) if row["budget"] in ("", "1500")]
    rows = [
        [
            row["learner"] + (f", B = {row['budget']}" if row["budget"] else ""),
            f"{float(row['error']):.2f} %",
            f"{float(row['published_error']):.2f} %",
            f"{float(row['supports']):,.0f}",
            f"{float(row['published_supports']):,.0f}",
        ]
        for row in results
    ]
    return table(["", "mistakes", "published", "supports", "published"], rows)


def budget_published() -> str:
    results = json.loads(BUDGET_LEARNERS.read_text())["published"]
    rows = []
    for name, (error, _) in PUBLISHED.items():
        found = results[name]
        ours = 100 * found["mistakes"] / found["rows"]
        rows.append(
            [name, f"{ours:.1f} %", f"{error:.1f} %", f"{ours - error:+.1f}", f"{found['supports']:,}"]
        )
    return table(["", "mistakes", "published", "difference", "supports"], rows)


def budget_table() -> str:
    results = json.loads(BUDGET_LEARNERS.read_text())

    def cell(stream: str, name: str, budget: int) -> str:
        found = results[stream].get(f"{name}, {budget}")
        return "-" if found is None else f"{100 * found['mistakes'] / found['rows']:.2f}"

    rows = [
        [
            stream if name == next(iter(LEARNERS)) else "",
            NAMES.get(name, f"`{name}`"),
            *(cell(stream, name, budget) for budget in BUDGETS),
        ]
        for stream in BUDGET_STREAMS
        for name in LEARNERS
    ]
    return table(["", "learner", *(f"B = {budget}" for budget in BUDGETS)], rows)


PARTS: dict[str, Callable[[], str]] = {
    "choices-table": choices_table,
    "choices-short": choices_short,
    "choices-speed": choices_speed,
    "serve": serve,
    "throughput": throughput,
    "single-rounds": single_rounds,
    "messy-files": messy_files,
    "regression-errors": regression_errors,
    "regression-costs": regression_costs,
    "conformal-classes": conformal_classes,
    "conformal-numbers": conformal_numbers,
    "conformal-range": conformal_range,
    "novelty-means": novelty_means,
    "novelty-classes": novelty_classes,
    "rare-classes": rare_classes,
    "scale-costs": lambda: f"{table(COST_HEAD, cost_rows())}\n{load_sentence()}",
    "scale-needs": lambda: table(NEEDS_HEAD, needs_rows()),
    "adult-online": adult_online,
    "adult-averages": adult_averages,
    "published": published,
    "budget-published": budget_published,
    "budget-table": budget_table,
}


def updated(text: str) -> str:
    """Return the text of a page with all its generated parts written again."""
    return MARKED.sub(lambda found: found[1] + PARTS[found[2]]() + found[4], text)


def out_of_date() -> list[Path]:
    """Return the pages whose generated parts differ from the files of the benchmarks."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if (text := page.read_text()) != updated(text)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    check = parser.parse_args().check
    pages = out_of_date()
    for page in pages:
        print(page.relative_to(ROOT), "is out of date" if check else "was updated")
        if not check:
            page.write_text(updated(page.read_text()))
    sys.exit(bool(check and pages))


if __name__ == "__main__":
    main()
