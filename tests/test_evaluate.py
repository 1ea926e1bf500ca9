"""Progressive evaluation: shared kernel values change nothing, and results equal a literal count."""

import json
from itertools import pairwise

import numpy as np
import pytest
import reference as ref
from cases import CASES, stream
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import balanced_accuracy_score, confusion_matrix

import budgetron
from budgetron import Forgetron, KernelPerceptron, RandomizedBudgetPerceptron, evaluate, linear, streams
from budgetron._base.access import kernel_hypotheses_of
from budgetron._evaluation import runs
from budgetron._evaluation.cohort import Cohort
from budgetron.batch import AveragedClassifier


def all_learners(kernel="rbf"):
    return [case.model(kernel) for case in CASES.values()]


def assert_same(shared, alone, traces, expected_traces):
    for model, expected_model, trace, expected in zip(shared, alone, traces, expected_traces, strict=True):
        scale = max(1.0, np.abs(expected.margins).max())
        np.testing.assert_allclose(trace.margins, expected.margins, rtol=0, atol=1e-11 * scale)
        np.testing.assert_array_equal(trace.mistakes, expected.mistakes)
        np.testing.assert_array_equal(trace.support_sizes, expected.support_sizes)
        np.testing.assert_array_equal(model.support_, expected_model.support_)
        np.testing.assert_array_equal(model.support_vectors_, expected_model.support_vectors_)
        scale = max(1.0, np.abs(expected_model.dual_coef_).max(initial=0.0))
        np.testing.assert_allclose(model.dual_coef_, expected_model.dual_coef_, rtol=0, atol=1e-11 * scale)
        for attribute in ("rounds_", "mistakes_", "nbytes_"):
            assert getattr(model, attribute) == getattr(expected_model, attribute)


@pytest.mark.parametrize("kernel", list(ref.KERNELS))
def test_sharing_equals_separate_runs(kernel):
    X, y = stream("random", 700)
    shared, alone = all_learners(kernel), all_learners(kernel)
    cohort = Cohort(shared)
    cuts = [0, 1, 90, 400, 700]
    for a, b in pairwise(cuts):
        traces = cohort.progressive_fit(X[a:b], y[a:b], [-1, 1])
        expected = [model.progressive_fit(X[a:b], y[a:b], [-1, 1]) for model in alone]
        assert_same(shared, alone, traces, expected)
    assert len(cohort._groups) == 1


def test_learners_may_learn_alone_before_and_after():
    X, y = stream("random", 900)
    shared, alone = all_learners(), all_learners()
    for model in [*shared, *alone]:
        model.partial_fit(X[:300], y[:300], classes=[-1, 1])
    traces = Cohort(shared).progressive_fit(X[300:600], y[300:600])
    assert_same(shared, alone, traces, [model.progressive_fit(X[300:600], y[300:600]) for model in alone])
    expected = [model.progressive_fit(X[600:], y[600:]) for model in alone]
    assert_same(shared, alone, [model.progressive_fit(X[600:], y[600:]) for model in shared], expected)


@pytest.mark.parametrize("form", ["float32", "csr"])
def test_sharing_with_float32_and_sparse_rows(form):
    X, y = stream("random", 500)
    X = X.astype(np.float32) if form == "float32" else csr_array(X)
    # In float32 the last digit of a kernel value may depend on the shape of a matrix product.
    shared, alone = all_learners(), all_learners()
    traces = Cohort(shared).progressive_fit(X, y)
    if form == "csr":
        assert_same(shared, alone, traces, [model.progressive_fit(X, y) for model in alone])
        return
    for trace, model in zip(traces, alone, strict=True):
        margins = model.progressive_fit(X, y).margins
        np.testing.assert_allclose(trace.margins[:50], margins[:50], atol=1e-5)


def test_sharing_between_classes_and_widths():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16.0, y[:600]
    learners = [Forgetron(20, gamma=0.3), KernelPerceptron(gamma=0.3), Forgetron(20, gamma=0.1)]
    shared, alone = [clone(m) for m in learners], [clone(m) for m in learners]
    cohort = Cohort(shared)
    traces = cohort.progressive_fit(X, y)
    assert_same(shared, alone, traces, [model.progressive_fit(X, y) for model in alone])
    assert sorted(members for _, members in cohort._groups) == [[0, 1], [2]]


