"""Compare reading messy tables without options and with the best options chosen by hand:

    python benchmarks/messy_files.py

The tables are those of `tests/messy.py`. The rules for columns were chosen on the table `orders` with seed 0,
which is not measured here. For each of the other seeds, linear.AROW learns each table without options, and
with each set of options below. The best set is the one with the fewest mistakes on the same rows, so that it
has an advantage. Writes docs/real-files/results.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from budgetron import evaluate, linear, streams

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import messy

RESULTS = Path(__file__).parents[1] / "docs" / "real-files" / "results.json"

# Of each table: the target, the columns that say nothing about it, and further columns to try.
TABLES: dict[str, tuple[str, list[str], list[dict[str, object]]]] = {
    "orders": (
        "returned",
        ["transaction_id", "birth_date", "note"],
        [{"categorical": ["channel", "member", "zip", "merchant", "comment"]}],
    ),
    "sensors": (
        "Ausschuss",
        ["Messung-Nr.", "Kennung", "Bemerkung"],
        [{"ignore": ["Messung-Nr.", "Kennung", "Bemerkung", "Zeitpunkt"]}, {"decimal": ","}],
    ),
    "visits": (
        "bought",
        ["sessionId", "epoch_ms", "plan", "score"],
        [
            {"ignore": ["sessionId", "started", "plan", "score"]},
            {"ignore": ["sessionId", "started", "epoch_ms", "plan", "score"]},
            {"numeric": ["customer_id"]},
        ],
    ),
}
ENCODINGS: list[dict[str, object]] = [
    {},
    {"encode": "onehot"},
    {"encode": "hash"},
    {"hash_columns": 64},
    {"hash_columns": 512},
    {"hash_columns": 2048},
]


def error(path: Path, target: str, options: dict[str, object]) -> float:
    """Return the error in percent with these options."""
    stream = streams.read(path, target, **options)  # type: ignore[arg-type]  # of different types
    return 100.0 * evaluate.progressive(linear.AROW(), stream).error_rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    results: list[dict[str, str | int | float]] = []
    print(f"{'table':8} {'seed':>4} {'no options':>11} {'best':>6} {'difference':>11}  best options")
    with tempfile.TemporaryDirectory() as folder:
        for table, (target, useless, others) in TABLES.items():
            for seed in options.seeds:
                path = messy.write(Path(folder) / f"{table}.csv", options.rows, seed, table)
                plain = error(path, target, {})
                tried = [{"ignore": useless} | encoding for encoding in ENCODINGS]
                tried += [{"ignore": useless} | other for other in others]
                errors = [error(path, target, one) for one in tried]
                best = min(errors)
                results.append({"table": table, "seed": seed, "plain": plain, "best": best})
                chosen = {k: v for k, v in tried[errors.index(best)].items() if k != "ignore" or v != useless}
                print(
                    f"{table:8} {seed:4} {plain:11.2f} {best:6.2f} {plain - best:11.2f}  {chosen}", flush=True
                )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
