"""The command line with saved models: continue learning, probabilities, thresholds, weights, rare classes."""

import json

import messy
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import evaluate, linear, streams
from budgetron._evaluation.ranking import KEPT, ScoreSample, score_samples
from budgetron.batch import AveragedClassifier
from budgetron.cli import app


def command(*arguments, code=0):
    """Run the command in this process; return its output."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def result_of(*arguments):
    (stream,) = json.loads(command(*arguments, "--json").stdout)["streams"].values()
    (result,) = stream["results"]
    return result


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a folder with a messy table, whole and in two parts."""
    folder = tmp_path_factory.mktemp("parts")
    lines = messy.write(folder / "all.csv", 6000).read_text().splitlines(keepends=True)
    (folder / "first.csv").write_text("".join(lines[:4097]))
    (folder / "second.csv").write_text(lines[0] + "".join(lines[4097:]))
    return folder


@pytest.mark.parametrize("learner", ["arow", "forgetron", "budget:memory=1MB"])
def test_learning_continues_as_if_both_files_were_one(parts, tmp_path, learner):
    whole = result_of("run", parts / "all.csv", "-t", "returned", "-l", learner, "--save", tmp_path / "whole")
    first = result_of("run", parts / "first.csv", "-t", "returned", "-l", learner, "--save", tmp_path / "m")
    second = result_of("run", parts / "second.csv", "--from", tmp_path / "m", "--save", tmp_path / "m")
    assert np.sum([first["confusion"], second["confusion"]], axis=0).tolist() == whole["confusion"]
    one, both = budgetron.load(tmp_path / "whole"), budgetron.load(tmp_path / "m")
    assert one.rounds_ == both.rounds_ == 6000
    states = [budgetron.files.load_extras(tmp_path / name)["encoder"] for name in ("whole", "m")]
    assert json.dumps(states[0], default=np.ndarray.tolist) == json.dumps(
        states[1], default=np.ndarray.tolist
    )
    rows, labels = next(
        iter(streams.read(parts / "second.csv", encoder=streams.Encoder.from_state(states[0])))
    )
    np.testing.assert_array_equal(one.decision_function(rows), both.decision_function(rows))
    assert labels is None


def test_learning_continues_with_sparse_rows(tmp_path):
    lines = [f"{1 if i % 3 else -1} {1 + i % 3}:1 {4 + i % 5}:0.5" for i in range(600)]
    for name, part in (("all", lines), ("first", lines[:400]), ("second", lines[400:])):
        (tmp_path / f"{name}.svm").write_text("\n".join(part) + "\n")
    result_of("run", tmp_path / "all.svm", "-l", "linear.pa", "--save", tmp_path / "whole")
    result_of("run", tmp_path / "first.svm", "-l", "linear.pa", "--save", tmp_path / "m")
    result_of("run", tmp_path / "second.svm", "--from", tmp_path / "m", "--save", tmp_path / "m2")
    np.testing.assert_array_equal(
        budgetron.load(tmp_path / "whole").coef_, budgetron.load(tmp_path / "m2").coef_
    )


def test_what_cannot_be_combined_with_a_saved_model(parts, tmp_path):
    command(
        "run", parts / "first.csv", "-t", "returned", "-l", "arow", "--save", tmp_path / "m", "--rows", 100
    )
    for options in (
        ["-l", "arow"],
        ["--memory", "1MB"],
        ["--categorical", "age"],
        ["--average"],
        ["--certify"],
        ["--class-weight", "yes=2"],
        ["--checkpoint", tmp_path / "state"],
    ):
        done = command("run", parts / "second.csv", "--from", tmp_path / "m", *options, code=2)
        assert "cannot be given with --from" in done.stderr
    other = tmp_path / "other.csv"
    other.write_text((parts / "second.csv").read_text().replace(",yes\n", ",maybe\n", 1))
    done = command("run", other, "--from", tmp_path / "m", code=2)
    assert "label 'maybe' is not among the classes no, yes" in done.stderr


