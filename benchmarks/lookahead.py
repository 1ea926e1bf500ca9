"""Learning by batches against the machine's own limit and against single rounds.

All figures are ratios within this run, on one thread. The limit is the matrix product
that the kernel values of a batch need, (rounds x d) times (d x budget), measured in the
same process in blocks that stay in the cache. Single rounds are ours (`play`) and those of
plain NumPy: the row's product with the supports, the exponential, the sum.

How many times faster than `play` a batch can be depends on how fast the slab is read: where
a large third-level cache holds it, one row's product is not slow either.

    python benchmarks/lookahead.py
"""

import argparse
import time

import numpy as np
from scipy.linalg.blas import dgemm, sgemm
from threadpoolctl import threadpool_limits

import budgetron


def adult_like(n, rng):
    """Rows shaped like a9a: 14 ones among 123 features, labels hard to learn."""
    X = np.zeros((n, 123))
    X[np.arange(n)[:, None], rng.integers(0, 123, size=(n, 14))] = 1.0
    return X, np.where(X @ rng.normal(size=123) + 2 * rng.normal(size=n) > 0, 1, -1)


def flat(n, rng):
    """Two noisy Gaussians in the plane."""
    y = rng.choice([-1, 1], n)
    X = y[:, None] + rng.normal(size=(n, 2)) * np.sqrt([0.2, 2.0])
    return X, np.where(rng.random(n) < 0.1, -y, y)


def best(function, repeat):
    """The shortest of several times: what the machine can do when left alone."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def gemm_rate(dtype, rows, d, budget, repeat, block=128):
    """Rounds a second, if the matrix product were all."""
    gemm = dgemm if dtype == np.float64 else sgemm
    rng = np.random.default_rng(0)
    supports = np.asfortranarray(rng.normal(size=(d, budget)).astype(dtype))
    X = np.asfortranarray(rng.normal(size=(d, block)).astype(dtype))
    out = np.zeros((budget, block), dtype, order="F")
    calls = max(1, rows // block)

    def product():
        for _ in range(calls):
            gemm(1.0, supports, X, trans_a=True, c=out, overwrite_c=True)

    return calls * block / best(product, repeat)


def numpy_rate(dtype, d, budget, repeat):
    """Rounds a second of a row loop in NumPy, without any update."""
    rng = np.random.default_rng(0)
    supports, coef = rng.normal(size=(budget, d)).astype(dtype), rng.normal(size=budget).astype(dtype)
    squares, rows = np.einsum("ij,ij->i", supports, supports), rng.normal(size=(500, d)).astype(dtype)

    def loop():
        for x in rows:
            np.exp(0.1 * (2 * (supports @ x) - squares - x @ x)) @ coef

    return len(rows) / best(loop, repeat)


def learning_rate(model, X, y, warm, repeat):
    """Rounds a second by batches once the budget is full, and row by row."""
    model.partial_fit(X[:warm], y[:warm], classes=[-1, 1])
    assert model.n_support_ == model.budget, "the budget is not full yet: warm up for longer"
    rest, labels = X[warm:], y[warm:]
    batches = len(rest) / best(lambda: model.partial_fit(rest, labels), repeat)
    some = range(min(2000, len(rest)))

    def play():
        for i in some:
            model.play(rest[i], labels[i])

    return batches, len(some) / best(play, repeat)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    n, repeat = options.rounds, options.repeat
    header = ("GEMM/s", "batch/s", "play/s", "NumPy/s", "of GEMM", "of play", "of NumPy")
    print(f"{'stream':<20}{'learner':<28}" + "".join(f"{name:>10}" for name in header))
    with threadpool_limits(1):
        for stream, warm, d, budget, gamma in (
            (adult_like, 8000, 123, 1500, 0.02),
            (flat, 8000, 2, 500, 1.0),
        ):
            X, y = stream(n + warm, rng)
            for dtype in (np.float64, np.float32):
                limit = gemm_rate(dtype, n, d, budget, repeat)
                rows = numpy_rate(dtype, d, budget, repeat)
                for model in (
                    budgetron.Forgetron(budget, gamma=gamma),
                    budgetron.RandomizedBudgetPerceptron(budget, gamma=gamma, random_state=0),
                ):
                    batch, play = learning_rate(model, X.astype(dtype), y, warm, repeat)
                    print(
                        f"{stream.__name__ + ' ' + np.dtype(dtype).name:<20}{type(model).__name__:<28}"
                        f"{limit:>10.0f}{batch:>10.0f}{play:>10.0f}{rows:>10.0f}"
                        f"{batch / limit:>10.0%}{batch / play:>9.1f}x{batch / rows:>9.1f}x"
                    )


if __name__ == "__main__":
    main()
