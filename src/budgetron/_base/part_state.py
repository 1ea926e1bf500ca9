"""The parts of a compiled rule, built from state that comes from outside, after checking it.

The core writes through pointers: a wrong length or index in a state would be a write outside of an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._base.parameters import MOST_SUPPORTS
from budgetron._core.covariance import Covariance, ForgettingCovariance
from budgetron._core.gaussian import Gaussian
from budgetron._core.history import Average, Journal
from budgetron._core.kernel import Kernel
from budgetron._core.projection import Projection
from budgetron._core.supports import Supports
from budgetron._util.checks import (
    State,
    require,
    require_array,
    require_finite,
    require_float,
    require_int,
    require_moderate,
    require_names,
)

__all__ = [
    "average_of",
    "check_errors",
    "check_generator_state",
    "covariance_of",
    "gaussian_of",
    "journal_of",
    "projection_of",
    "slab_of",
]


def slab_of(
    kernel: Kernel,
    state: State,
    capacity: int,
    d: int,
    dtype: np.dtype[Any],
    rounds: int,
    what: str,
    in_order: bool = False,
) -> Supports:
    sparse = isinstance(state, dict) and "starts" in state
    kept = {"starts", "features", "values"} if sparse else {"rows"}
    require_names(state, {*kept, "square", "own", "rounds", "order", "m", "top"}, what)
    if sparse:
        require(kernel.function is None, f"{what} should keep whole rows for a function")
        _check_nonzeros(state, capacity, d, dtype, what)
    else:
        require_finite(
            require_array(state["rows"], dtype, (capacity, d), f"rows of {what}"), f"rows of {what}"
        )
    require_finite(
        require_array(state["square"], dtype, (capacity,), f"squares of {what}"), f"squares of {what}"
    )
    require_finite(
        require_array(state["own"], np.float64, (capacity,), f"self values of {what}"),
        f"self values of {what}",
    )
    require_array(state["rounds"], np.int64, (capacity,), f"rounds of {what}")
    require_array(state["order"], np.int32, (capacity,), f"order of {what}")
    top = require_int(state["top"], 0, capacity, f"top of {what}")
    require_int(state["m"], 0, top, f"supports of {what}")
    slab = Supports(kernel, d, dtype, 0, sparse)
    slab.__setstate__(state)
    try:
        slab.check(rounds, in_order)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return slab


def _check_nonzeros(state: State, capacity: int, d: int, dtype: np.dtype[Any], what: str) -> None:
    """Rows by their non-zeros: each row's features in order."""
    starts = require_array(state["starts"], np.int64, (capacity + 1,), f"starts of {what}")
    features = state["features"]
    require(isinstance(features, np.ndarray) and features.ndim == 1, f"features of {what} should be an array")
    require_array(features, np.int32, (features.size,), f"features of {what}")
    require_finite(
        require_array(state["values"], dtype, (features.size,), f"values of {what}"), f"values of {what}"
    )
    orderly = starts[0] == 0 and np.all(starts[1:] >= starts[:-1]) and starts[-1] == features.size
    require(orderly, f"starts of {what} should follow each other")
    require(np.all((features >= 0) & (features < d)), f"features of {what} should be those of the rows")
    first = np.zeros(features.size + 1, bool)
    first[starts] = True
    require(np.all((features[1:] > features[:-1]) | first[1:-1]), f"features of {what} should be in order")