def test_a_target_that_does_not_exist_is_an_error(parts, tmp_path):
    command(
        "run", parts / "first.csv", "-t", "returned", "-l", "arow", "--save", tmp_path / "m", "--rows", 100
    )
    done = command("predict", tmp_path / "m", parts / "second.csv", "-t", "nosuch", code=2)
    assert 'no column "nosuch"' in done.stderr
    bare = pd.read_csv(parts / "second.csv", dtype=str).drop(columns="returned")
    bare.to_csv(tmp_path / "bare.csv", index=False)
    assert command("predict", tmp_path / "m", tmp_path / "bare.csv").stderr.strip() == "1,904 rows predicted"


def test_probabilities_and_thresholds(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)).round(4)
    y = np.where(X.sum(axis=1) + 0.5 * rng.normal(size=2000) > 2.2, "very rare", "usual")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    command("run", tmp_path / "t.csv", "-t", "y", "-m", "1MB", "--save", tmp_path / "m")
    lines = command("predict", tmp_path / "m", tmp_path / "t.csv", "--proba", "--margins").stdout
    (tmp_path / "out.csv").write_text(lines)
    out = pd.read_csv(tmp_path / "out.csv")
    assert list(out) == ["prediction", "margin_very_rare", "proba_usual", "proba_very_rare"]
    np.testing.assert_allclose(out["proba_usual"] + out["proba_very_rare"], 1.0)
    assert ((out["margin_very_rare"] > 0) == (out["prediction"] == "very rare")).all()
    recalls = []
    for threshold in ("very rare=0.9", "0.5", "0.1"):
        done = command("predict", tmp_path / "m", tmp_path / "t.csv", "--threshold", threshold)
        least = float(threshold.split("=")[-1])
        expected = np.where(out["proba_very_rare"] >= least, "very rare", "usual")
        predicted = done.stdout.splitlines()[1:]
        assert predicted == expected.tolist()
        rare, hit = y == "very rare", (expected == "very rare") & (y == "very rare")
        recalls.append(hit.sum() / rare.sum())
        precision = 100 * hit.sum() / (expected == "very rare").sum()
        assert f"precision {precision:.1f} %, recall {100 * recalls[-1]:.1f} %" in done.stderr
    assert recalls == sorted(recalls)
    for value, message in (
        ("2", "from 0 to 1"),
        ("often=0.5", "no class 'often'"),
        ("x", "a number or label="),
    ):
        assert (
            message
            in command("predict", tmp_path / "m", tmp_path / "t.csv", "--threshold", value, code=2).stderr
        )
    command("run", tmp_path / "t.csv", "-t", "y", "-l", "linear.pa", "--save", tmp_path / "pa")
    done = command("predict", tmp_path / "pa", tmp_path / "t.csv", "--proba", code=2)
    assert "PassiveAggressive does not provide probabilities; learn with -l budget" in done.stderr


def test_errors_of_continued_runs_advise_no_option_that_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(
        "a,y\n" + "".join(f"{i}.5,{'no' if i % 2 else 'yes'}\n" for i in range(20))
    )
    model = tmp_path / "model"
    command("run", tmp_path / "a.csv", "-t", "y", "-l", "arow", "--save", model)
    for text, message in (
        ("a,y\n1,maybe\n", "the model does not have this class"),
        ("b,y\n1,yes\n", "give the columns that the model learned"),
        ("a,y\nx,yes\n", "write values as in the rows that the model learned"),
    ):
        (tmp_path / "b.csv").write_text(text)
        assert message in " ".join(command("run", tmp_path / "b.csv", "--from", model, code=2).stderr.split())