def test_the_shared_supports_stay_few():
    X, y = budgetron.streams.two_gaussians(30_000, random_state=0)
    models = [RandomizedBudgetPerceptron(50, gamma=1.0, random_state=i) for i in range(4)]
    cohort = Cohort(models)
    for start in range(0, len(y), 3000):
        cohort.progressive_fit(X[start : start + 3000], y[start : start + 3000], [-1, 1])
    ((group, _),) = cohort._groups
    assert group.pool.m <= 4 * 51 + 256
    assert group.pool.capacity <= 1024


def test_learners_that_cannot_share_are_refused():
    from budgetron._core.group import LearnerGroup

    X, y = stream("random")
    a, b = (kernel_hypotheses_of(KernelPerceptron(gamma=g).fit(X[:50], y[:50]))[0] for g in (1.0, 2.0))
    with pytest.raises(ValueError, match="same kernel"):
        LearnerGroup([a, b])
    with pytest.raises(ValueError, match="with itself"):
        LearnerGroup([a, a])
    (single,) = kernel_hypotheses_of(KernelPerceptron(gamma=1.0).fit(X[:50].astype(np.float32), y[:50]))
    with pytest.raises(ValueError, match="width and type"):
        LearnerGroup([a, single])


def test_learners_of_different_streams_may_share():
    X, y = stream("random", 900)
    shared, alone = [[c.model() for c in CASES.values()] for _ in range(2)]
    for models in (shared, alone):
        for i, model in enumerate(models):
            model.partial_fit(X[10 * i : 200 + 7 * i], y[10 * i : 200 + 7 * i], classes=[-1, 1])
    traces = Cohort(shared).progressive_fit(X[500:], y[500:])
    assert_same(shared, alone, traces, [model.progressive_fit(X[500:], y[500:]) for model in alone])


def test_learners_that_learn_alone_in_between():
    X, y = stream("random", 900)
    shared, alone = all_learners(), all_learners()
    cohort = Cohort(shared)
    cohort.progressive_fit(X[:100], y[:100], [-1, 1])
    for models in (shared, alone):
        models[0].partial_fit(X[100:700], y[100:700], classes=[-1, 1]) if models is shared else None
        models[1].fit(X[:300], y[:300]) if models is shared else None
        for x, label in zip(X[:20], y[:20], strict=True):
            models[3].play(x, label, classes=[-1, 1]) if models is shared else None
    for i, model in enumerate(alone):
        if i == 1:
            model.fit(X[:300], y[:300])
            continue
        model.partial_fit(X[:100], y[:100], classes=[-1, 1])
        if i == 0:
            model.partial_fit(X[100:700], y[100:700])
        if i == 3:
            model.partial_fit(X[:20], y[:20])
    traces = cohort.progressive_fit(X[700:], y[700:])
    assert_same(shared, alone, traces, [model.progressive_fit(X[700:], y[700:]) for model in alone])


def test_a_failing_batch_leaves_all_learners_unchanged():
    X, y = stream("random", 300)
    parameters = {"kernel": "poly", "degree": 3, "gamma": 1.0}
    models = [KernelPerceptron(**parameters), Forgetron(10, **parameters)]
    cohort = Cohort(models)
    cohort.progressive_fit(X[:100], y[:100], [-1, 1])
    before = [model.dual_coef_.copy() for model in models]
    bad = X[100:200].copy()
    bad[70] = 1e200
    with pytest.raises(ValueError, match="not finite"):
        cohort.progressive_fit(bad, y[100:200])
    assert [model.rounds_ for model in models] == [100, 100]
    for model, coef in zip(models, before, strict=True):
        np.testing.assert_array_equal(model.dual_coef_, coef)
    alone = [clone(model).fit(X[:100], y[:100]) for model in models]
    traces = cohort.progressive_fit(X[200:], y[200:])
    assert_same(models, alone, traces, [model.progressive_fit(X[200:], y[200:]) for model in alone])


