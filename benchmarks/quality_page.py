"""What was found about mistakes, as a page with a plot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quality_learners import ABLATIONS, ALONE, CHANGING, STREAMS, learners, memory_of

__all__ = ["page", "plot"]


def error(result: dict[str, Any] | None) -> float | None:
    return None if not result or "mistakes" not in result else 100.0 * result["mistakes"] / result["rows"]


def shown(value: float | None) -> str:
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
        return [shown(error(results[stream].get(of(stream)))) for stream in streams]

    def best(stream: str) -> str:
        values = [error(results[stream].get(name)) for name in ALONE]
        return shown(min((value for value in values if value is not None), default=None))

    def named(name: str) -> list[str]:
        return [name, *errors(lambda stream: name)]

    main = [
        ["rows", *(f"{STREAMS[stream]:,}" for stream in streams)],
        ["**`BudgetClassifier`**, 16 MB, mnist 64", *(f"**{value}**" for value in errors(ours))],
        ["the same, 1 MB, mnist 8", *errors(lambda stream: ours(stream, 1))],
        ["the same, 64 MB", *errors(lambda stream: "ours, 64MB")],
        ["best of its experts alone", *(best(stream) for stream in streams)],
        *(named(name) for name in rivals),
    ]

    def without(part: str) -> list[str]:
        return [part, *errors(lambda stream: ours(stream, 0, f", {part}"))]

    changing = [
        [f"**`BudgetClassifier`**, {memory}", f"**{shown(error(results[CHANGING].get(f'ours, {memory}')))}**"]
        for memory in memory_of(CHANGING)
    ]
    changing += [[name, shown(error(results[CHANGING].get(name)))] for name in ALONE]
    parts = [["all parts", *errors(ours)], *map(without, ABLATIONS)]
    head = ["", *streams]
    inside = [
        [
            stream,
            expert["name"],
            shown(100.0 * expert["error"]),
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
        alone=table(head, [named(name) for name in ALONE]),
        parts=table(head, parts),
        changing=table(["15,000 rows of each", "mistakes, %"], changing),
        cost=table(COSTS, [costs(stream, results[stream], ours(stream)) for stream in streams]),
        small=table(COSTS, [costs(stream, results[stream], ours(stream, 1)) for stream in streams]),
        inside=table(["stream", "at the end", "error %", "share", "supports", "MB"], inside),
    )


COSTS = [
    "stream",
    "us a row",
    "times ARF's rows a second",
    "most bytes, MB",
    "process grew by, MB",
    "ARF, AMF grew by, MB",
    "regret, and its bound",
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

Mistakes in percent, each row predicted before it is learned, in one pass. Written by `benchmarks/quality.py`
from `docs/quality/results.json`; every learner has its library's own settings, and nothing is tuned to a
stream. Rows are the first after `np.random.default_rng(0).permutation(n)`, electricity in order of time;
mnist's pixels by 255, spambase's features by log1p, covertype's ten quantities standardised. Two classes:
letter A-M against N-Z, covertype 2 against the rest, digits even against odd.

![Mistakes on each stream](quality/errors.png)

{main}
river's and scikit-learn's learners get standardised rows; trees, forests and the nearest neighbours that are
called raw get rows as they are. Passive-aggressive and logistic ones are linear. Random features are 500
Fourier features, with AROW over them.

## Its experts alone

What `BudgetClassifier` chooses from, chosen by hand; which is best is known afterwards only. Widths of the
kernel are by the median squared distance between rows.

{alone}
## What each part is good for

The same with one part left out: without second-order experts; without the combiner, by exponential weights
alone; without recency, which is passive-aggressive experts and the labels of late; and with equal shares of
the memory for all experts to the end.

{parts}
## When the best expert changes

Half way the stream turns from letter, where kernels are best, into electricity in order of time, where a
linear learner is that follows quickly. No expert is good at both.

{changing}
## What it costs

One thread; batches of 100 rows. ARF and AMF are river's adaptive and Mondrian forests of 10 trees on the same
machine. The most bytes are those of `nbytes_`, looked at every 100 rounds; by how much the process grew is
what each of two models took that played side by side, and of eight with little memory.

{cost}
With little memory:

{small}
## What is inside

{inside}"""


def plot(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    streams = [stream for stream in STREAMS if stream in results]
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    shown_as = {
        "others": {"color": "0.7", "s": 22},
        "river's forests": {"color": "0.35", "s": 26, "marker": "s"},
        "BudgetClassifier, 1 MB (mnist 8)": {"color": "tab:orange", "s": 36, "marker": "D"},
        "BudgetClassifier, 16 MB (mnist 64)": {"color": "tab:red", "s": 46, "marker": "D"},
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
        for (label, style), values in zip(shown_as.items(), places, strict=True):
            axes.scatter([i] * len(values), values, label=None if i else label, **style)
    axes.set_yscale("log")
    ticks = [2, 3, 5, 10, 20, 40]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(streams)), streams)
    axes.set_ylabel("mistakes, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