def test_class_weights(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 2)).round(4)
    y = (X[:, 0] + rng.normal(size=1500) > 2.0).astype(int)
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    base = ["run", tmp_path / "t.csv", "-t", "y", "-l", "arow"]
    found = result_of(*base, "--class-weight", "1=8")
    stream = streams.read(tmp_path / "t.csv", "y", constant=True)
    expected = evaluate.progressive(linear.AROW(class_weight={1: 8.0}, fit_intercept=False), stream)
    assert found["confusion"] == expected.confusion.tolist()
    assert found["recall"][1] > result_of(*base)["recall"][1]
    for text, message in (("2=3", "label=weight for 0, 1"), ("1=x", "'x' in '1=x' is not a number")):
        assert message in command(*base, "--class-weight", text, code=2).stderr
    done = command(*base[:-1], "forgetron", "--class-weight", "1=2", code=2)
    assert "Forgetron has no class weights" in done.stderr


def test_class_weights_of_compare_and_tune(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 2)).round(4)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=900) > 1.0, "yes", "no")
    path = tmp_path / "t.csv"
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(path, index=False)
    weights = ["--class-weight", "yes=6"]
    base = ["compare", path, "-t", "y", "--memory", "1MB"]
    done = command(*base, *weights)
    assert "not compared, because they have no class weights: Forgetron" in done.stderr
    assert "Forgetron" not in done.stdout
    (stream,) = json.loads(command(*base, *weights, "--json").stdout)["streams"].values()
    names = [result["learner"] for result in stream["results"]]
    assert sorted(names) == [
        "BudgetClassifier",
        "SecondOrderProjectron",
        "linear.AROW",
        "linear.PassiveAggressive",
    ]
    for result in stream["results"]:
        name = {"BudgetClassifier": "budget:memory=1MB"}.get(result["learner"], result["learner"])
        alone = result_of("run", path, "-t", "y", "-l", name, *weights)
        assert result["confusion"] == alone["confusion"]
    refused = command(*base, "-l", "forgetron", *weights, code=2)
    assert "Forgetron has no class weights" in refused.stderr

    grid = ["tune", path, "-t", "y", "-l", "secondorder", "-b", "20", "-b", "40", "-g", "0.1", "-g", "1"]
    found = json.loads(command(*grid, *weights, "--json").stdout)
    for tried in found["tried"]:
        spec = f"secondorder:budget={tried['budget']},gamma={tried['gamma']}"
        confusion = np.array(result_of("run", path, "-t", "y", "-l", spec, *weights)["confusion"])
        of_row = np.array([[1.0], [6.0]])
        expected = 1.0 - np.trace(of_row * confusion) / (of_row * confusion).sum()
        assert tried["error_rate"] == pytest.approx(expected, abs=1e-12)
    done = command(*grid, *weights)
    assert "weighted error %" in done.stdout
    assert "--class-weight yes=6" in done.stderr
    assert "Forgetron has no class weights" in command("tune", path, "-t", "y", *weights, code=2).stderr


def test_rare_classes_and_learners_worse_than_a_constant(tmp_path):
    rng = np.random.default_rng(2)
    y = (rng.random(3000) < 0.05).astype(int)
    a = (y + 0.7 * rng.normal(size=3000)).round(4)
    pd.DataFrame({"a": a, "noise": rng.normal(size=3000), "y": y}).to_csv(tmp_path / "t.csv", index=False)
    options = ["compare", tmp_path / "t.csv", "-t", "y", "-l", "arow", "-l", "linear.perceptron"]
    page = tmp_path / "page.html"
    text = command(*options, "--report", page).stdout
    (stream,) = json.loads(command(*options, "--json").stdout)["streams"].values()
    results = {result["learner"]: result for result in stream["results"]}
    perceptron = results["linear.Perceptron"]
    assert perceptron["error_rate"] > perceptron["baseline_error"] == pytest.approx(y.mean())
    assert f"! {100 * perceptron['error_rate']:.2f}" in text
    assert "! is worse than always predicting 0." in text
    assert "Rare classes" in text
    assert f"{results['linear.AROW']['auc']:.3f}" in text
    html = page.read_text()
    assert "<h3>Rare classes</h3>" in html
    assert "! is worse than always predicting the most frequent class" in html
    assert "<h3>How the columns were read</h3>" in html
    assert results["linear.AROW"]["auc"] > 0.75