def test_kernel_functions_with_the_same_name_do_not_share():
    class Kernel:
        def __init__(self, power):
            self.power = power

        def __call__(self, A, B):
            return (A @ B.T) ** self.power

        def __repr__(self):
            return "a kernel"

    X, y = stream("random", 200)
    results = evaluate.compare({str(p): KernelPerceptron(kernel=Kernel(p)) for p in (1, 3)}, (X, y))
    assert results["1"].mistakes == KernelPerceptron(kernel=Kernel(1)).progressive_fit(X, y).mistakes.sum()
    assert results["3"].mistakes == KernelPerceptron(kernel=Kernel(3)).progressive_fit(X, y).mistakes.sum()


# ---------------------------------------------------------------------- results


def blocks(X, y, size):
    """Return a stream of blocks of the given size."""

    class Blocks:
        classes = np.unique(y)

        def __iter__(self):
            for start in range(0, len(y), size):
                yield X[start : start + size], y[start : start + size]

    return Blocks()


@pytest.mark.parametrize("size", [1, 37, 5000])
def test_results_equal_a_literal_count(size):
    X, y = stream("random", 600)
    trace = Forgetron(20, gamma=0.5).progressive_fit(X, y)
    result = evaluate.progressive(Forgetron(20, gamma=0.5), blocks(X, y, size), window=50)
    curve = result.curve
    np.testing.assert_array_equal(curve["round"], np.arange(1, 601))
    np.testing.assert_array_equal(curve["mistakes"], np.cumsum(trace.mistakes))
    np.testing.assert_array_equal(curve["supports"], trace.support_sizes)
    literal = [trace.mistakes[max(0, t - 50) : t].mean() for t in range(1, 601)]
    np.testing.assert_allclose(curve["window_error"], literal, atol=1e-15)
    predicted = np.where(trace.mistakes, -y, y)
    np.testing.assert_array_equal(result.confusion, confusion_matrix(y, predicted))
    assert result.mistakes == trace.mistakes.sum() == result.model.mistakes_
    assert result.error_rate == trace.error_rate
    assert result.window_error == literal[-1]
    assert result.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, predicted), abs=1e-12)
    assert result.nbytes == result.model.nbytes_
    assert result.seconds > 0


def test_the_results_of_a_long_stream_stay_small():
    X, y = budgetron.streams.two_gaussians(50_000, random_state=0)
    kernel = evaluate.progressive(KernelPerceptron(gamma=1.0), blocks(X[:3001], y[:3001], 777))
    assert kernel.supports == kernel.model.n_support_ > 0
    result = evaluate.progressive(linear.Perceptron(), blocks(X, y, 777), window=100)
    rounds = result.curve["round"]
    assert 500 <= len(rounds) <= 1000
    assert len(np.unique(np.diff(rounds))) == 1
    assert rounds[0] == np.diff(rounds)[0]
    mistakes = linear.Perceptron().progressive_fit(X, y).mistakes
    np.testing.assert_array_equal(result.curve["mistakes"], np.cumsum(mistakes)[rounds - 1])
    literal = [mistakes[max(0, t - 100) : t].mean() for t in rounds]
    np.testing.assert_allclose(result.curve["window_error"], literal, atol=1e-15)


def test_more_than_two_classes():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16.0, y[:400]
    results = evaluate.compare([KernelPerceptron(gamma=0.3), linear.AROW()], (X, y))
    for result in results:
        trace = clone(result.model).progressive_fit(X, y)
        assert result.mistakes == trace.mistakes.sum()
        np.testing.assert_array_equal(result.confusion.sum(axis=1), np.bincount(y))
        right = trace.margins.argmax(axis=1)
        decided = np.sort(trace.margins, axis=1)[:, -1] > np.sort(trace.margins, axis=1)[:, -2]
        literal = confusion_matrix(y[decided], right[decided], labels=range(10))
        assert (result.confusion >= literal).all()
        assert result.confusion.sum() - literal.sum() == (~decided).sum()


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_ties_are_counted_off_the_diagonal(classes, delay):
    # Before the first round all margins are 0, which predicts class 0 and is a mistake for every label.
    for code, column in ((0, 1), (1, 0)):
        result = evaluate.progressive(
            KernelPerceptron(gamma=1.0), (np.ones((1, 2)), [code]), classes=classes, delay=delay
        )
        expected = np.zeros((len(classes), len(classes)), int)
        expected[code, column] = 1
        np.testing.assert_array_equal(result.confusion, expected)
        assert result.mistakes == 1


