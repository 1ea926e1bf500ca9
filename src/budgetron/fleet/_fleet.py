"""`Fleet`: one small model per key, for thousands to millions of keys."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval

from budgetron._base.access import checked_rows, open_batch
from budgetron._base.batches import Batch, predicted_codes
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.large_values import name_large_value
from budgetron._base.parameters import Constraints
from budgetron._core.kernel_fleet import KernelFleet
from budgetron._util.checks import MOST_ROUNDS
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.types import Floats, Labels, Matrix, Rows
from budgetron.fleet._certificate import KeyCertificate
from budgetron.fleet._common import CommonLearner
from budgetron.fleet._division import DivisibleFleet
from budgetron.fleet._keys import checked_key, checked_keys, is_text
from budgetron.fleet._learners import Learner, check_started
from budgetron.kernelized import Forgetron

__all__ = ["Fleet"]


class Fleet(DivisibleFleet):
    """Many learners of one kind, one for each key, in one structure of arrays.

    Use it for one small model per customer, device or merchant. Each key learns exactly as a learner of its
    own would that sees only the rows of this key. A fleet takes an eighth of the memory of as many estimators
    and is many times as fast, because its keys have no Python objects. It learns two classes.

    Parameters
    ----------
    learner : estimator
        The learner of each key, before its first round: `KernelPerceptron`, `RemoveOldestPerceptron`,
        `Forgetron` (self-tuned), `RandomizedBudgetPerceptron` (original), `linear.Perceptron`,
        `linear.PassiveAggressive` or `linear.AROW`. With ``gamma="scale"``, the first batch of the fleet
        decides for all keys. With `random_state`, the random numbers of all keys start with the same seed.
    memory : int or str, default=None
        The largest number of bytes, or text like "64MB", for all keys together. The supports of all keys are
        then one pool. When it is full, the key that benefits least from its supports loses one; see *One
        memory for many models* in the documentation. The budget of the learner is the most that one key may
        have. For kernel learners with a budget. By default there is no limit.
    common : estimator, default=None
        A kernel learner with a budget that learns the rows of all keys, for keys with few rows of their own.
        Its margin, divided by the square root of its number of supports, is added to that of each key, and
        the key learns from the mistakes of the sum. See *One memory for many models* in
        the documentation.
    idle : int, default=None
        A key is forgotten if none of the last `idle` rows of the fleet was its own. By default no key is
        forgotten.
    random_state : int, default=0
        Seed of the samples by which a fleet with `memory` chooses which key loses a support.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes.
    n_features_in_ : int
        Number of features.
    keys_ : ndarray of shape (n_keys,)
        The keys: integers, or texts as Python objects.
    rows_ : int
        Rows that all keys have learned.
    expired_ : int
        Keys that were forgotten.
    evicted_ : int
        Supports that were removed because the memory was full.
    nbytes_ : int
        Bytes of all numbers that the fleet keeps.

    Notes
    -----
    Cost per row: that of a single round of the learner, and the copy of its state. Memory per key, with m
    supports of d features in numbers of s bytes: 110 bytes, and m (16 + s + s d) bytes, for the Forgetron 8 m
    more, for kernels other than "rbf" and "laplacian" 8 m more, for the RandomizedBudgetPerceptron 24 more. A
    linear learner takes 80 bytes and its weights and variances. Text keys take their bytes and 4 more.

    Several threads may read a fleet at once; predictions wait for each other. While a thread learns, no other
    may use the fleet. For several processes, `split` it.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import Forgetron
    >>> from budgetron.fleet import Fleet
    >>> rng = np.random.default_rng(0)
    >>> keys, X = rng.integers(100, size=5000), rng.normal(size=(5000, 3))
    >>> y = np.where(keys % 2 == 0, X[:, 0], X[:, 1]) > 0
    >>> fleet = Fleet(Forgetron(budget=20, gamma=0.3))
    >>> margins = fleet.play(keys, X, y)
    >>> len(fleet)
    100
    >>> model = fleet[7]
    >>> model.rounds_ == int(np.sum(keys == 7))
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "learner": [BaseEstimator],
        "memory": [Interval(Integral, 1, None, closed="left"), str, None],
        "common": [BaseEstimator, None],
        "idle": [Interval(Integral, 1, MOST_ROUNDS, closed="both"), None],
        "random_state": [Interval(Integral, 0, 2**64 - 1, closed="both")],
    }

    def __init__(
        self,
        learner: Learner,
        *,
        memory: int | str | None = None,
        common: KernelClassifier | None = None,
        idle: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.learner = learner
        self.memory = memory
        self.common = common
        self.idle = idle
        self.random_state = random_state

    # ------------------------------------------------------------------ learning

    def play(self, keys: ArrayLike, X: Rows, y: ArrayLike, classes: ArrayLike | None = None) -> Floats:
        """Play one round per row, in the given order, each with the learner of its key.

        The result does not depend on how the rows are cut into batches.

        Parameters
        ----------
        keys : array-like of shape (n_samples,)
            The key of each row: integers of 64 bits, or texts. A key that is new starts a new learner.
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (2,), optional
            Both labels; needed in the first call if not both occur in y.

        Returns
        -------
        ndarray of shape (n_samples,)
            The margin of each row before its label was seen. `predict` would have returned the second class
            where it was above 0. It is a mistake if it has the wrong sign, or is 0.
        """
        model, batch = self._open(X, y, classes)
        checked = checked_keys(keys, len(batch.codes))
        common, common_batch = self._open_common(batch.X, y, model.classes_)
        store = self._store if self._is_started() else self._new_store(model, is_text(checked), common)
        with name_large_value(batch.X), defer_interrupts():
            margins = store.play(checked, batch, common_batch)
            self._store = store
        return margins

    def partial_fit(self, keys: ArrayLike, X: Rows, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Do what `play` does; return the fleet.

        Parameters
        ----------
        keys, X, y, classes
            As for `play`.

        Returns
        -------
        self
        """
        self.play(keys, X, y, classes)
        return self

    def _open(self, X: Rows, y: ArrayLike, classes: ArrayLike | None) -> tuple[Learner, Batch]:
        """Check the rows and labels of a batch; return the model that keys start as, and the batch."""
        if self._is_started():
            self._check_parameters()
            return self._store.model, open_batch(self._store.model, X, y, classes)
        self._validate_params()
        model: Learner = clone(self.learner)
        batch = open_batch(model, X, y, classes)
        check_started(model)
        return model, batch

    def _open_common(
        self, X: Matrix, y: ArrayLike, classes: Labels
    ) -> tuple[CommonLearner | None, Batch | None]:
        """Return the common learner, and the batch as it takes it; None if there is no such learner."""
        if self.common is None:
            return None, None
        if self._is_started():
            common = self._store.common
            assert common is not None
            return common, open_batch(common.model, X, y, classes)
        model: KernelClassifier = clone(self.common)
        batch = open_batch(model, X, y, classes)
        check_started(model)
        return CommonLearner(model), batch

    # ------------------------------------------------------------------ predictions

    def decision_function(self, keys: ArrayLike, X: Rows) -> Floats:
        """Return the margin of each row by the learner of its key.

        Parameters
        ----------
        keys : array-like of shape (n_samples,)
            The key of each row. A key without rows so far has the margin 0, or that of the common learner.
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        store = self._started()
        rows = checked_rows(store.model, X)
        return store.decide(checked_keys(keys, rows.shape[0]), rows)

    def predict(self, keys: ArrayLike, X: Rows) -> Labels:
        """Return the predicted class of each row by the learner of its key.

        Parameters
        ----------
        keys : array-like of shape (n_samples,)
            The key of each row. For a key without rows so far, the common learner predicts, or if there is
            none, it is the first class.
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = predicted_codes(self.decision_function(keys, X))
        labels: Labels = self.classes_[codes]
        return labels

    # ------------------------------------------------------------------ keys

    def __getitem__(self, key: object) -> Learner:
        """Return the model of a key as an ordinary estimator: a copy, which the fleet does not use.

        With a common learner, it is the part of the margin that the key adds.
        """
        store = self._started()
        number = store.number(checked_key(key))
        if number < 0:
            raise KeyError(key)
        return store.model_of(number)

    def __contains__(self, key: object) -> bool:
        return self._is_started() and self._store.number(checked_key(key)) >= 0

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._store.known_keys()) if self._is_started() else 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys_.tolist() if self._is_started() else [])

    def __bool__(self) -> bool:  # an object like every estimator, also without keys
        return True

    def stats(self) -> dict[str, NDArray[Any]]:
        """Return a table with one row per key: a dict of columns, as pandas, polars and pyarrow accept it.

        Returns
        -------
        dict
            "key"; "rows" and "mistakes", which the key has learned and made; "supports"; "last_seen", the row
            of the fleet that was the key's last, from 0 on; "bytes" that the key takes. For kernel learners
            that shrink their hypothesis also "damage" and "shrinking", the quantities of the key's guarantee.
        """
        store = self._started()
        numbers = store.known_keys()
        counts = store.states.counts(numbers)
        table = {"key": self.keys_} | dict(
            zip(("rows", "mistakes", "last_seen", "supports"), counts.T, strict=True)
        )
        sizes = np.full(len(counts), 8 + store.states.record_bytes)  # 8: the key's place in the index
        if store.index.text:
            sizes += [len(key.encode()) + 4 for key in table["key"].tolist()]
        if isinstance(store.states, KernelFleet):
            sizes += table["supports"] * store.states.support_bytes
            table |= dict(zip(("damage", "shrinking"), store.states.guarantees(numbers).T, strict=True))
        return table | {"bytes": sizes}

    def certificate(self, key: object) -> KeyCertificate:
        """Return what bounds the mistakes of a key; for fleets of `Forgetron`.

        Parameters
        ----------
        key : int or str

        Returns
        -------
        KeyCertificate
        """
        store = self._started()
        if self.common is not None:
            raise ValueError("keys with a common learner learn from mistakes of a sum, and have no guarantee")
        if not isinstance(self.learner, Forgetron):
            raise ValueError(
                f"certificates are for fleets of Forgetron, which shrinks before it removes a support; the "
                f"learner is {type(self.learner).__name__}"
            )
        number = store.number(checked_key(key))
        if number < 0:
            raise KeyError(key)
        place = np.array([number])
        rows, mistakes = store.states.counts(place)[0, :2].tolist()
        assert isinstance(store.states, KernelFleet)
        damage, shrinking = store.states.guarantees(place)[0].tolist()
        return KeyCertificate(store.index.key(number), rows, mistakes, damage, shrinking)