def test_tune_says_that_a_constant_is_better(tmp_path):
    rng = np.random.default_rng(5)
    noise = pd.DataFrame(rng.normal(size=(600, 3)).round(3), columns=["a", "b", "c"])
    noise.assign(y=np.where(rng.random(600) < 0.2, "yes", "no")).to_csv(tmp_path / "t.csv", index=False)
    options = ["tune", tmp_path / "t.csv", "-t", "y", "-b", "20", "-g", "1"]
    share = (pd.read_csv(tmp_path / "t.csv")["y"] == "yes").mean()
    text = " ".join(command(*options).stderr.split())
    assert f"! All of them are worse than always predicting no, which has {100 * share:.2f} % error." in text
    assert "budgetron compare" in text
    weighted = 1 - share * 9 / (share * 9 + 1 - share)
    text = " ".join(command(*options, "-l", "secondorder", "--class-weight", "yes=9").stderr.split())
    assert f"always predicting yes, which has {100 * weighted:.2f} % error." in text
    noise.assign(y=rng.normal(size=600)).to_csv(tmp_path / "t.csv", index=False)
    text = " ".join(command(*options, "-l", "kernelpa").stderr.split())
    assert "! All of them are worse than predicting the mean so far, which has RMSE " in text
    noise.assign(y=(noise["a"] > 0).astype(int)).to_csv(tmp_path / "t.csv", index=False)
    assert "worse than" not in command(*options).stderr


def test_advice_if_a_rare_class_is_missed(tmp_path):
    rng = np.random.default_rng(4)
    y = np.where(rng.random(2000) < 0.05, "very rare", "usual")
    X = rng.normal(size=(2000, 2)) + 0.8 * (y == "very rare")[:, None]
    pd.DataFrame(X.round(3), columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)

    def advice(*options):
        text = " ".join(command("run", tmp_path / "t.csv", "-t", "y", *options).stdout.split())
        assert "Rare classes" in text
        return text.partition("To find more rows of very rare, ")[2]

    weight = round((y == "usual").sum() / (y == "very rare").sum())
    learn, predict = (
        f"learn with --class-weight 'very rare={weight}'",
        "predict with --threshold 'very rare=0.1'",
    )
    assert advice("-m", "1MB") == f"{learn} or {predict}, for example."
    assert advice("-l", "linear.pa") == f"{learn}, for example."  # has no probabilities
    assert advice("-l", "linear.perceptron") == ""  # has no weights either
    assert advice("-l", "linear.pa", "--class-weight", "very rare=2") == ""  # the weights are known


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.1
    scores = (y + rng.normal(size=3000)).round(1)  # with ties
    sample, cut = ScoreSample(), ScoreSample()
    sample.add(y.astype(int), scores)
    for rows in np.array_split(np.arange(3000), 7):
        cut.add(y[rows].astype(int), scores[rows])
        state, cut = cut.state(), ScoreSample()
        cut.restore(state)
    assert sample.area() == cut.area() == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    many = ScoreSample()
    y = rng.random(50_000) < 0.3
    scores = y + rng.normal(size=50_000)
    many.add(y.astype(int), scores)
    assert max(len(many.state()[name]) for name in ("negative", "positive")) <= 2 * KEPT
    assert many.area() == pytest.approx(roc_auc_score(y, scores), abs=0.02)
    assert ScoreSample().area() is None


def test_auc_of_a_run_is_that_of_its_margins():
    from sklearn.metrics import roc_auc_score

    X, y = streams.two_gaussians(2000, random_state=0)
    trace = linear.AROW().progressive_fit(X, y)
    result = evaluate.progressive(linear.AROW(), (X, y))
    assert result.auc == pytest.approx(roc_auc_score(y, trace.margins))
    assert evaluate.progressive(linear.AROW(), (X, y), delay=3).auc is not None
    assert result.class_auc == [result.auc, result.auc]