def test_foreign_learners_and_averages_predict_before_each_row():
    X, y = stream("random", 150)
    learners = {
        "sgd": SGDClassifier(random_state=0),
        "average": AveragedClassifier(linear.Perceptron()),
        "kernel": KernelPerceptron(gamma=0.5),
    }
    results = evaluate.compare(learners, (X, y))
    for name in ("sgd", "average"):
        model, mistakes = clone(learners[name]), 0
        for t in range(len(y)):
            mistakes += (model.predict(X[t : t + 1])[0] if t else -1.0) != y[t]
            model.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        assert results[name].mistakes == mistakes
    assert [result.name for result in results] == list(learners)


@pytest.mark.parametrize("delay", [1, 7, 500])
@pytest.mark.parametrize("learner", [Forgetron(15, gamma=0.5), linear.AROW(), SGDClassifier(random_state=0)])
def test_delayed_labels(learner, delay):
    X, y = stream("random", 200)
    result = evaluate.compare([learner], blocks(X, y, 33), delay=delay)[0]
    model, mistakes = clone(learner), []
    for t in range(len(y)):
        margin = model.decision_function(X[t : t + 1])[0] if hasattr(model, "classes_") else 0.0
        if isinstance(learner, SGDClassifier):
            mistakes.append((1.0 if margin > 0 else -1.0) != y[t])
        else:
            mistakes.append(y[t] * margin <= 0.0)
        if t >= delay:
            model.partial_fit(X[t - delay : t - delay + 1], y[t - delay : t - delay + 1], classes=[-1, 1])
    np.testing.assert_array_equal(np.diff(result.curve["mistakes"], prepend=0), mistakes)
    assert result.supports == getattr(result.model, "n_support_", 0)
    for t in range(max(0, len(y) - delay), len(y)):  # labels that arrive after the last row
        model.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
    np.testing.assert_allclose(result.model.decision_function(X), model.decision_function(X), rtol=1e-9)


def test_the_first_block_determines_the_width(monkeypatch):
    monkeypatch.setattr(runs, "BLOCK", 200)
    X, y = stream("random", 500)
    X = X * np.linspace(1, 5, 500)[:, None]
    for learner in (KernelPerceptron(), budgetron.VotedKernelPerceptron()):
        for source in ((X, y), [X, y], budgetron.streams.arrays(X, y, block=200)):
            for delay in (0, 2):
                result = evaluate.progressive(clone(learner), source, delay=delay)
                assert result.model.gamma_ == pytest.approx(1 / (3 * X[:200].var()))


def test_compare_clones_and_progressive_learns_in_place():
    X, y = stream("random", 100)
    learner = KernelPerceptron(gamma=0.5)
    results = evaluate.compare([learner, learner], (X, y))
    assert not hasattr(learner, "classes_")
    assert [result.name for result in results] == ["KernelPerceptron #1", "KernelPerceptron #2"]
    first = evaluate.progressive(learner, (X[:50], y[:50]))
    second = evaluate.progressive(learner, (X[50:], y[50:]))
    assert first.mistakes + second.mistakes == results[0].mistakes == learner.mistakes_


def test_results_as_tables_json_and_plots(tmp_path):
    X, y = stream("random", 300)
    results = evaluate.compare([Forgetron(b, gamma=0.5) for b in (5, 50)], (X, y))
    frame = results.to_frame()
    assert list(frame.index) == ["Forgetron(budget=5)", "Forgetron(budget=50)"]
    assert frame["mistakes"].tolist() == [result.mistakes for result in results]
    assert len(results.curves()) == 600
    plain = json.loads(results.to_json())["results"]
    assert plain[0]["confusion"] == results[0].confusion.tolist()
    assert plain[1]["curve"]["mistakes"][-1] == results[1].mistakes
    assert results.best() is min(results, key=lambda result: result.mistakes)
    results.plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"


