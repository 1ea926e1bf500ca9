"""Random sequences of calls of a river adapter, compared with a loop of `learn_one`."""

import numpy as np
import pandas as pd
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from loop import GAP, TOLERANCE, same_parts
from progress import report_step
from states import COPIES, assert_equal, close, frozen
from ties import is_tie

# Features and labels may be any hashable values.
FEATURES = ["a", "b", 3, ("c", 1), "e"]
LABELS = {
    "text": ["no", "yes", "maybe", "never"],
    "int": [5, 0, 9, 2],
    "bool": [True, False],
    "mixed": ["a", 1, (2, 3), False],
}

# Values of features in different types, all of which are exact.
VALUES = {
    "float": float,
    "numpy float32": np.float32,
    "numpy float64": np.float64,
    "numpy array of no dimensions": np.array,
}
WHOLE_VALUES = {"int": int, "numpy int": np.int16, "bool": bool}

# None, NaN and NA are missing values, which are allowed.
BAD_VALUES = [np.inf, -np.inf, "text", "", [1.0], {}, 1j, np.array([1.0, 2.0])]
BAD_LABELS = [None, np.nan, pd.NA, pd.NaT, [1], {}, np.zeros(2)]

batches = st.tuples(
    st.integers(0, 999),
    st.sampled_from([1, 1, 2, 3, 6, 34]),
    st.sampled_from(["grid", "fresh"]),
    st.integers(1, len(FEATURES)),
    st.integers(1, 4),
)


