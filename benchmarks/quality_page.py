"""Write docs/quality.md and its plot from the results. Results that are missing give empty cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from quality_learners import ABLATIONS, ALONE, LARGER, NO_SHARED_SPAN, memory_of, ours_name
from quality_rivals import RIVALS
from quality_streams import CHANGING, CHOSEN_ON, GENERATED, GROUPS, STREAMS, seeds_of

__all__ = ["page", "plot"]

Runs = dict[str, Any]  # the results of a learner on a stream, by seed
Results = dict[str, dict[str, Runs]]


def complete(result: dict[str, Any] | None) -> bool:
    """Return whether a run reached the end of its stream."""
    return bool(result) and "mistakes" in result and "stopped after" not in result


def error(result: dict[str, Any] | None) -> float | None:
    """Return the mistakes in percent, or None if there is no result for the whole stream."""
    return 100.0 * result["mistakes"] / result["rows"] if complete(result) else None


def percent(value: float | None) -> str:
    """Return a number with two decimals, or an empty cell."""
    return "" if value is None else f"{value:.2f}"


def first(runs: Runs) -> str:
    """Return the cell of the first seed; a run that was stopped has the number of its rows."""
    result = runs.get("0")
    if result and "stopped after" in result:
        if not result["rows"] or "mistakes" not in result:
            return "stopped"
        return f"{100.0 * result['mistakes'] / result['rows']:.2f} ({result['rows']:,} rows)"
    return percent(error(result))


def spread(stream: str, runs: Runs) -> str:
    """Return mean and standard deviation over the seeds, or an empty cell if one of them is missing."""
    values = [error(runs.get(str(seed))) for seed in seeds_of(stream)]
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)):
        return ""
    return f"{mean(known):.2f} ± {stdev(known):.2f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def filled(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows that have a result."""
    return [row for row in rows if any(cell.strip("*") for cell in row[1:])]


def page(results: Results) -> str:
    def cells(streams: list[str], name_on: Callable[[str], str], mean_of_seeds: bool = False) -> list[str]:
        found = [(stream, results.get(stream, {}).get(name_on(stream), {})) for stream in streams]
        return [spread(stream, runs) if mean_of_seeds else first(runs) for stream, runs in found]

    def best(stream: str) -> str:
        values = [error(results.get(stream, {}).get(name, {}).get("0")) for name in ALONE]
        return percent(min((value for value in values if value is not None), default=None))

    def compared(streams: list[str], mean_of_seeds: bool = False) -> list[list[str]]:
        def row(label: str, name_on: Callable[[str], str]) -> list[str]:
            return [label, *cells(streams, name_on, mean_of_seeds)]

        def larger(stream: str) -> str:
            return "ours, 64MB" if stream in LARGER else ""

        large = row("**`BudgetClassifier`**, large memory", ours_name)
        return filled(
            [
                [large[0], *(f"**{cell}**" if cell else "" for cell in large[1:])],
                row("`BudgetClassifier`, small memory", lambda stream: ours_name(stream, 1)),
                [] if mean_of_seeds else row("`BudgetClassifier`, 64 MB", larger),
                [] if mean_of_seeds else ["best of its experts, used alone", *map(best, streams)],
                *(row(name, lambda stream, name=name: name) for name in RIVALS),
            ]
        )

    def group(name: str) -> list[str]:
        return [stream for stream, entry in STREAMS.items() if entry.group == name and results.get(stream)]

    def in_groups(rows_of: Callable[[list[str]], list[list[str]]]) -> str:
        """Return a table for each group that has results."""
        tables = [(streams, filled(rows_of(streams))) for streams in map(group, GROUPS)]
        return "\n".join(table(["", *streams], rows) for streams, rows in tables if rows)

    def section(name: str) -> str:
        streams = group(name)
        repeated = [stream for stream in streams if len(seeds_of(stream)) > 1]
        parts = [table(["first seed", *streams], compared(streams))] if streams else []
        if rows := compared(repeated, mean_of_seeds=True):
            parts.append(table(["mean ± standard deviation", *repeated], rows))
        return "\n".join(parts)

    every = [stream for name in GROUPS for stream in group(name)]
    changing = [
        [f"**`BudgetClassifier`**, {memory}", f"**{first(results.get(CHANGING, {}).get(name, {}))}**"]
        for memory, name in ((memory, f"ours, {memory}") for memory in memory_of(CHANGING))
    ]
    changing += [[name, first(results.get(CHANGING, {}).get(name, {}))] for name in ALONE]
    return TEMPLATE.format(
        chosen=", ".join(CHOSEN_ON[:-1]) + " and " + CHOSEN_ON[-1],
        streams=table(
            ["stream", "rows", "order", "labels", "used for"],
            [
                [
                    stream,
                    f"{entry.rows:,}",
                    entry.order,
                    entry.about,
                    "settings, too" if entry.data in CHOSEN_ON else "reporting only",
                ]
                for stream, entry in STREAMS.items()
                if stream != CHANGING
            ],
        ),
        generated=table(["stream", "rows", "generator"], generators()),
        two=section(GROUPS[0]),
        many=section(GROUPS[1]),
        drift=section(GROUPS[2]),
        alone=in_groups(
            lambda streams: [[name, *cells(streams, lambda stream, name=name: name)] for name in ALONE]
        ),
        ablations="\n".join(f"- {name}: {ablation.about};" for name, ablation in ABLATIONS.items())
        + f"\n- {NO_SHARED_SPAN}: for many classes, a `BudgetClassifier` for each class against the rest,"
        "\n  in equal parts of the memory.",
        parts=in_groups(
            lambda streams: [
                [part or "all parts", *cells(streams, lambda stream, part=part: ours_name(stream, 0, part))]
                for part in ("", *ABLATIONS, NO_SHARED_SPAN)
            ]
        ),
        changing=table(["15,000 rows of each", "mistakes %"], filled(changing)),
        cost=table(COSTS, filled([costs(stream, results[stream], ours_name(stream)) for stream in every])),
        small=table(
            COSTS, filled([costs(stream, results[stream], ours_name(stream, 1)) for stream in every])
        ),
        inside=table(
            ["stream", "expert", "error %", "weight", "supports", "MB"],
            [
                [
                    stream,
                    expert["name"],
                    percent(100.0 * expert["error"]),
                    f"{expert['share']:.2f}",
                    str(expert["supports"]),
                    f"{expert['bytes'] / 2**20:.2f}",
                ]
                for stream in every
                for expert in results[stream].get(ours_name(stream), {}).get("0", {}).get("experts", [])
                if expert["active"]
            ],
        ),
    )