@pytest.mark.parametrize("options", [{}, {"delay": 3}])
def test_auc_of_each_of_several_classes_is_one_against_the_rest(options):
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "rare"])[np.searchsorted([0.5, 0.95], rng.random(1500))]
    X = rng.normal(size=(1500, 3)) + (labels == "b")[:, None] + 2.0 * (labels == "rare")[:, None] * [1, 0, 0]
    result = evaluate.progressive(linear.AROW(), (X, labels), **options)
    assert result.auc is None
    if options:
        model, margins = linear.AROW(), np.zeros((1500, 3))
        for t in range(1500):
            if t > 3:
                margins[t] = model.decision_function(X[t : t + 1])[0]
            if t >= 3:
                model.partial_fit(X[t - 3 : t - 2], labels[t - 3 : t - 2], classes=["a", "b", "rare"])
    else:
        margins = linear.AROW().progressive_fit(X, labels).margins
    expected = [roc_auc_score(labels == name, margins[:, i]) for i, name in enumerate(["a", "b", "rare"])]
    assert result.class_auc == pytest.approx(expected, abs=1e-12)
    again = evaluate.Result("again", linear.AROW(), np.array(["a", "b", "rare"]), 1000)
    again.restore(result.state())
    assert again.class_auc == result.class_auc
    assert result.to_dict()["class_auc"] == result.class_auc


def test_samples_of_many_classes_stay_small():
    for n_classes, most in ((2, 2 * KEPT), (10, 2 * 409), (1000, 2 * 256)):
        samples = score_samples(n_classes)
        assert len(samples) == (1 if n_classes == 2 else n_classes)
        samples[0].add(np.zeros(20_000, int), np.arange(20_000.0))
        assert most / 2 <= len(samples[0].state()["negative"]) <= most


