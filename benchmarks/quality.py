"""How many mistakes are made on real streams: BudgetClassifier, its parts, and what people would use instead.

    python benchmarks/quality.py                 what has no result yet; docs/quality.md and its plots
    python benchmarks/quality.py --only letter   some streams
    python benchmarks/quality.py --who ours      those learners alone whose names begin so
    python benchmarks/quality.py --again ours    those learners again whose names begin so
    python benchmarks/quality.py --page          nothing measured: the page and the plots again

Each learner plays each stream in a process of its own, every row predicted before it is learned; its result
is written at once to docs/quality/results.json, so that a run that was stopped goes on where it was. BLAS is
held to one thread. river is in the dependency group `bench`. BUDGETRON_DATA names the folder with the data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "quality" / "results.json"

# Rows after one fixed permutation; electricity in its own order.
STREAMS = {
    "a9a": 20000,
    "ijcnn1": 20000,
    "letter": 15000,
    "usps": 7291,
    "spambase": 4601,
    "covertype": 20000,
    "phishing": 11055,
    "electricity": 45312,
    "mnist": 10000,
}
MEMORY = {"mnist": ("64MB", "8MB")}  # and elsewhere 16 MB, and 1 MB for the small one
ABLATIONS = {
    "without second order": {"second_order": False},
    "without combiner": {"combiner": False},
    "without recency": {"recency": False},
    "equal memory": {"moving": False},
}
STEP = 100  # rows between two looks at the memory


def memory_of(stream: str) -> tuple[str, str]:
    return MEMORY.get(stream, ("16MB", "1MB"))


def load(stream: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows as everybody gets them, and labels of -1 and +1."""
    from budgetron import datasets

    if stream == "a9a":
        X, y = datasets.load_adult()
        X, positive = X.toarray(), y > 0
    elif stream == "letter":
        X, y = datasets.load_letter()
        numbers = np.unique(y, return_inverse=True)[1]
        positive = numbers < 13
    elif stream in ("usps", "mnist"):
        X, y = datasets.load_usps("train") if stream == "usps" else datasets.load_mnist()
        positive = np.asarray(y).astype(int) % 2 == 0
        if stream == "mnist" and X.max() > 1.0:
            X = X / 255.0
    elif stream == "covertype":
        X, y = datasets.load_covertype()
        positive = np.asarray(y) == 2
        X = np.asarray(X, float)
        X[:, :10] = (X[:, :10] - X[:, :10].mean(axis=0)) / X[:, :10].std(axis=0)
    else:
        X, y = getattr(datasets, f"load_{stream}")()
        positive = np.asarray(y) == np.unique(y)[-1]
        if stream == "spambase":
            X = np.log1p(X)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    order = np.arange(len(X)) if stream == "electricity" else np.random.default_rng(0).permutation(len(X))
    order = order[: STREAMS[stream]]
    return X[order], np.where(positive[order], 1, -1)


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------------- learners


def ours(memory: str, **parts: bool) -> Callable[..., dict[str, Any]]:
    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        from budgetron import BudgetClassifier
        from budgetron.portfolio import Plan

        class Chosen(BudgetClassifier):
            _plan = Plan(**parts)

        model = Chosen(memory, random_state=0)
        wrong, most, grown, limit = 0, 0, 0, model.memory
        for start in range(0, len(y), STEP):
            rows = X[start : start + STEP].astype(np.float32)
            trace = model.progressive_fit(rows, y[start : start + STEP], classes=[-1, 1])
            wrong += int(trace.mistakes.sum())
            most, grown = max(most, model.nbytes_), max(grown, resident())
        told = [
            {name: value for name, value in expert.items() if name != "class"} for expert in model.experts_
        ]
        return {
            "mistakes": wrong,
            "bytes": most,
            "resident": grown,
            "memory": limit,
            "experts": json.loads(json.dumps(told, default=float)),
            "regret": model.regret_,
            "regret bound": model.regret_bound_,
        }

    return play


def budgetron_alone(
    make: Callable[[np.ndarray], Any], constant: bool = False
) -> Callable[..., dict[str, Any]]:
    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        rows = np.hstack([X, np.ones((len(X), 1))]) if constant else X
        model = make(rows)
        return {"mistakes": int(model.progressive_fit(rows, y).mistakes.sum()), "bytes": model.nbytes_}

    return play


def median_distance(X: np.ndarray) -> float:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, min(len(X), 2000), (2, 2000))
    between = ((X[a] - X[b]) ** 2).sum(axis=1)
    return float(np.median(between[between > 0]))


