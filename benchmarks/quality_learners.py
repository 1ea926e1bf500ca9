"""The learners that play the streams: BudgetClassifier, versions without one part, its experts, rivals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quality_rivals import RIVALS, Player, median_distance, resident
from quality_streams import CHANGING, STREAMS

__all__ = ["ABLATIONS", "ALONE", "LARGER", "learners", "memory_of", "ours_name"]

MEMORY = {"mnist": ("64MB", "8MB")}  # large and small memory; 16 MB and 1 MB for the other data sets
LARGER = ("letter", "covertype")  # streams that are played with 64 MB, too


@dataclass(frozen=True)
class Ablation:
    """A version of BudgetClassifier: the fields of its `Plan` that differ, and a description for the page."""

    fields: dict[str, Any]
    about: str


ABLATIONS = {
    "without second order": Ablation({"second_order": False}, "no second-order experts"),
    "without recency": Ablation({"recency": False}, "no kernel PA, and no recent labels for the combiners"),
    "without relevance": Ablation({"relevance": False}, "no learned feature scales"),
    "without forgetting": Ablation({"forgetting": False}, "no combiner and no linear expert that forgets"),
    "without fixed share": Ablation({"sharing": False}, "weights of the vote that are not shared"),
    "without restarts": Ablation({"restarts": False}, "no new experts after a change and at doubling times"),
    "equal memory": Ablation(
        {"reassigns_memory": False}, "equal shares of the memory for all experts until the end"
    ),
}
# For many classes only: all experts of a class have supports of their own.
NO_SHARED_SPAN = "without shared span"
STEP = 100  # rows between two measurements of the memory
WIDTHS = (0.5, 2.0, 8.0, 32.0)
# Single experts on unscaled rows. Kernel widths are relative to the median squared distance of first rows.
ALONE = {
    **{f"SecondOrderProjectron(300), width {width:g}": ("second", width) for width in WIDTHS},
    **{f"PassiveAggressive(budget=1000), width {width:g}": ("recent", width) for width in WIDTHS},
    "linear.AROW()": ("AROW", 0.0),
    "linear.PassiveAggressive()": ("PA", 0.0),
}


def memory_of(stream: str) -> tuple[str, str]:
    """Return the large and the small memory of BudgetClassifier on a stream."""
    return MEMORY.get(STREAMS[stream].data, ("16MB", "1MB"))


def ours_name(stream: str, which: int = 0, ablation: str = "") -> str:
    """Return the name in the results of BudgetClassifier with large (0) or small (1) memory."""
    return f"ours, {memory_of(stream)[which]}" + (f", {ablation}" if ablation else "")


def ours(memory: str, copies: int = 0, **fields: Any) -> Player:
    """Return a player for BudgetClassifier; the memory use of one model is measured with `copies` models."""

    def play(X: np.ndarray, y: np.ndarray, limit: float = math.inf, number: int = 1) -> dict[str, Any]:
        from budgetron import BudgetClassifier
        from budgetron.portfolio import Plan

        class Chosen(BudgetClassifier):
            _plan = Plan(**fields)

        models, classes = [Chosen(memory, random_state=0) for _ in range(number)], np.unique(y)
        wrong, largest, resident_size, model = 0, 0, 0, models[0]
        for start in range(0, len(y), STEP):
            rows = X[start : start + STEP].astype(np.float32)
            for each in models:
                trace = each.progressive_fit(rows, y[start : start + STEP], classes=classes)
            wrong += int(trace.mistakes.sum())
            largest, resident_size = max(largest, model.nbytes_), max(resident_size, resident())
        result = {
            "model": models,
            "mistakes": wrong,
            "bytes": largest,
            "resident": resident_size,
            "memory": memory,
            "regret": model.regret_,
            "regret bound": model.regret_bound_,
        }
        result["experts"] = json.loads(json.dumps(model.experts_, default=float))
        return result

    play.copies = copies
    return play


def one_per_class(memory: str) -> Player:
    """Return a player with a BudgetClassifier for each class, in equal parts of the memory."""

    def play(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
        from budgetron import BudgetClassifier

        classes = np.unique(y)
        part = int(memory.removesuffix("MB")) * 2**20 // len(classes)
        models, wrong = [BudgetClassifier(part, random_state=0) for _ in classes], 0
        for start in range(0, len(y), STEP):
            rows, labels = X[start : start + STEP].astype(np.float32), y[start : start + STEP]
            traces = [
                model.progressive_fit(rows, labels == c, classes=[False, True])
                for model, c in zip(models, classes, strict=True)
            ]
            margins = np.column_stack([trace.margins for trace in traces])
            wrong += int((classes[margins.argmax(axis=1)] != labels).sum())
        return {"mistakes": wrong, "bytes": sum(model.nbytes_ for model in models), "memory": memory}

    return play


def alone(kind: str, width: float) -> Player:
    """Return a player for a single expert."""

    def play(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
        import budgetron
        from budgetron import linear

        if kind in ("AROW", "PA"):
            rows = np.hstack([X, np.ones((len(X), 1))])
            make = linear.AROW if kind == "AROW" else linear.PassiveAggressive
            model: Any = make(fit_intercept=False)  # the rows have a constant feature
        else:
            rows, gamma = X, width / median_distance(X[:2000])
            if kind == "second":
                model = budgetron.SecondOrderProjectron(300, gamma=gamma)
            else:
                model = budgetron.PassiveAggressive(budget=1000, gamma=gamma)
        return {"mistakes": int(model.progressive_fit(rows, y).mistakes.sum()), "bytes": model.nbytes_}

    return play


def learners(stream: str, seed: int = 0) -> dict[str, Player]:
    """Return the players of a stream by name. Ablations and single experts play the first seed only."""
    large, small = memory_of(stream)
    players = {ours_name(stream): ours(large, 2), ours_name(stream, 1): ours(small, 8)}
    if seed == 0:
        if stream in LARGER:
            players["ours, 64MB"] = ours("64MB", 2)
        players |= {
            ours_name(stream, 0, name): ours(large, **ablation.fields) for name, ablation in ABLATIONS.items()
        }
        if STREAMS[stream].group == "many classes":
            players[ours_name(stream, 0, NO_SHARED_SPAN)] = one_per_class(large)
        players |= {name: alone(kind, width) for name, (kind, width) in ALONE.items()}
    return players if stream == CHANGING else players | RIVALS