def generators() -> list[list[str]]:
    """Return a row for each part of a generated stream; equal parts have one row."""
    rows: list[list[str]] = []
    for stream, parts in GENERATED.items():
        for number, kind, options in parts:
            call = f"`{kind}({', '.join(f'{name}={value}' for name, value in options.items())})`"
            if rows and rows[-1][0] == stream and rows[-1][2] == call:
                times = parts.count((number, kind, options))
                rows[-1][1] = f"{times} x {number:,}"
            else:
                rows.append([stream, f"{number:,}", call])
    return rows


COSTS = [
    "stream",
    "µs per row",
    "speed relative to ARF",
    "largest `nbytes_`, MB",
    "growth of the process, MB",
    "growth with ARF, AMF, MB",
    "regret and its bound",
]


def costs(stream: str, results: dict[str, Runs], name: str) -> list[str]:
    """Return what the first seed cost; runs that were stopped are left out."""
    mine, forest, other = (
        results.get(who, {}).get("0", {}) for who in (name, "river ARF, 10 trees", "river AMF, 10 trees")
    )
    if "seconds" not in mine:
        return [stream, *[""] * (len(COSTS) - 1)]
    forest, other = (one if complete(one) else {} for one in (forest, other))
    return [
        stream,
        f"{1e6 * mine['seconds'] / mine['rows']:.0f}",
        f"{forest['seconds'] / mine['seconds']:.1f}" if "seconds" in forest else "",
        f"{mine['bytes'] / 2**20:.2f} of {mine['memory'].removesuffix('MB')}",
        f"{mine['growth'] / 2**20:.1f}",
        ", ".join(f"{one['growth'] / 2**20:.0f}" for one in (forest, other) if "growth" in one),
        f"{mine['regret']:.0f} of {mine['regret bound']:.0f}",
    ]