def test_bad_arguments():
    X, y = stream("random", 100)
    with pytest.raises(ValueError, match="at least one learner"):
        evaluate.compare([], (X, y))
    with pytest.raises(TypeError, match="partial_fit and predict"):
        evaluate.Comparison({"x": object()}, [0, 1])
    for bad in ({"delay": -1}, {"delay": 0.5}, {"window": 0}, {"window": 2.5}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be a whole number"):
            evaluate.compare([linear.AROW()], (X, y), **bad)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        evaluate.progressive(SGDClassifier(), (X, y[:-1]))
    model = linear.AROW()
    with pytest.raises(ValueError, match="duplicate learner"):
        evaluate.Comparison({"a": model, "b": model}, [-1, 1])
    with pytest.raises(ValueError, match="two classes"):
        evaluate.compare([linear.AROW()], (X, np.ones(100)))
    with pytest.raises(ValueError, match="must contain only the classes"):
        evaluate.compare([linear.AROW()], (X, y), classes=[0, 1])


def test_a_class_instead_of_an_instance_is_refused():
    X, y = stream("random", 50)
    with pytest.raises(TypeError, match=r"must be an instance, like Forgetron\(\)"):
        evaluate.progressive(Forgetron, (X, y))
    with pytest.raises(TypeError, match=r"must be an instance, like Forgetron\(\)"):
        evaluate.compare([KernelPerceptron(), Forgetron], (X, y))


def test_efficient_results_are_those_that_no_other_beats():
    X, y = streams.two_gaussians(600, random_state=0)
    comparison = evaluate.compare([Forgetron(b, gamma=1.0) for b in (10, 20, 40, 80)], (X, y))
    figures = {10: (50, 1.0), 20: (40, 2.0), 40: (45, 3.0), 80: (30, 2.0)}
    for result in comparison:
        mistakes, result.seconds = figures[result.model.budget]
        result.confusion = np.array([[600 - mistakes, mistakes], [0, 0]])
    # 40 is beaten by 20. 80 makes fewer mistakes than 20 in the same time, but needs more memory.
    assert [result.model.budget for result in comparison.efficient()] == [10, 20, 80]


def test_html_of_comparisons_escapes_names(tmp_path):
    X, y = streams.two_gaussians(300, random_state=0)
    comparison = evaluate.compare({"<b>small</b>": Forgetron(10), "large": Forgetron(50)}, (X, y))
    html = comparison._repr_html_()
    assert "&lt;b&gt;small&lt;/b&gt;" in html
    assert "<b>" not in html
    assert f"{comparison['large'].error_rate:.2%}" in html
    assert html.count("<tr>") == 3
    comparison.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    empty = evaluate.Comparison([Forgetron()], [0, 1])
    assert "No rounds yet" in empty._repr_html_()


def test_html_and_plot_of_a_trace(tmp_path):
    X, y = streams.two_gaussians(300, random_state=0)
    trace = Forgetron(10).progressive_fit(X, y, ledger=True)
    html = trace._repr_html_()
    assert f"<td>{int(trace.mistakes.sum())}</td>" in html
    assert "phi" in html
    figure = trace.plot(tmp_path / "trace.png", window=20)
    assert (tmp_path / "trace.png").stat().st_size > 0
    everything, recent = figure.axes[0].lines
    assert everything.get_ydata()[-1] == pytest.approx(100 * trace.error_rate)
    assert recent.get_ydata()[-1] == pytest.approx(100 * trace.mistakes[-20:].mean())
    assert len(Forgetron(10).progressive_fit(X[:3], [0, 1, 0]).plot().axes) == 2
    assert len(budgetron.linear.AROW().progressive_fit(X, y).plot().axes) == 1
    with pytest.raises(ValueError, match="window must be at least 1"):
        trace.plot(window=0)


def test_verbose_prints_the_progress(capsys, monkeypatch):
    monkeypatch.setattr("budgetron._evaluation.progress.INTERVAL", 0.0)
    X, y = streams.two_gaussians(9000, random_state=0)
    result = evaluate.progressive(Forgetron(10, gamma=1.0), (X, y), verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # three blocks and the end
    assert lines[0].startswith("4,096 of 9,000 rounds")
    assert "s left" in lines[0]
    assert f"Forgetron {result.error_rate:.2%}" in lines[-1]
    evaluate.compare([Forgetron(10, gamma=1.0)], streams.arrays(X, y))
    assert capsys.readouterr().err == ""
