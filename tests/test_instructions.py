"""What work costs, in instructions: a guard against changes that make it dearer.

Instructions are counted by Valgrind (see `instructions.py`), so that no clock and no other program
has a say. How many they are depends on the processor and the compiler; what is held here are ratios
within one run, of two pieces of work that a change for the worse would part.

`python tests/test_instructions.py` shows what every ratio is now, beside its limit. Where the code has
become better, put the limit down; where it must become dearer, put it up, and say why.
"""

import sys
import tempfile
from dataclasses import dataclass

import pytest
from instructions import count, why_not


@dataclass(frozen=True)
class Ratio:
    """The cost of one piece may be that of another, times `limit`."""

    piece: str
    other: str
    limit: float
    why: str  # which change for the worse would exceed it
    calls: bool = False  # of the calls as such, not of the rounds

    def measured(self, rounds, calls):
        costs = calls if self.calls else rounds
        return costs[self.piece] / costs[self.other]


# Limits are some 25 % above the most that was measured (CPython 3.11, and 3.13 without the
# interpreter's lock); nearer where a growth is known to be linear.
LIMITS = [
    Ratio(
        "dense",
        "products",
        2.8,
        "A batch is its matrix products and little more: with rows or products done twice, inner "
        "products of a block computed round by round, or exponentials one at a time, it is more.",
    ),
    Ratio(
        "dense, more rounds",
        "dense",
        2.15,
        "Twice the rounds cost twice as much: not if anything is done to the whole batch in every block.",
    ),
    Ratio(
        "dense, twice the budget",
        "dense",
        2.1,
        "A round is linear in the budget: not if it looks at pairs of supports.",
    ),
    Ratio(
        "dense, Forgetron",
        "dense",
        1.3,
        "Forgetting needs no kernel row of its own: f at the oldest support is kept, not computed.",
    ),
    Ratio(
        "dense, decided",
        "dense",
        0.91,
        "To predict is less than to learn: not if prediction leaves the blocks.",
    ),
    Ratio(
        "plane",
        "dense",
        0.64,
        "With two features exponentials are most of a round: it nears the one with 32 if they are no "
        "longer taken several at a time.",
    ),
    Ratio(
        "small",
        "small, played",
        0.57,
        "The rounds of a batch run without the interpreter: not if a row of it is touched in Python.",
    ),
    Ratio(
        "small, played",
        "small, NumPy",
        1.0,
        "A single round is one call, checks included, about as cheap as a product of two small arrays in "
        "NumPy: not if it is validated in Python, or makes arrays.",
    ),
    Ratio(
        "Adult",
        "Adult, dense",
        1.0,
        "Sparse rows cost less than the same rows as an array, whose zeros are at least looked at: not if "
        "they are made dense.",
    ),
    Ratio(
        "Adult, linear, 12300 features",
        "Adult, linear, 123 features",
        1.0,
        "Linear learners pay for the features that are not 0: not if they touch all weights in a round.",
    ),
    Ratio(
        "Projectron, 150 supports",
        "Projectron, 75 supports",
        2.9,
        "A projection is at most quadratic in the supports: not if the factor is made anew.",
    ),
    Ratio(
        "10 classes",
        "2 classes",
        7.0,
        "Ten classes share their kernel values: not if each compares the rows for itself.",
    ),
    Ratio(
        "dense",
        "dense, decided",
        3.0,
        "A call to learn costs what one to predict does, and about as much again for labels and "
        "parameters: not if the model is copied for fear of an error.",
        calls=True,
    ),
]


@pytest.mark.skipif(why_not() is not None, reason=f"instructions cannot be counted: {why_not()}")
def test_no_work_has_become_dearer(tmp_path):
    rounds, calls = count(tmp_path)
    broken = [
        f"{ratio.piece} / {ratio.other}: {found:.3f}, and the limit is {ratio.limit}. {ratio.why}"
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
