"""Write docs/quality.md and its plot from the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quality_learners import ABLATIONS, ALONE, CHANGING, STREAMS, learners, memory_of

__all__ = ["page", "plot"]


def error(result: dict[str, Any] | None) -> float | None:
    """Return the mistakes in percent, or None if there is no result."""
    return None if not result or "mistakes" not in result else 100.0 * result["mistakes"] / result["rows"]


def percent(value: float | None) -> str:
    """Return a number with two decimals, or an empty cell."""
    return "" if value is None else f"{value:.2f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(results: dict[str, Any]) -> str:
    streams = [stream for stream in STREAMS if stream in results]
    rivals = [name for name in learners("a9a") if not name.startswith("ours") and name not in ALONE]

    def ours(stream: str, which: int = 0, part: str = "") -> str:
        return f"ours, {memory_of(stream)[which]}{part}"

    def errors(of: Callable[[str], str]) -> list[str]:
        return [percent(error(results[stream].get(of(stream)))) for stream in streams]

    def best(stream: str) -> str:
        values = [error(results[stream].get(name)) for name in ALONE]
        return percent(min((value for value in values if value is not None), default=None))

    def row_of(name: str) -> list[str]:
        return [name, *errors(lambda stream: name)]

    main = [
        ["rows", *(f"{STREAMS[stream]:,}" for stream in streams)],
        ["**`BudgetClassifier`**, 16 MB (mnist 64 MB)", *(f"**{value}**" for value in errors(ours))],
        ["`BudgetClassifier`, 1 MB (mnist 8 MB)", *errors(lambda stream: ours(stream, 1))],
        ["`BudgetClassifier`, 64 MB", *errors(lambda stream: "ours, 64MB")],
        ["best of its experts, used alone", *(best(stream) for stream in streams)],
        *(row_of(name) for name in rivals),
    ]

    def without(part: str) -> list[str]:
        return [part, *errors(lambda stream: ours(stream, 0, f", {part}"))]

    changing = [
        [
            f"**`BudgetClassifier`**, {memory}",
            f"**{percent(error(results[CHANGING].get(f'ours, {memory}')))}**",
        ]
        for memory in memory_of(CHANGING)
    ]
    changing += [[name, percent(error(results[CHANGING].get(name)))] for name in ALONE]
    parts = [["all parts", *errors(ours)], *map(without, ABLATIONS)]
    head = ["", *streams]
    inside = [
        [
            stream,
            expert["name"],
            percent(100.0 * expert["error"]),
            f"{expert['share']:.2f}",
            str(expert["supports"]),
            f"{expert['bytes'] / 2**20:.2f}",
        ]
        for stream in streams
        for expert in results[stream].get(ours(stream), {}).get("experts", [])
        if expert["active"]
    ]
    return TEMPLATE.format(
        main=table(head, main),
        alone=table(head, [row_of(name) for name in ALONE]),
        parts=table(head, parts),
        changing=table(["15,000 rows of each", "mistakes %"], changing),
        cost=table(COSTS, [costs(stream, results[stream], ours(stream)) for stream in streams]),
        small=table(COSTS, [costs(stream, results[stream], ours(stream, 1)) for stream in streams]),
        inside=table(["stream", "expert", "error %", "weight", "supports", "MB"], inside),
    )


COSTS = [
    "stream",
    "µs per row",
    "speed relative to ARF",
    "largest `nbytes_`, MB",
    "growth of the process, MB",
    "growth with ARF, AMF, MB",
    "regret and its bound",
]


def costs(stream: str, results: dict[str, Any], name: str) -> list[str]:
    mine, forest, other = (
        results.get(who, {}) for who in (name, "river ARF, 10 trees", "river AMF, 10 trees")
    )
    if "seconds" not in mine:
        return [stream, *[""] * (len(COSTS) - 1)]
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
settings of its library. Nothing is tuned to a stream, except that mnist gets more memory: 64 MB instead of
16 MB, and 8 MB instead of 1 MB.

The rows of each stream are shuffled with `np.random.default_rng(0).permutation(n)`, and the first ones are
used; electricity keeps its order in time. Pixels of mnist are divided by 255, log1p is applied to the
features of spambase, and the ten numeric features of covertype are standardised. There are two classes:
letters A-M against N-Z, covertype 2 against the rest, even against odd digits.

![Mistakes on each stream](quality/errors.png)

{main}
The learners of river and scikit-learn get standardised rows. The exceptions are trees, forests and the
nearest neighbours marked "raw", which get the rows unchanged. Passive-aggressive and logistic learners are
linear. "Random features" are 500 random Fourier features with AROW on them. ARF and AMF are river's
adaptive random forest and aggregated Mondrian forest.

## Its experts alone

These are the kinds of experts that `BudgetClassifier` combines, each used alone. Their budgets are not
those inside `BudgetClassifier`, which depend on its memory. Which one is best is known only afterwards. A
width w stands for gamma = w / m, where m is the median squared distance between rows: a larger w is a
narrower kernel.

{alone}
## The contribution of each part

The same with one part removed: without second-order experts; without the combiner, so that only exponential
weights combine the experts; without recency, that is, without passive-aggressive experts and recent labels;
and with equal shares of the memory for all experts until the end.

{parts}
## When the best expert changes

Halfway, the stream changes from letter, where kernels are best, to electricity in order of time, where a
linear learner that adapts quickly is best. No expert is good at both.

{changing}
## Cost

One thread, batches of 100 rows. ARF and AMF have 10 trees and ran on the same machine. `nbytes_` is read
every 100 rounds, and the largest value is shown. The growth of the process is the growth per model while
two models ran at the same time, or eight models with little memory.

{cost}
With little memory:

{small}
## The experts at the end

The weight is the expert's share in the vote.

{inside}"""


def plot(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    streams = [stream for stream in STREAMS if stream in results]
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    styles = {
        "others": {"color": "0.7", "s": 22},
        "river's forests": {"color": "0.35", "s": 26, "marker": "s"},
        "BudgetClassifier, 1 MB (mnist 8 MB)": {"color": "tab:orange", "s": 36, "marker": "D"},
        "BudgetClassifier, 16 MB (mnist 64 MB)": {"color": "tab:red", "s": 46, "marker": "D"},
    }
    for i, stream in enumerate(streams):
        large, small = memory_of(stream)
        mine = {f"ours, {large}": 3, f"ours, {small}": 2}
        places: list[list[float]] = [[], [], [], []]
        for name, result in results[stream].items():
            value = error(result)
            if value is None or name in ALONE or (name.startswith("ours") and name not in mine):
                continue
            places[mine.get(name, int("AMF" in name or "ARF" in name))].append(value)
        for (label, style), values in zip(styles.items(), places, strict=True):
            axes.scatter([i] * len(values), values, label=None if i else label, **style)
    axes.set_yscale("log")
    ticks = [2, 3, 5, 10, 20, 40]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(streams)), streams)
    axes.set_ylabel("mistakes %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
