"""Zero-sum games against linear programming, and the gap as a certificate."""

import numpy as np
import pytest
from reference import games as reference
from scipy.optimize import linprog
from scipy.sparse import csr_array

from budgetron.games import solve


def value_by_linear_programming(M):
    """Return the smallest v such that some row strategy pays at most v against every column."""
    m, n = M.shape
    result = linprog(
        np.r_[np.zeros(m), 1.0],
        A_ub=np.hstack([M.T, -np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(m), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    assert result.success
    return result.fun


def assert_strategies(solution, M):
    for strategy in (solution.row, solution.column):
        assert np.all(strategy >= 0)
        assert strategy.sum() == pytest.approx(1.0)
    assert solution.gap == pytest.approx((solution.row @ M).max() - (M @ solution.column).min(), abs=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_random_games(seed):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=rng.integers(1, 61, size=2)) * 10 ** rng.uniform(-2, 2)
    tol = 0.03 * (np.ptp(M) or 1.0)
    solution, value = solve(M, tol=tol), value_by_linear_programming(M)
    assert_strategies(solution, M)
    assert solution.gap <= tol * (1 + 1e-9)
    assert abs(solution.value - value) <= tol
    slack = 1e-7 * max(1.0, np.abs(M).max())  # accuracy of the linear program
    assert solution.lower - slack <= value <= solution.upper + slack


@pytest.mark.parametrize("seed", range(5))
def test_equals_reference(seed):
    M = np.random.default_rng(seed).normal(size=(6, 4))
    for rounds in (1, 7, 200):
        row, column = reference.play(M.tolist(), rounds)
        solution = solve(M, rounds=rounds)
        np.testing.assert_allclose(solution.row, row, rtol=1e-10)
        np.testing.assert_allclose(solution.column, column, rtol=1e-12)


def test_rock_paper_scissors():
    solution = solve([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], tol=0.01)
    np.testing.assert_allclose(solution.row, 1 / 3, atol=0.02)
    np.testing.assert_allclose(solution.column, 1 / 3, atol=0.02)
    assert abs(solution.value) <= 0.005


def test_rounds_and_bound():
    # The gap is at most R_T / T, and with a known horizon R_T <= sqrt(T log(m) / 2) for losses in [0, 1].
    M = np.random.default_rng(0).random((20, 30))
    for rounds in (1, 10, 100, 1000):
        solution = solve(M, rounds=rounds)
        assert solution.rounds == rounds
        assert solution.gap <= np.ptp(M) * np.sqrt(np.log(20) / (2 * rounds)) + 1e-12


def test_trivial_games():
    assert solve([[3.0]]).value == 3.0
    assert solve(np.full((4, 5), 2.0), tol=1e-9).value == pytest.approx(2.0)
    # A saddle point: row 0 pays at most 2, column 1 gets at least 2.
    saddle = solve([[1, 2], [0, 5]], rounds=20_000, tol=0.02)
    assert saddle.value == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2],), "shape"),
        ((np.zeros((0, 3)),), "at least one row"),
        (([[np.nan]],), "finite"),
        (([[1.0]], 0), "rounds"),
        (([[1.0]], 1.5), "rounds"),
        (([[1.0]], None, 0.0), "tol"),
    ],
)
def test_bad_games(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(*arguments)


def test_bad_types_and_sparse_games():
    with pytest.raises(ValueError, match="tol must be above 0; got 'a'"):
        solve([[1.0, 2.0]], tol="a")
    with pytest.raises(ValueError, match="the differences of its entries"):
        solve([[1e308, -1e308]])
    assert solve(csr_array([[0.0, 1.0], [1.0, 0.0]]), tol=0.1).gap <= 0.1