def test_an_average_is_evaluated_for_several_rows_at_once():
    X, y = streams.two_gaussians(3000, random_state=0)
    found = evaluate.progressive(AveragedClassifier(budgetron.Forgetron(50, gamma=1.0)), (X, y))
    # Literally: before every row, but with the average as of the last time it was evaluated.
    model, predicted, renewed = AveragedClassifier(budgetron.Forgetron(50, gamma=1.0)), [], 0
    calls = 0
    for t in range(3000):
        if t >= renewed:
            stop = min(3000, t + max(1, t // 64))
            predictions = model.predict(X[t:stop]) if t else np.full(1, -1)
            calls, start, renewed = calls + 1, t, stop
        predicted.append(predictions[t - start])
        if t + 1 == renewed:
            model.partial_fit(X[start:renewed], y[start:renewed], classes=[-1, 1])
    assert found.mistakes == np.sum(np.array(predicted) != y)
    assert calls < 350
    exact = AveragedClassifier(budgetron.Forgetron(50, gamma=1.0))
    wrong = 0
    for t in range(3000):
        wrong += (exact.predict(X[t : t + 1])[0] if t else -1) != y[t]
        exact.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
    assert abs(wrong - found.mistakes) <= 15  # half a percentage point


def test_inspect(parts):
    done = command("inspect", parts / "first.csv", "-t", "returned")
    assert "transaction_id" in done.stdout
    assert 'column "transaction_id" is not used: it looks like an id' in done.stderr
    assert "give --keep to use it" in done.stderr
    found = json.loads(command("inspect", parts / "first.csv", "-t", "returned", "--json").stdout)
    read_as = {row["column"]: row["read_as"] for row in found["columns"]}
    assert read_as["timestamp"] == "date or time (year-month-day)"
    assert read_as["comment"] == "text, hashed words"
    assert found["classes"] == ["no", "yes"]
    kept = command("inspect", parts / "first.csv", "-t", "returned", "--keep", "transaction_id", "--json")
    assert json.loads(kept.stdout)["features"] > found["features"]


def test_inspect_counts_missing_values(parts):
    base = ["inspect", parts / "first.csv", "-t", "returned"]
    found = json.loads(command(*base, "--json").stdout)
    table = pd.read_csv(parts / "first.csv", keep_default_na=False, dtype=str)
    known = {row["column"]: row["missing"] for row in found["columns"]}
    assert found["first_rows"] == len(table) == 4096
    assert known.pop("transaction_id") is None  # not used
    missing = {"", "?", "-", "NA", "N/A", "NaN", "null", "None"}
    assert known == {name: int(table[name].isin(missing).sum()) for name in known}
    assert sum(known.values()) > 100
    shown = command(*base).stdout
    assert "Missing values are counted in the first 4,096 rows." in shown
    assert f"{known['age']:,}" in next(line for line in shown.splitlines() if line.split()[:1] == ["age"])


def test_inspect_says_what_a_model_file_is(parts, tmp_path):
    model = tmp_path / "model.budgetron"
    command("run", parts / "first.csv", "-t", "returned", "-l", "arow", "--save", model)
    assert "this is a saved model" in command("inspect", model, code=2).stderr
    (tmp_path / "book.xlsx").write_bytes(model.read_bytes())
    assert "this is a zip archive" in command("inspect", tmp_path / "book.xlsx", code=2).stderr


def test_files_that_are_not_utf_8_text(tmp_path):
    path = tmp_path / "t.csv"
    for encoding in ("utf-16", "utf-16-le"):
        path.write_bytes("a,y\n1,0\n2,1\n".encode(encoding))
        what = "UTF-16 text" if encoding == "utf-16" else "not a text file"
        assert f"t.csv: this is {what}; give a CSV" in command("inspect", path, "-t", "y", code=2).stderr
    path.write_bytes(bytes(range(256)))
    assert "t.csv: this is not a text file" in command("run", path, "-t", "y", code=2).stderr


def test_options_accept_names_with_commas(tmp_path):
    lines = [f'{i}.5,{i % 7},{i % 3},"{"no, thanks" if i % 2 else "yes"}"' for i in range(40)]
    text = "\n".join(['"size, cm","""quoted""",c,y', *lines]) + "\n"
    (tmp_path / "t.csv").write_text(text)
    base = ["inspect", tmp_path / "t.csv", "-t", "y", "--json"]

    def read_as(*options):
        return {
            row["column"]: row["read_as"]
            for row in json.loads(command(*base, *options).stdout)["columns"]
            if row["features"]
        }

    assert set(read_as()) == {"size, cm", '"quoted"', "c"}
    assert set(read_as("--ignore", '"size, cm", c')) == {'"quoted"'}
    assert set(read_as("--ignore", '"""quoted""",c')) == {"size, cm"}
    assert read_as("--categorical", '"size, cm"')["size, cm"].startswith("category")
    found = json.loads(command(*base, "--classes", 'yes,"no, thanks",maybe').stdout)
    assert found["classes"] == ["maybe", "no, thanks", "yes"]
    assert "not a list of names" in command(*base, "--ignore", "a\nb", code=2).stderr


def test_names_that_are_nearly_right_are_recognised(parts):
    for name in ("return", "RETURNED", "was_returned"):
        stderr = " ".join(command("inspect", parts / "first.csv", "-t", name, code=2).stderr.split())
        assert 'did you mean "returned"? The columns are "transaction_id"' in stderr
    stderr = " ".join(command("run", parts / "first.csv", "-t", "nosuch", code=2).stderr.split())
    assert 'no column "nosuch"; the columns are' in stderr


def test_wide_rows_get_the_memory_that_they_need(tmp_path):
    lines = [f"{i % 4} {1 + i % 4}:1 {5 + i}:1 {2**18}:0.5" for i in range(300)]
    (tmp_path / "wide.svm").write_text("\n".join(lines) + "\n")
    done = command("run", tmp_path / "wide.svm", "--save", tmp_path / "m")
    assert "which 4 classes and rows of 262,145 features need; give --memory to set it" in done.stderr
    model = budgetron.load(tmp_path / "m")
    assert model.nbytes_ <= int(model.memory.removesuffix("MB")) * 2**20
    assert model.mistakes_ < 30
    done = command("run", tmp_path / "wide.svm", "--memory", "1MB", code=2)
    assert "memory must be at least" in done.stderr