TEMPLATE = """# Quality

This page shows mistakes in percent. Each row is predicted before it is learned, in one pass.
`benchmarks/quality.py` writes the page from `docs/quality/results.json`. Every learner has the default
settings of its library. Nothing is tuned to a stream, except that streams of mnist get more memory. Large
memory is 16 MB (mnist: 64 MB), and small memory is 1 MB (mnist: 8 MB).

Settings of `BudgetClassifier` are chosen on the data sets {chosen}
only. These are also used with flipped labels, added features or changes. The other streams are used for
reporting: no value of a setting is chosen by their results. The first table shows which streams these are.
There are three exceptions, all about covertype. Its errors led to the rule that the best kernel expert of
each loss stays at first. covertype-7 was a reason not to shrink every expert that is worse than the best one,
and to give an expert with new scales as many supports as the best one, also if that has no learned scales.
So the results on covertype and covertype-7 are not independent of these choices.

The rows of a shuffled stream are permuted with `np.random.default_rng(seed).permutation(n)`, and the first
ones are used. The seeds are 0, 1 and 2, also for generated streams. A stream in order is played once. The
learners' own seeds are always 0. Tables show the first seed, and then mean and standard deviation (of three
runs, with n - 1 in the denominator) over the seeds. An empty cell is not measured. A learner that reached
the time limit was stopped: its cell shows the error so far and the number of rows.

![Mistakes on each stream](quality/errors.png)

{streams}
Pixels of mnist are divided by 255, log1p is applied to the features of spambase, and the ten numeric
features of covertype are standardised. Generated streams are joined from parts of `river.datasets.synth`;
each part has a seed of its own.

{generated}
## Two classes

{two}
The learners of river and scikit-learn get standardised rows. The exceptions are trees, forests and the
nearest neighbours marked "raw", which get the rows unchanged. Passive-aggressive and logistic learners are
linear; with many classes they learn one class against the rest. "Random features" are 500 random Fourier
features with AROW on them. The adaptive tree is river's Hoeffding adaptive tree. ARF, AMF and SRP are river's
adaptive random forest, aggregated Mondrian forest and streaming random patches. Leveraging bagging has
Hoeffding trees. "Previous label" predicts the label of the row before.

## Many classes

{many}
## Drift

{drift}
## Its experts alone

These are the kinds of experts that `BudgetClassifier` combines, each used alone. Their budgets are not
those inside `BudgetClassifier`, which depend on its memory. Which one is best is known only afterwards. A
width w stands for gamma = w / m, where m is the median squared distance between rows: a larger w is a
narrower kernel. The tables show the first seed.

{alone}
## The contribution of each part

The same with one part removed, on the first seed. Only the first line was measured after the last changes of
the schedule: since then, the best kernel expert of each loss stays for 2,048 rounds, unless it is clearly
worse, and an expert with new scales may have as many supports as the best one.

{ablations}

{parts}
## When the best expert changes

Halfway, the stream changes from letter, where kernels are best, to electricity in order of time, where a
linear learner that adapts quickly is best. No expert is good at both.

{changing}
## Cost

Processor time of one thread, batches of 100 rows, the first seed. ARF and AMF have 10 trees. The speed
relative to ARF is shown where both were timed on the same kind of machine. Times with large memory were
measured while one other process used the second core, and those with little memory before the last changes
of the schedule.
`nbytes_` is read every 100 rounds, and the largest value is shown. The growth of the process is the growth
per model while two models ran at the same time, or eight models with little memory.

{cost}
With little memory:

{small}
## The experts at the end

The weight is the expert's share in the vote. The table shows streams of two classes.

{inside}"""


def plot(results: Results, path: Path) -> None:
    """Draw the errors of the first seed, one panel for each group of streams, without "previous label"."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = [
        [stream for stream, entry in STREAMS.items() if entry.group == group and results.get(stream)]
        for group in GROUPS
    ]
    figure, panels = plt.subplots(
        1,
        len(GROUPS),
        figsize=(13, 4.4),
        layout="constrained",
        sharey=True,
        width_ratios=[max(1, len(streams)) for streams in groups],
    )
    styles = {
        "others": {"color": "0.7", "s": 22},
        "river's ensembles of trees": {"color": "0.35", "s": 26, "marker": "s"},
        "BudgetClassifier, 1 MB (mnist 8 MB)": {"color": "tab:orange", "s": 36, "marker": "D"},
        "BudgetClassifier, 16 MB (mnist 64 MB)": {"color": "tab:red", "s": 46, "marker": "D"},
    }
    for label, style in styles.items():
        panels[0].scatter([], [], label=label, **style)
    for axes, group, streams in zip(panels, GROUPS, groups, strict=True):
        for i, stream in enumerate(streams):
            mine = {ours_name(stream): 3, ours_name(stream, 1): 2}
            places: list[list[float]] = [[], [], [], []]
            for name, runs in results[stream].items():
                value = error(runs.get("0"))
                if value is not None and name != "previous label" and (name in mine or name in RIVALS):
                    places[mine.get(name, int("trees" in name))].append(value)
            for style, values in zip(styles.values(), places, strict=True):
                axes.scatter([i] * len(values), values, **style)
        axes.set_yscale("log")
        axes.set_title(group)
        axes.set_xticks(range(len(streams)), streams, rotation=45, ha="right")
        axes.spines[["top", "right"]].set_visible(False)
    ticks = [0.5, 1, 2, 5, 10, 20, 50]
    panels[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panels[0].minorticks_off()
    panels[0].set_ylabel("mistakes %")
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