def random_features(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """500 random Fourier features at the median width, and AROW with a full covariance over them."""
    from sklearn.kernel_approximation import RBFSampler

    from budgetron.linear import AROW

    sampler = RBFSampler(gamma=2.0 / median_distance(X[:2000]), n_components=500, random_state=0).fit(X[:1])
    model, wrong = AROW(), 0
    for start in range(0, len(y), 1000):
        rows = np.hstack(
            [sampler.transform(X[start : start + 1000]), np.ones((len(X[start : start + 1000]), 1))]
        )
        wrong += int(model.progressive_fit(rows, y[start : start + 1000], classes=[-1, 1]).mistakes.sum())
    return {"mistakes": wrong, "bytes": model.nbytes_ + sampler.random_weights_.nbytes}


def river(make: Callable[[Any], Any]) -> Callable[..., dict[str, Any]]:
    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        library = import_module("river")
        for part in ("forest", "linear_model", "neighbors", "preprocessing", "tree"):
            import_module(f"river.{part}")
        model, wrong = make(library), 0
        for row, label in zip(X, (y > 0).tolist(), strict=True):
            x = dict(enumerate(row.tolist()))
            wrong += model.predict_one(x) != label
            model.learn_one(x, label)
        return {"mistakes": wrong, "resident": resident()}

    return play


def scikit(make: Callable[[], Any]) -> Callable[..., dict[str, Any]]:
    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        from sklearn.preprocessing import StandardScaler

        model, scaler, wrong = make(), StandardScaler(), 0
        for start in range(0, len(y), 10):
            rows, labels = X[start : start + 10], y[start : start + 10]
            if start:
                wrong += int((model.predict(scaler.transform(rows)) != labels).sum())
            else:
                wrong += len(labels) // 2
            scaler.partial_fit(rows)
            model.partial_fit(scaler.transform(rows), labels, classes=[-1, 1])
        return {"mistakes": wrong}

    return play


def learners(stream: str) -> dict[str, Callable[..., dict[str, Any]]]:
    """Who plays a stream, by name."""
    large, small = memory_of(stream)
    made: dict[str, Callable[..., dict[str, Any]]] = {
        f"ours, {large}": ours(large),
        f"ours, {small}": ours(small),
    }
    if stream in ("letter", "covertype"):
        made["ours, 64MB"] = ours("64MB")
    made |= {f"ours, {large}, {name}": ours(large, **parts) for name, parts in ABLATIONS.items()}

    def second(X: np.ndarray) -> Any:
        from budgetron import SecondOrderProjectron

        return SecondOrderProjectron(300, gamma=2.0 / median_distance(X))

    def arow(X: np.ndarray) -> Any:
        from budgetron.linear import AROW

        return AROW()

    made |= {
        "SecondOrderProjectron(300)": budgetron_alone(second),
        "linear.AROW": budgetron_alone(arow, constant=True),
        "random features + AROW": random_features,
        "river logistic regression": river(
            lambda r: r.preprocessing.StandardScaler() | r.linear_model.LogisticRegression()
        ),
        "river passive-aggressive": river(
            lambda r: r.preprocessing.StandardScaler() | r.linear_model.PAClassifier()
        ),
        "river adaptive tree": river(lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
        "river nearest neighbours": river(
            lambda r: r.preprocessing.StandardScaler() | r.neighbors.KNNClassifier()
        ),
        "river ARF, 10 trees": river(lambda r: r.forest.ARFClassifier(n_models=10, seed=0)),
        "river AMF, 10 trees": river(lambda r: r.forest.AMFClassifier(n_estimators=10, seed=0)),
        "scikit-learn SGD, logistic": scikit(_sgd),
    }
    return made


def _sgd() -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="log_loss", random_state=0)


# ---------------------------------------------------------------------- runs


def one(stream: str, name: str) -> None:
    """Play one stream with one learner, in this process, and print the result."""
    from threadpoolctl import threadpool_limits

    X, y = load(stream)
    play = learners(stream)[name]
    with threadpool_limits(1):
        play(X[:20], y[:20])  # imports, and what a library keeps for itself
        before, start = resident(), time.perf_counter()
        result = play(X, y)
        seconds = time.perf_counter() - start
    result |= {"rows": len(y), "seconds": seconds}
    if "resident" in result:
        result["growth"] = result.pop("resident") - before
    print(json.dumps(result))


def pending(
    only: list[str], who: tuple[str, ...], again: str | None, results: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    for stream in STREAMS:
        if only and stream not in only:
            continue
        for name in learners(stream):
            known = name in results.get(stream, {})
            if not name.startswith(who):
                continue
            if not known or (again is not None and name.startswith(again)):
                yield stream, name


def measure(only: list[str], who: tuple[str, ...], again: str | None, limit: float) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = list(pending(only, who, again, results))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=len(todo))
        for stream, name in todo:
            bar.update(task, description=f"{stream}: {name}")
            command = [sys.executable, __file__, "--one", stream, name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
                if done.returncode:
                    sys.exit(f"{stream}, {name}:\n{done.stderr}")
                result = json.loads(done.stdout.strip().split("\n")[-1])
            except subprocess.TimeoutExpired:
                result = {"stopped after": limit}
            results.setdefault(stream, {})[name] = result
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            draft = RESULTS.with_suffix(".part")
            draft.write_text(json.dumps(results, indent=1))
            draft.replace(RESULTS)
            bar.advance(task)


# ---------------------------------------------------------------------- the page


def error(result: dict[str, Any] | None) -> float | None:
    return None if not result or "mistakes" not in result else 100.0 * result["mistakes"] / result["rows"]


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page() -> str:
    results = json.loads(RESULTS.read_text())
    streams = [stream for stream in STREAMS if stream in results]
    rivals = [name for name in learners("a9a") if not name.startswith(("ours", "SecondOrder", "linear."))]
    alone = ["SecondOrderProjectron(300)", "linear.AROW"]

    def cell(stream: str, name: str) -> str:
        return shown(error(results[stream].get(name)))

    def large(stream: str) -> str:
        return f"ours, {memory_of(stream)[0]}"

    main = table(
        ["stream", "rows", "BudgetClassifier", "in 1/16 of the memory*", *alone, *rivals],
        [
            [
                stream,
                f"{STREAMS[stream]:,}",
                f"**{cell(stream, large(stream))}**",
                cell(stream, f"ours, {memory_of(stream)[1]}"),
                *(cell(stream, name) for name in (*alone, *rivals)),
            ]
            for stream in streams
        ],
    )
    parts = table(
        ["stream", "all parts", *ABLATIONS],
        [
            [
                stream,
                cell(stream, large(stream)),
                *(cell(stream, f"{large(stream)}, {name}") for name in ABLATIONS),
            ]
            for stream in streams
        ],
    )
    costs = []
    for stream in streams:
        result = results[stream].get(large(stream))
        if not result or "seconds" not in result:
            continue
        forest = results[stream].get("river ARF, 10 trees") or {}
        ratio = forest["seconds"] / result["seconds"] if "seconds" in forest else None
        costs.append(
            [
                stream,
                f"{1e6 * result['seconds'] / result['rows']:.0f}",
                "" if ratio is None else f"{ratio:.1f}",
                f"{result['bytes'] / 2**20:.2f} of {result['memory']}",
                f"{result['growth'] / 2**20:.1f}",
                f"{result['regret']:.0f} of {result['regret bound']:.0f}",
            ]
        )
    cost = table(
        [
            "stream",
            "us a row",
            "times ARF's rows a second",
            "most bytes, MB",
            "process grew by, MB",
            "regret, and its bound",
        ],
        costs,
    )
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
        for expert in results[stream].get(large(stream), {}).get("experts", [])
        if expert["active"]
    ]
    more = ", ".join(
        f"{stream} {cell(stream, 'ours, 64MB')} %" for stream in ("letter", "covertype") if stream in streams
    )
    return TEMPLATE.format(
        main=main,
        parts=parts,
        cost=cost,
        more=more,
        inside=table(["stream", "expert at the end", "error %", "share", "supports", "MB"], inside),
    )


TEMPLATE = """# Quality

Mistakes in percent, each row predicted before it is learned, in one pass. Written by `benchmarks/quality.py`
from `docs/quality/results.json`; every learner has its library's own settings, and nothing was tuned to a
stream. Rows are the first after `np.random.default_rng(0).permutation(n)`, electricity in order of time;
mnist's pixels by 255, spambase's features by log1p, covertype's ten quantities standardised.

![Mistakes on each stream](quality/errors.png)

{main}
\\* 16 MB and 1 MB; for mnist 64 MB and 8 MB. With 64 MB: {more}.

## What each part is good for

The same with one part left out: without second-order experts; without the combiner, by exponential weights
alone; without recency, which is passive-aggressive experts and the labels of late; and with equal shares of
the memory for all experts to the end.

{parts}
## What it costs

One thread. ARF is river's adaptive random forest of 10 trees on the same machine in the same run.

{cost}
## What is inside

{inside}"""


def plot() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = json.loads(RESULTS.read_text())
    streams = [stream for stream in STREAMS if stream in results]
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for i, stream in enumerate(streams):
        values = {name: error(result) for name, result in results[stream].items()}
        rivals = [v for n, v in values.items() if v is not None and not n.startswith("ours")]
        axes.scatter([i] * len(rivals), rivals, color="0.65", s=22, label="others" if i == 0 else None)
        large, small = (values.get(f"ours, {memory}") for memory in memory_of(stream))
        if small is not None:
            axes.scatter(
                [i], [small], marker="D", color="tab:orange", s=34, label="ours, 1 MB" if i == 0 else None
            )
        if large is not None:
            axes.scatter(
                [i], [large], marker="D", color="tab:red", s=44, label="ours, 16 MB" if i == 0 else None
            )
    axes.set_yscale("log")
    ticks = [2, 3, 5, 10, 20, 40]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(streams)), streams)
    axes.set_ylabel("mistakes, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS.parent / "errors.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], choices=list(STREAMS))
    parser.add_argument("--who", nargs="*", default=[""], help="the beginnings of the names of learners")
    parser.add_argument("--again", help="the beginning of the names of learners to measure again")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one learner on one stream")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(*given.one)
        return
    if not given.page:
        measure(given.only, tuple(given.who), given.again, given.limit)
    plot()
    (ROOT / "docs" / "quality.md").write_text(page())


if __name__ == "__main__":
    main()