def projection_of(state: Any, supports: Supports) -> Projection:
    require_names(state, {"factor", "z", "n"}, "the projection")
    capacity = supports.capacity
    factor = require_array(
        state["factor"], np.float64, (capacity * (capacity + 1) // 2,), "factor of the projection"
    )
    require_moderate(factor, 1.0, "factor of the projection")
    require_array(state["z"], np.float64, (capacity,), "z of the projection")
    # Its rows are those of the slots, and none is ever freed.
    require(
        state["n"] == supports.m == supports.top, "the projection should be onto the span of the supports"
    )
    require_int(state["n"], 0, capacity, "size of the projection")
    require(
        np.array_equal(supports.order[: supports.m], np.arange(supports.m)), "slots should be filled in order"
    )
    places = np.arange(supports.m)
    require(np.all(factor[places * (places + 3) // 2] > 0.0), "the factor's diagonal should be above 0")
    # L L' is the Gram matrix. Only its diagonal is checked; this bounds the solutions.
    own = np.ones(supports.m) if supports.kernel.normalized else supports.own[: supports.m]
    used = factor[: supports.m * (supports.m + 1) // 2]
    squares = np.add.reduceat(used**2, places * (places + 1) // 2) if supports.m else own
    require(
        np.allclose(squares, own, rtol=1e-3, atol=0.0), "the factor should be that of the supports' kernel"
    )
    projection = Projection()
    projection.__setstate__(state)
    return projection


def gaussian_of(state: Any, fresh: Gaussian, supports: Supports) -> Gaussian:
    """The Gaussian over functions of these supports; `fresh` is a new one of the same rule."""
    if isinstance(state, dict) and "mean" in state:
        state = _with_one_output(state)
    require_names(state, set(fresh.state()), "the Gaussian")
    for name in ("linear", "scale", "prior"):
        own = getattr(fresh, name)
        require(
            type(state[name]) is type(own) and state[name] == own, f"{name} of the Gaussian is not the rule's"
        )
    d, diagonal = supports.d, state["diagonal"]
    require(state["d"] == d and type(state["d"]) is int, f"the Gaussian should be of {d} features")
    require(type(diagonal) is bool and diagonal <= fresh.linear, "diagonal should be true or false")
    fixed = (1 if diagonal else d + 1) if fresh.linear else 0
    n, capacity = fixed + supports.m, fixed + supports.capacity
    require(type(state["n"]) is int and state["n"] == n, f"the Gaussian should have {n} coordinates")
    require_array(state["sigma"], np.float64, (capacity * (capacity + 1) // 2,), "covariance of the Gaussian")
    require_array(state["spreads"], np.float64, (d if diagonal else 0,), "spreads of the Gaussian")
    prior, outputs = fresh.prior, fresh.outputs
    for name in ("sigma", "spreads"):  # variances are never above the prior's, except by rounding
        require(
            np.all(np.abs(state[name]) < 2.0 * prior), f"{name} of the Gaussian should be at most {prior:g}"
        )
    _check_covariance(state["sigma"], n, prior, "the Gaussian")
    require_array(state["means"], np.float64, (outputs, capacity), "means of the Gaussian")
    require_array(state["slopes"], np.float64, (outputs, d if diagonal else 0), "slopes of the Gaussian")
    for name in ("means", "slopes"):
        require_moderate(state[name], 1.0, f"{name} of the Gaussian")
    gaussian = Gaussian(d, fresh.linear, diagonal, fresh.scale, prior, outputs)
    gaussian.__setstate__(state)
    return gaussian


def _with_one_output(state: State) -> State:
    """Return the state of a Gaussian from files before protocol 5, which had one mean, and the prior 1."""
    rows: State = {}
    for old, name in (("mean", "means"), ("slopes", "slopes")):
        require(isinstance(state.get(old), np.ndarray), f"{old} of the Gaussian should be an array")
        rows[name] = state[old][None].copy()
    return {name: value for name, value in state.items() if name != "mean"} | rows | {"prior": 1.0}


def _check_covariance(sigma: NDArray[np.float64], n: int, prior: float, what: str) -> None:
    """Check that |covariance| is at most the product of the standard deviations."""
    places = np.arange(n)
    variances = sigma[places * (places + 3) // 2] / prior
    require(np.all(variances > -1e-9), f"variances of {what} should not be below 0")
    deviations = np.sqrt(np.maximum(variances, 0.0)) + 1e-6  # what rounding may have made of them
    for i in range(n):
        row = np.abs(sigma[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]) / prior
        require(
            np.all(row <= 1.001 * deviations[i] * deviations[: i + 1]),
            "covariances should be at most the product of the standard deviations",
        )


def check_errors(errors: object, rounds: int) -> None:
    """Check the sum of the normalized squared residuals of a regression, and the sum of their weights."""
    found = require_array(errors, np.float64, (2,), "errors of the regression")
    require_moderate(found, 1.0, "errors of the regression")
    require(
        found[0] >= 0.0 and 0.0 <= found[1] <= rounds, "errors of the regression should be sums of rounds"
    )


def average_of(state: Any, places: int) -> Average:
    if isinstance(state, dict):  # files of earlier versions have no limit
        state = {"limit": 0, "residual": 0.0} | state
    require_names(state, {"lag", "elapsed", "norm2", "own", "limit", "residual"}, "the average")
    require_int(state["limit"], 0, MOST_SUPPORTS, "limit of the average")
    require_array(state["lag"], np.float64, (places,), "lag of the average")
    for name in ("elapsed", "norm2", "own", "residual"):
        require_float(state[name], f"{name} of the average")
    require(state["residual"] >= 0.0, "residual of the average should not be negative")
    average = Average(0)
    average.__setstate__(state)
    return average


def covariance_of(state: Any, fresh: Covariance, d: int) -> Covariance:
    """The covariance of d features; `fresh` is a new one of the same rule."""
    require_names(state, set(fresh.state()), "the covariance")
    require(state["d"] == d and type(state["d"]) is int, f"the covariance should be of {d} features")
    sizes = {"columns": d * (d - 1) // 2, "reductions": d * (d + 1) // 2}
    for name in fresh.arrays():
        what = f"{name} of the covariance"
        require_moderate(require_array(state[name], np.float64, (sizes.get(name, d),), what), 1.0, what)
    if isinstance(fresh, ForgettingCovariance):
        factor = require_float(state["factor"], "factor of the covariance")
        require(0.0 < factor <= 1.0, "factor of the covariance should be above 0 and at most 1")
        places = np.arange(d)
        sigma = -factor * state["reductions"]
        sigma[places * (places + 3) // 2] += fresh.prior
        require(np.all(sigma < 1.001 * fresh.prior), "variances should be at most the prior's")
        _check_covariance(sigma, d, fresh.prior, "the covariance")
    else:
        require(np.all(state["variances"] >= 0.0), "variances should not be below 0")
    covariance = type(fresh)(0, fresh.prior)
    covariance.__setstate__(state)
    return covariance


def journal_of(state: Any, rounds: int, known: NDArray[Any]) -> Journal:
    """The journal of a rule whose places are `known`, sorted."""
    lists = {"rounds": "n", "ends": "n", "scales": "n", "places": "size", "deltas": "size"}
    lists |= {"factor_rounds": "steps", "factors": "steps"}
    require_names(state, {*lists, *lists.values(), "scale"}, "the journal")
    require_float(state["scale"], "scale of the journal")
    rooms: dict[str, int] = {}
    for name, count in lists.items():
        value = state[name]
        require(
            isinstance(value, np.ndarray) and value.size >= 1, f"{name} of the journal should be an array"
        )
        room = rooms.setdefault(count, value.size)
        dtype = np.float64 if name in ("scales", "deltas", "factors") else np.int64
        require_array(value, dtype, (room,), f"{name} of the journal")
        require_int(state[count], 0 if count == "size" else 1, room, f"{count} of the journal")
    # Compared, not subtracted: a difference may overflow to what looks right.
    for name in ("rounds", "factor_rounds"):
        when = state[name][: state[lists[name]]]
        orderly = when[0] == -1 and np.all(when[1:] > when[:-1]) and when[-1] < rounds
        require(orderly, f"{name} of the journal should be rounds, in their order")
    ends = state["ends"][: state["n"]]
    orderly = ends[0] >= 0 and np.all(ends[1:] >= ends[:-1]) and ends[-1] <= state["size"]
    require(orderly, "ends of the journal should follow each other")
    places = state["places"][: state["size"]]
    require(
        np.all(np.isin(places, known)),
        "places of the journal should be known supports or features",
    )
    journal = Journal()
    journal.__setstate__(state)
    return journal


def check_generator_state(bits: Any) -> None:
    require_names(bits, {"bit_generator", "state", "has_uint32", "uinteger"}, "the generator")
    require(bits["bit_generator"] == "PCG64", "the generator should be a PCG64")
    require_names(bits["state"], {"state", "inc"}, "the generator's state")
    require_int(bits["state"]["state"], 0, 2**128 - 1, "state of the generator")
    require_int(bits["state"]["inc"], 1, 2**128 - 1, "step of the generator")
    # An even increment can have a short period, so that rejection sampling might not end.
    require(bits["state"]["inc"] % 2 == 1, "step of the generator should be odd")
    require_int(bits["has_uint32"], 0, 1, "the generator's flag")
    require_int(bits["uinteger"], 0, 2**32 - 1, "the generator's spare number")