class AdapterMachine(RuleBasedStateMachine):
    """Calls of one adapter. A subclass sets the variant."""

    variant = None

    @initialize(kind=st.sampled_from(sorted(LABELS)))
    def start(self, kind):
        self.model, self.loop = self.variant.make(), self.variant.make()
        self.labels = LABELS[kind]
        self.features = FEATURES[: min(len(FEATURES), self.model.max_features)]
        self.rounds = 0

    # ------------------------------------------------------------------ learning

    @rule(batch=batches, values=st.sampled_from(sorted(VALUES) + sorted(WHOLE_VALUES)))
    def learn_one(self, batch, values):
        report_step()
        for x, y in self.rounds_of(batch, whole=values in WHOLE_VALUES):
            convert = (VALUES | WHOLE_VALUES)[values]
            with strict():
                self.model.learn_one({name: convert(value) for name, value in x.items()}, y)
        self.compare()

    @rule(batch=batches, kind=st.sampled_from(["float", "objects", "nullable", "float32", "sparse"]))
    def learn_many(self, batch, kind):
        report_step()
        rounds = self.rounds_of(batch)
        if not rounds:
            return
        X, y = self.table([x for x, _ in rounds], kind), pd.Series([y for _, y in rounds], dtype=object)
        with strict():
            self.model.learn_many(X, y)
        self.compare()

    def rounds_of(self, batch, *, whole=False):
        """Return rows as dicts and their labels, and let the loop learn them."""
        seed, n, style, n_features, n_labels = batch
        rng = np.random.default_rng([seed, n])
        rounds = []
        for _ in range(n):
            names = [name for name in self.features[:n_features] if rng.random() < 0.8] or self.features[:1]
            x = {}
            for name in names:
                if whole:
                    x[name] = float(rng.integers(0, 2))
                elif style == "grid":
                    x[name] = float(rng.integers(-1, 3))
                else:
                    x[name] = round(rng.normal() * 64) / 64
            y = self.labels[int(rng.integers(min(n_labels, len(self.labels))))]
            if not self.is_tie(x):
                self.loop.learn_one(x, y)
                self.rounds += 1
                rounds.append((x, y))
        return rounds

    def is_tie(self, x):
        """Return whether rounding might decide the round."""
        parts = self.loop.to_parts()
        row = np.array([[x.get(name, 0.0) for name in parts["features"]]])
        return self.rounds > 0 and is_tie(parts["model"], row, GAP["float64"])

    def table(self, rows, kind):
        """Return rows as a data frame; a missing feature has no value."""
        names = [name for name in FEATURES if any(name in x for x in rows)]
        columns = {name: [x.get(name, np.nan) for x in rows] for name in names}
        # Built by column, because a tuple as a name would become a level of an index.
        X = pd.DataFrame({i: columns[name] for i, name in enumerate(names)})
        X.columns = pd.Index(names, tupleize_cols=False)
        if kind == "objects":
            return X.astype(object)
        if kind == "nullable":
            return X.astype("Float64")
        if kind == "float32":
            return X.astype("float32")
        return X.astype(pd.SparseDtype(float, np.nan)) if kind == "sparse" else X

    def compare(self):
        left, right = self.model.to_parts(), self.loop.to_parts()
        assert left["labels"] == right["labels"]
        assert left["features"] == right["features"]
        if self.rounds:
            model, expected = left["model"], right["model"]
            assert (model.rounds_, model.mistakes_) == (expected.rounds_, expected.mistakes_)
            assert model.rounds_ == self.rounds
            same_parts(model, expected, TOLERANCE["float64"])
            assert close(left["sigmoids"], right["sigmoids"], 1e3 * TOLERANCE["float64"])

    # ------------------------------------------------------------------ prediction

    @rule(batch=batches, kind=st.sampled_from(["float", "objects", "nullable", "float32", "sparse"]))
    def predict(self, batch, kind):
        """Predict rows with known and unknown features, one by one and as a table."""
        report_step()
        rng = np.random.default_rng(batch[0])
        rows = [
            {name: float(rng.integers(-2, 3)) / 4 for name in FEATURES if rng.random() < 0.6} or {"a": 1.0}
            for _ in range(batch[1])
        ]
        before = frozen(self.model)
        X = self.table(rows, kind)
        with strict():
            labels = [self.model.predict_one(x) for x in rows]
            odds = [self.model.predict_proba_one(x) for x in rows]
            many, tables = self.model.predict_many(X), self.model.predict_proba_many(X)
            expected = [self.loop.predict_proba_one(x) for x in rows]
        assert_equal(before, frozen(self.model))
        assert len(many) == len(tables) == len(rows)
        for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
            assert odds[i].keys() == expected[i].keys()
            for name, value in expected[i].items():
                assert close(odds[i][name], value, 1e-6)
            if odds[i]:
                assert close(list(odds[i].values()), tables.iloc[i].tolist(), 1e-6)
                assert close(sum(odds[i].values()), 1.0, 1e-9)
            assert label is None if not self.rounds else label in self.labels
            if not self.rounds or not self.is_tie(x):
                assert many.iloc[i] == label or (many.iloc[i] is None and label is None)
                assert label == self.loop.predict_one(x)

    # ------------------------------------------------------------------ copies

    @rule(how=st.sampled_from([*sorted(COPIES.keys() - {"skops", "state"}), "clone"]), swap=st.booleans())
    def copy(self, how, swap):
        report_step()
        before = frozen(self.model)
        with strict():
            if how == "clone":
                assert_equal(frozen(self.variant.make()), frozen(self.model.clone()))
                return
            other = COPIES[how](self.model)
        assert_equal(before, frozen(other), how)
        if swap:
            self.model, other = other, self.model
        with strict():
            for i, label in enumerate(self.labels):
                other.learn_one({self.features[0]: 0.5, self.features[-1]: -1.0 * i}, label)
        assert_equal(before, frozen(self.model), f"{how} shares its state, which")

    # ------------------------------------------------------------------ invalid calls

    @rule(value=st.sampled_from(range(len(BAD_VALUES))), known=st.booleans())
    def bad_value(self, value, known):
        report_step()
        value, name = BAD_VALUES[value], self.features[0] if known else "new"
        good = {feature: 1.0 for feature in self.features if feature != name}
        if len(good) < self.model.max_features:
            refuses(self.model, lambda: self.model.learn_one({**good, name: value}, self.labels[0]))
        refuses(self.model, lambda: self.model.learn_one({name: value}, "a new label"))
        if name in self.model.to_parts()["features"] and len(self.model.to_parts()["labels"]) > 1:
            refuses(self.model, lambda: self.model.predict_one({name: value}))

    @rule(label=st.sampled_from(range(len(BAD_LABELS))), known=st.booleans())
    def bad_label(self, label, known):
        report_step()
        label, x = BAD_LABELS[label], {self.features[0] if known else "new": 1.0}
        refuses(self.model, lambda: self.model.learn_one(x, label))
        table = pd.DataFrame({"x": [1.0, 2.0]})
        labels = pd.Series([self.labels[0], None], dtype=object)
        labels.iat[1] = label
        refuses(self.model, lambda: self.model.learn_many(table, labels))

    @rule(kind=st.sampled_from(["infinity", "text", "twice", "too few labels", "too many features", "types"]))
    def bad_table(self, kind):
        report_step()
        table = pd.DataFrame({name: [1.0, 2.0] for name in ("a", "b")})
        labels = pd.Series(self.labels[:2], dtype=object)
        model = self.model
        if kind == "infinity":
            table.loc[1, "b"] = np.inf
            refuses(model, lambda: model.learn_many(table, labels))
        elif kind == "text":
            refuses(model, lambda: model.learn_many(table.assign(b=["x", "y"]), labels))
        elif kind == "twice":
            table.columns = ["a", "a"]
            refuses(model, lambda: model.learn_many(table, labels))
        elif kind == "too few labels":
            refuses(model, lambda: model.learn_many(table, labels[:1]))
        elif kind == "too many features":
            wide = dict.fromkeys(range(model.max_features + 1), 1.0)
            refuses(model, lambda: model.learn_one(wide, self.labels[0]))
            refuses(model, lambda: model.learn_many(pd.DataFrame([wide, wide]), labels))
        else:
            for row in (None, [1.0], ["a"], table.iloc[0]) if self.rounds else (None, [1.0], {}):
                refuses(model, lambda x=row: model.learn_one(x, self.labels[0]))
            for rows in (None, table.to_numpy(), [[1.0]], table["a"]):
                refuses(model, lambda X=rows: model.learn_many(X, labels))

    @rule(size=st.sampled_from([1e100, 1e160, 1e308]))
    def huge_values(self, size):
        """A huge value is learned or refused; a refusal changes nothing."""
        report_step()
        before, model = frozen(self.model), COPIES["deepcopy"](self.model)
        try:
            with strict():
                model.learn_one({self.features[0]: size, self.features[-1]: 1.0}, self.labels[1])
        except ValueError:
            assert_equal(before, frozen(model))
