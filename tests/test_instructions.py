"""The cost of work in instructions: tests that fail when a change makes it more expensive.

Instructions are counted by Valgrind (see `instructions.py`), so that the results do not depend on the load of
the machine. The numbers depend on the processor and the compiler, so the tests compare two pieces of work
within one run.

`python tests/test_instructions.py` prints each ratio and its limit. After an improvement, lower the limit. If
work must become more expensive, raise the limit and say why.
"""

import sys
import tempfile
from dataclasses import dataclass

import pytest
from instructions import count, why_not


@dataclass(frozen=True)
class Ratio:
    """One piece may cost at most `limit` times as much as another."""

    piece: str
    other: str
    limit: float
    why: str  # which mistake would exceed the limit
    calls: bool = False  # whether to compare the costs of calls instead of rounds

    def measured(self, rounds, calls):
        costs = calls if self.calls else rounds
        return costs[self.piece] / costs[self.other]


# Limits are about 25 % above the largest measured ratio (CPython 3.11, and 3.13 without the interpreter
# lock), and closer where the growth is known to be linear.
LIMITS = [
    Ratio(
        "dense",
        "products",
        2.8,
        "A batch costs little more than its matrix products. Exceeded if rows or products are computed "
        "twice, inner products round by round, or exponentials one at a time.",
    ),
    Ratio(
        "dense, more rounds",
        "dense",
        2.15,
        "Twice the rounds cost twice as much. Exceeded if each block does work on the whole batch.",
    ),
    Ratio(
        "dense, twice the budget",
        "dense",
        2.1,
        "A round is linear in the budget. Exceeded if it visits pairs of supports.",
    ),
    Ratio(
        "dense, Forgetron",
        "dense",
        1.3,
        "Removing a support needs no kernel row: f at the oldest support is stored. Exceeded if it is "
        "computed.",
    ),
    Ratio(
        "dense, decided",
        "dense",
        0.91,
        "Prediction costs less than learning. Exceeded if it does not use blocks.",
    ),
    Ratio(
        "plane",
        "dense",
        0.64,
        "With two features, a round is mostly exponentials. Exceeded if they are computed one at a time.",
    ),
    Ratio(
        "small",
        "small, played",
        0.57,
        "The rounds of a batch run without the interpreter. Exceeded if Python code runs for each row.",
    ),
    Ratio(
        "small, played",
        "small, NumPy",
        1.0,
        "A single round, checks included, costs about as much as a product of two small arrays in NumPy. "
        "Exceeded if it is validated in Python, or allocates arrays.",
    ),
    Ratio(
        "Adult",
        "Adult, dense",
        1.0,
        "Sparse rows cost less than the same rows as an array, whose zeros must be read. Exceeded if they "
        "are made dense.",
    ),
    Ratio(
        "Adult, linear, 12300 features",
        "Adult, linear, 123 features",
        1.0,
        "Linear learners only visit features that are not 0. Exceeded if they visit all weights in a round.",
    ),
    Ratio(
        "Projectron, 150 supports",
        "Projectron, 75 supports",
        2.9,
        "A projection is at most quadratic in the supports. Exceeded if the factor is computed again.",
    ),
    Ratio(
        "10 classes",
        "2 classes",
        7.0,
        "Ten classes share their kernel values. Exceeded if each class computes its own.",
    ),
    Ratio(
        "dense",
        "dense, decided",
        3.0,
        "A call to learn costs as much as a call to predict, and about as much again for labels and "
        "parameters. Exceeded if the model is copied in case of an error.",
        calls=True,
    ),
]


@pytest.mark.skipif(why_not() is not None, reason=f"instructions cannot be counted: {why_not()}")
def test_no_work_has_become_more_expensive(tmp_path):
    rounds, calls = count(tmp_path)
    broken = [
        f"{ratio.piece} / {ratio.other}: {found:.3f}, above the limit {ratio.limit}. {ratio.why}"
        for ratio in LIMITS
        if not (found := ratio.measured(rounds, calls)) <= ratio.limit
    ]
    assert not broken, "\n".join(broken)


def main():
    if why_not() is not None:
        sys.exit(f"instructions cannot be counted: {why_not()}")
    with tempfile.TemporaryDirectory() as folder:
        rounds, calls = count(folder)
    print("measured   limit  of it")
    for ratio in LIMITS:
        found = ratio.measured(rounds, calls)
        what = f"{ratio.piece} / {ratio.other}" + (" (calls)" if ratio.calls else "")
        print(f"{found:8.3f} {ratio.limit:7} {found / ratio.limit:5.0%}  {what}")


if __name__ == "__main__":
    main()
