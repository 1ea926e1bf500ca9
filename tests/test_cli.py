"""The command line as a user meets it: in a process of its own."""

import atexit
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pytest

import budgetron
from budgetron import Forgetron, evaluate, river, streams
from budgetron.cli._sources import BUNDLED

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "BUDGETRON_DATA"} | {
    "COLUMNS": "200"
}


@cache
def server():
    started = forked.Server(ENVIRONMENT)
    atexit.register(started.close)
    return started


def budgetron_command(*arguments, stdin=None, cwd=None, anew=False):
    """Run the command; what it said, on both channels, and its exit code.

    Forked from a process that has imported everything; `anew`, or given an input, Python starts for it.
    """
    arguments = [str(argument) for argument in arguments]
    if hasattr(os, "fork") and stdin is None and not anew:
        return server().run(arguments, cwd)
    return subprocess.run(
        [sys.executable, "-m", "budgetron", *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=ENVIRONMENT,
        timeout=120,
    )


def text_of(done):
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file with numbers, a category and two classes."""
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(2),
            "city": rng.choice(["paris", "rome", "oslo"], n),
            "income": rng.normal(size=n).round(3),
        }
    )
    score = (frame["age"] - 40) / 10 * frame["income"] + (frame["city"] == "rome") - 0.3
    frame["label"] = np.where(score + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


# ---------------------------------------------------------------------- what it does


def test_run_save_predict(table, tmp_path):
    done = budgetron_command(
        *("run", table, "--target", "label", "--budget", 200, "--save", tmp_path / "m.budgetron", "--json"),
        anew=True,
    )
    assert done.returncode == 0, text_of(done)
    (said,) = json.loads(done.stdout)["streams"].values()
    (figures,) = said["results"]

    # The same by the library
    stream = streams.read(table, "label", constant=True)
    result = evaluate.progressive(Forgetron(200), stream)
    assert figures["mistakes"] == result.mistakes
    assert figures["confusion"] == result.confusion.tolist()
    model = budgetron.load(tmp_path / "m.budgetron")
    np.testing.assert_array_equal(model.dual_coef_, result.model.dual_coef_)

    # Predictions of rows without label, in another order of columns
    rows = pd.read_csv(table)
    rows[["income", "city", "age"]].head(500).to_csv(tmp_path / "new.csv", index=False)
    done = budgetron_command("predict", tmp_path / "m.budgetron", tmp_path / "new.csv", "--margins")
    assert done.returncode == 0, text_of(done)
    predicted = pd.read_csv(tmp_path / "new.csv").assign(prediction=0)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "prediction,margin yes"
    blocks = list(streams.read(tmp_path / "new.csv", encoder=stream.encoder))
    margins = np.concatenate([model.decision_function(X) for X, _ in blocks])
    np.testing.assert_allclose([float(line.split(",")[1]) for line in lines[1:]], margins)
    assert [line.split(",")[0] for line in lines[1:]] == np.where(margins > 0, "yes", "no").tolist()
    assert len(predicted) == len(lines) - 1 == 500

    # With labels, and to a file
    out = tmp_path / "out.jsonl"
    done = budgetron_command("predict", tmp_path / "m.budgetron", table, "--json", "-o", out)
    wrong = [json.loads(line)["prediction"] for line in out.read_text().splitlines()] != rows["label"]
    assert f"{100 * wrong.mean():.2f} % of those with a label differ" in done.stderr.decode()


def test_run_without_a_choice(table, tmp_path):
    path = tmp_path / "m.budgetron"
    done = budgetron_command("run", table, "--target", "label", "--memory", "1MB", "--json", "--save", path)
    assert done.returncode == 0, text_of(done)
    model = budgetron.load(path)
    assert model.get_params() == {"memory": "1MB", "random_state": 0}
    assert model.nbytes_ <= 1 << 20
    (said,) = json.loads(done.stdout)["streams"].values()
    (result,) = said["results"]
    assert result["learner"] == "BudgetClassifier"
    assert result["mistakes"] == model.mistakes_
    for options, message in (
        (["--memory", "1MB", "--budget", "9"], "the learner budget has no --budget"),
        (["-l", "budget", "--average"], "the learner budget has no --budget, --gamma or --average"),
        (["-l", "budget:memory=1MB", "--memory", "2MB"], "memory is given twice"),
        (["--memory", "1MB", "-l", "forgetron"], "--memory is for the learner budget"),
        (["--memory", "much"], "memory must be a number of bytes"),
        (["--memory", "1kB"], "memory must be at least"),
    ):
        done = budgetron_command("run", table, "--target", "label", *options)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())


def test_compare_without_options(table, tmp_path):
    page = tmp_path / "out.html"
    done = budgetron_command("compare", table, "--target", "label", "--report", page)
    assert done.returncode == 0, text_of(done)
    for name in ("Forgetron", "ProjectronPlusPlus", "RandomizedBudgetPerceptron", "linear.AROW"):
        assert name in done.stdout.decode()
        assert name in page.read_text().replace(" ", "") or name.startswith(("Proj", "Rand", "linear"))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "budgetron compare" in page.read_text()


def test_compare_budgets_as_json(table):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "forgetron", "-l", "rbp:budget=7", "-b", 10, "-b", 40, "--json"
    )
    (said,) = json.loads(done.stdout)["streams"].values()
    assert [(r["learner"], r["supports"]) for r in said["results"]] == [
        ("Forgetron(budget=10)", 10),
        ("Forgetron(budget=40)", 40),
        ("RandomizedBudgetPerceptron", 7),
    ]


@pytest.mark.parametrize("form", ["pipe", "gz", "jsonl", "parquet"])
def test_every_form_gives_the_same(table, tmp_path, form):
    frame, source, stdin = pd.read_csv(table), tmp_path / f"table.{form}", None
    if form == "pipe":
        source, stdin = "-", table.read_bytes()
    elif form == "gz":
        source = tmp_path / "table.csv.gz"
        source.write_bytes(gzip.compress(table.read_bytes()))
    elif form == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    else:
        frame.to_parquet(source)
    done = budgetron_command("run", source, "-t", "label", "-b", 200, "--json", stdin=stdin)
    assert done.returncode == 0, text_of(done)
    (said,) = json.loads(done.stdout)["streams"].values()
    stream = streams.read(table, "label", constant=True)
    assert said["results"][0]["mistakes"] == evaluate.progressive(Forgetron(200), stream).mistakes


def test_tune_gives_a_command_that_runs(table):
    near = budgetron_command("tune", table, "-t", "label", "--rows", 200, "-g", 0.10001, "-g", 0.10002)
    assert near.returncode == 0, text_of(near)
    done = budgetron_command("tune", table, "-t", "label", "--rows", 1500, "-b", 20, "-b", 100, "--json")
    said = json.loads(done.stdout)
    assert said["rounds"] == 1500
    assert len(said["tried"]) == 14
    least = min(entry["error_rate"] for entry in said["tried"])
    advice = said["advice"]
    assert advice["error_rate"] <= 1.05 * least
    X, y = zip(*streams.read(table, "label", constant=True), strict=True)
    X, y = np.vstack(X)[:1500], np.concatenate(y)[:1500]
    model = Forgetron(advice["budget"], gamma=advice["gamma"])
    assert model.progressive_fit(X, y).error_rate == advice["error_rate"]


def test_certify(tmp_path):
    X, y, _ = streams.separable(400, 5, 0.2, random_state=0)
    lines = [
        " ".join([f"{label:g}", *(f"{j + 1}:{v}" for j, v in enumerate(row))])
        for row, label in zip(X, y, strict=True)
    ]
    (tmp_path / "rows.libsvm").write_text("\n".join(lines) + "\n")
    done = budgetron_command(
        "run", tmp_path / "rows.libsvm", "-l", "linear.perceptron", "--no-constant", "--certify", "--json"
    )
    (said,) = json.loads(done.stdout)["streams"].values()
    (certificate,) = said["certificates"].values()
    assert certificate["holds"]
    assert certificate["count"] == said["results"][0]["mistakes"] <= certificate["bound"] < 400


@pytest.mark.parametrize("options", [[], ["--no-scale", "--rows", "2500"]])
def test_the_certificate_is_that_of_the_run(table, options):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "perceptron", "-l", "pa", *options, "--certify", "--json"
    )
    assert done.returncode == 0, text_of(done)
    (said,) = json.loads(done.stdout)["streams"].values()
    perceptron = said["results"][0]
    assert said["certificates"]["KernelPerceptron"]["count"] == perceptron["mistakes"]
    assert said["certificates"]["KernelPerceptron"]["rounds"] == perceptron["rounds"]


def test_a_prefix_is_all_that_a_saved_model_has_seen(table, tmp_path):
    done = budgetron_command("run", table, "-t", "label", "--rows", 100, "--save", tmp_path / "m.budgetron")
    assert done.returncode == 0, text_of(done)
    assert budgetron.load(tmp_path / "m.budgetron").rounds_ == 100
    short = pd.read_csv(table).head(100)
    (tmp_path / "short.csv").write_text(short.to_csv(index=False))
    stream = streams.read(tmp_path / "short.csv", "label", constant=True)
    list(stream)
    saved = budgetron.files.load_extras(tmp_path / "m.budgetron")["encoder"]
    assert json.dumps(saved, default=np.ndarray.tolist) == json.dumps(
        stream.encoder.state(), default=np.ndarray.tolist
    )


def test_labels_of_rows_to_predict(tmp_path):
    rows = [f"{i % 7},{i % 5},{['1', '2', 'x'][i % 3]}" for i in range(300)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,y", *rows]))
    assert budgetron_command("run", "train.csv", "-t", "y", "--save", "m", cwd=tmp_path).returncode == 0
    (tmp_path / "numbers.csv").write_text("\n".join(["y,b,a", "1,0,0", "2,1,1", "1,4,4"]))
    said = budgetron_command("predict", "m", "numbers.csv", cwd=tmp_path)
    predicted = said.stdout.decode().split()[1:]
    wrong = sum(p != label for p, label in zip(predicted, ["1", "2", "1"], strict=True))
    assert f"{100 * wrong / 3:.2f} % of those with a label differ" in said.stderr.decode()
    (tmp_path / "gaps.csv").write_text("\n".join(["a,b,y", "0,0,", "1,1,", "4,4,never"]))
    said = budgetron_command("predict", "m", "gaps.csv", cwd=tmp_path)
    assert said.returncode == 0, text_of(said)
    assert said.stderr.decode() == "3 rows predicted\n"

    # LIBSVM rows with labels that mean nothing, and a model that does not know about columns
    (tmp_path / "train.svm").write_text(
        "\n".join(f"{1 if i % 2 else -1} 1:{i % 2} 2:{i % 7}" for i in range(99))
    )
    assert budgetron_command("run", "train.svm", "--save", "s", cwd=tmp_path).returncode == 0
    (tmp_path / "new.svm").write_text("0 1:1 2:3\n0 2:5\n")
    said = budgetron_command("predict", "s", "new.svm", cwd=tmp_path)
    assert said.stdout.decode().split() == ["prediction", "1", "-1"]
    assert said.stderr.decode() == "2 rows predicted\n"
    budgetron.save(Forgetron().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), tmp_path / "bare")
    said = budgetron_command("predict", "bare", "gaps.csv", cwd=tmp_path)
    assert said.returncode == 2
    assert "not saved by `budgetron run`" in said.stderr.decode()


def test_an_average_is_saved(table, tmp_path):
    done = budgetron_command(
        "run", table, "-t", "label", "--rows", 600, "--average", "--save", tmp_path / "m"
    )
    assert done.returncode == 0, text_of(done)
    model = budgetron.load(tmp_path / "m")
    X, y = next(iter(streams.read(table, "label", constant=True, limit=600)))
    expected = budgetron.batch.AveragedClassifier(Forgetron(200)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))


def test_it_tells_how_it_read_and_what_to_do_next(table):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "forgetron", "-l", "rbp", "--ignore", "age"
    )
    said = done.stderr.decode()
    assert "table.csv: 6 features: 1 numeric (income), 1 one-hot (city), constant; 2 classes: no, yes" in said
    command = said.partition("Next: budgetron ")[2].partition("  (")[0].split()
    assert command[:2] == ["tune", str(table)]
    next_done = budgetron_command(*command, "--rows", 300)
    assert next_done.returncode == 0, text_of(next_done)
    last = next_done.stderr.decode().partition("Next: budgetron ")[2].partition("  (")[0].split()
    assert last[0] == "run"
    assert budgetron_command(*last, "--rows", 300).returncode == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_nothing_is_replaced_but_files(table, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        done = budgetron_command("run", table, "-t", "label", "--save", path)
        assert done.returncode == 2
        assert "give the name of a file" in done.stderr.decode()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(table.read_bytes())
    done = budgetron_command("run", copy, "-t", "label", "--save", copy)
    assert done.returncode == 2
    assert copy.read_bytes() == table.read_bytes()
    assert (tmp_path / "pipe").is_fifo()


def test_rows_without_header(table, tmp_path):
    rows = table.read_text().splitlines()[1:]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    done = budgetron_command("run", "rows.csv", "-t", -1, "--no-header", "--save", "m", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)
    bare = "\n".join(row.rpartition(",")[0] for row in rows[:5])
    done = budgetron_command("predict", "m", "-", "--no-header", cwd=tmp_path, stdin=bare.encode())
    assert done.returncode == 0, text_of(done)
    assert len(done.stdout.decode().split()) == 1 + 5
    (tmp_path / "numbers.csv").write_text("1,2,0\n" * 5 + "2,1,1\n" * 5)
    done = budgetron_command("run", "numbers.csv", "-t", -1, cwd=tmp_path)
    assert "if there is no header, give --no-header" in done.stderr.decode()


def test_tabs_and_gaps(tmp_path):
    (tmp_path / "t.txt").write_text("a\tb\ty\n" + "1\t2\tu\n3\t1\tv\n" * 20)
    done = budgetron_command("run", "t.txt", "-t", "y", "--delimiter", "\\t", "--save", "m", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)
    (tmp_path / "gap.csv").write_text("a,b\n1,\n")
    done = budgetron_command("predict", "m", "gap.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "give --missing mean" in done.stderr.decode()
    done = budgetron_command("predict", "m", "gap.csv", "--missing", "mean", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)


def test_the_same_stream_twice(table):
    done = budgetron_command("compare", table, table, "-t", "label", "-l", "arow", "--json")
    assert len(json.loads(done.stdout)["streams"]) == 2


def test_datasets_and_help():
    done = budgetron_command("datasets", "--json")
    said = json.loads(done.stdout)
    assert {"adult", "mnist", "vehicle"} <= {entry["name"] for entry in said["datasets"]}
    assert {"digits", "two-gaussians"} == {entry["name"] for entry in said["bundled"]}
    assert {"name", "rows", "features", "classes", "description"} == set(said["bundled"][0])
    for entry in said["bundled"]:
        X, y = BUNDLED[entry["name"]].load()
        assert (entry["rows"], entry["features"], entry["classes"]) == (*X.shape, len(np.unique(y)))
    assert " 1,797 " in budgetron_command("datasets").stdout.decode()
    listed = budgetron_command("--help").stdout.decode()
    for command in ("run", "compare", "predict", "tune", "reproduce", "datasets"):
        assert f" {command} " in listed
    assert budgetron_command("--version", anew=True).stdout.decode() == f"budgetron {budgetron.__version__}\n"


def test_a_learner_by_each_of_its_names():
    from budgetron.cli._learners import ALIASES, learners_of, names

    for name in [*names(), *ALIASES]:
        (model,) = learners_of([name], [30], ["0.5"], seed=1)
        X, y = streams.two_gaussians(60, random_state=0)
        model.fit(np.abs(X), y)  # plain Winnow takes no negative weights, but any rows


# ---------------------------------------------------------------------- how it ends


def truncated(path):
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(b"a,b,y\n" + b"1,2,u\n3,4,v\n" * 50_000)[:-300])
    return path.with_suffix(".csv.gz")


def parquet_with_nulls(path):
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "y": ["u", "v", "u"]})
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


ROW = b"1.5,2.5,u\n0.5,1.5,v\n"

BAD = {
    "too many fields": (b"a,b,y\n" + ROW * 50_000 + b"1,2,3,u\n" + ROW, [], ":100002: "),
    "text in a numeric column": (b"a,b,y\n" + ROW * 5 + b"1,two,u\n" + ROW, [], ":12: "),
    "text in a numeric column, far on": (b"a,b,y\n" + ROW * 80_000 + b"1,two,u\n" + ROW, [], ":160002: "),
    "unknown label": (b"a,b,y\n" + ROW * 5 + b"1,2,w\n", ["--classes", "u,v"], ":12: "),
    "empty": (b"", [], "empty"),
    "header only": (b"a,b,y\n", [], "no rows"),
    "directory": (lambda path: path.parent, [], "directory"),
    "missing file": (lambda path: path.with_name("nosuch.csv"), [], "no such file"),
    "truncated gzip": (truncated, [], "cut short"),
    "Parquet with nulls": (parquet_with_nulls, [], "row 2"),
    "missing value": (b"a,b,y\n" + ROW + b"1,,u\n", [], ":4: "),
    "no such target": (b"a,b,z\n" + ROW, [], '"z"'),
    "one class": (b"a,b,y\n1,2,u\n3,4,u\n", [], "1 class"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    content, options, where = BAD[name]
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "bad.csv"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path = content(path)
    out = tmp_path / "out"
    out.mkdir()
    wanted = ["--save", out / "model.budgetron", "--report", out / "page.html"]
    done = budgetron_command("run", path, "--target", "y", *options, *wanted)
    said = done.stderr.decode()
    assert done.returncode == 2, text_of(done)
    assert said.startswith("budgetron: ")
    assert said.count("\n") == 1
    assert path.name in said
    assert where in said
    assert "Traceback" not in said
    assert done.stdout == b""
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "t.csv", "-t", "label", "-l", "forgetron:budge=3"], "no parameter budge; it has budget"),
        (["run", "t.csv", "-t", "label", "-l", "forgtron"], "there is no learner 'forgtron'"),
        (["run", "t.csv", "-t", "label", "-g", "-1"], "'gamma' parameter"),
        (["run", "t.csv", "-t", "label", "--save", "no/such/m"], "there is no folder"),
        (["run", "data:nosuch"], "there is no data set 'nosuch'; there are digits"),
        (["run", "data:digit"], "there is no data set 'digit'; did you mean data:digits?"),
        (["run", "digits"], "digits: no such file; the data set of this name is data:digits"),
        (["run", "https://example.org/a.csv"], "addresses are not read; fetch the file first"),
        (["run", "t.csv"], 'which column is the target? Give --target; there are "age"'),
        (["run", "t.csv", "-t", "income"], 'column "income": more than 1000 different labels'),
        (["predict", "t.csv", "t.csv"], "t.csv"),
        (["tune", "t.csv", "-t", "label", "-l", "arow"], "no width to tune"),
        (["run", "t.csv", "-t", "label", "--certify", "--delay", "3"], "labels that come at once"),
        (["reproduce", "nosuch"], "studies are adult"),
        (["run"], "Missing argument"),
        (["run", "t.csv", "--nosuch"], "No such option"),
    ],
)
def test_bad_arguments(table, tmp_path, arguments, said):
    (tmp_path / "t.csv").write_bytes(table.read_bytes())
    done = budgetron_command(*arguments, cwd=tmp_path)
    assert done.returncode == 2, text_of(done)
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.fixture(scope="module")
def rows_and_models(tmp_path_factory):
    """Files of each kind, and a model of each that was learned from one of them."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "t.csv").write_text("a,b,y\n" + "1.5,red,u\n-0.5,blue,v\n" * 20)
    (folder / "bare.csv").write_text("1.5,red,u\n-0.5,blue,v\n" * 20)
    (folder / "less.csv").write_text("b,y\nred,u\nblue,v\n")
    (folder / "one.libsvm").write_text("1 1:2 2:1\n0 1:-2 2:1\n" * 20)
    (folder / "zero.libsvm").write_text("1 0:2 1:1\n0 0:-2 1:1\n" * 20)
    (folder / "wide.libsvm").write_text("1 1:2 9:1\n")
    for source, options in {
        "t.csv": ["-t", "y"],
        "one.libsvm": [],
        "zero.libsvm": ["--zero-based"],
    }.items():
        # Not the default, which would learn that labels alternate
        done = budgetron_command("run", source, *options, "-b", 200, "--save", f"{source}.model", cwd=folder)
        assert done.returncode == 0, text_of(done)
    budgetron.save(river.Forgetron(), folder / "river.model")
    return folder


@pytest.mark.parametrize(
    ("model", "source", "options", "said"),
    [
        (
            "t.csv",
            "less.csv",
            [],
            'column "a" is missing; columns must be named as those that the model learned',
        ),
        ("t.csv", "bare.csv", ["--no-header"], 'learned, and are "c1", "c2", "c3"'),
        ("t.csv", "one.libsvm", [], "and the model learned a table; give rows with its columns"),
        ("t.csv", "digits", [], "the data set of this name is data:digits"),
        (
            "one.libsvm",
            "wide.libsvm",
            [],
            "index 9 is above 2, the highest that the model knows; leave it out",
        ),
        ("one.libsvm", "zero.libsvm", [], "indices count from 1, as in the rows that the model learned"),
        ("one.libsvm", "t.csv", [], "the model takes LIBSVM rows, of which a line is `label index:value"),
        ("one.libsvm", "t.csv", ["--format", "csv"], "the model takes LIBSVM rows; t.csv is csv"),
        ("river", "one.libsvm", [], "cannot be asked here; load it in Python"),
    ],
)
def test_rows_that_a_model_cannot_take(rows_and_models, model, source, options, said):
    done = budgetron_command("predict", f"{model}.model", source, *options, cwd=rows_and_models)
    message = done.stderr.decode()
    assert done.returncode == 2, text_of(done)
    assert said in message
    known = {
        "--output",
        "--margins",
        "--format",
        "--header",
        "--delimiter",
        "--target",
        "--missing",
        "--json",
    }
    assert set(re.findall(r"--[a-z]+", message)) <= known


def test_words_for_one_and_for_many(rows_and_models):
    done = budgetron_command("predict", "one.libsvm.model", "-", stdin=b"1 1:2\n", cwd=rows_and_models)
    assert done.stderr.decode().startswith("1 row predicted")
    note = "A budget is for one class; supports are those of all."
    done = budgetron_command("run", "data:digits", "--rows", 50, "--average", "-g", "auto")
    assert note in done.stdout.decode().splitlines()
    done = budgetron_command("run", "data:digits", "--rows", 50, "-l", "arow")
    assert done.returncode == 0
    assert note not in done.stdout.decode()


def test_a_quantity_is_no_class(rows_and_models, tmp_path):
    done = budgetron_command("run", "t.csv", "-t", "a", cwd=rows_and_models)
    assert done.returncode == 2
    assert (
        't.csv: column "a" has decimals, like -0.5, and what learns here are classifiers; choose another '
        in (done.stderr.decode())
    )
    (tmp_path / "a.libsvm").write_text("1.5 1:1\n2 1:2\n")
    done = budgetron_command("run", "a.libsvm", cwd=tmp_path)
    assert done.returncode == 2
    assert "its labels have decimals, like 1.5" in done.stderr.decode()


def test_indices_from_zero(rows_and_models):
    done = budgetron_command("run", "zero.libsvm", cwd=rows_and_models)
    assert done.returncode == 2
    assert "index 0; indices count from 1, unless --zero-based is given" in done.stderr.decode()
    predicted = budgetron_command("predict", "zero.libsvm.model", "zero.libsvm", cwd=rows_and_models)
    assert predicted.returncode == 0, text_of(predicted)
    assert "40 rows predicted, 0.00 %" in predicted.stderr.decode()
    advised = budgetron_command("compare", "zero.libsvm", "--zero-based", "--json", cwd=rows_and_models)
    assert advised.returncode == 0, text_of(advised)
    done = budgetron_command("run", "t.csv", "-t", "y", "--zero-based", cwd=rows_and_models)
    assert "--features and --zero-based are for LIBSVM files; t.csv is csv" in done.stderr.decode()


def wait_until_idle(process):
    """Until the process has worked, and then for a second has not."""
    worked, since = 0, time.monotonic()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (worked < 100 or time.monotonic() - since < 1.0):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        now = int(fields[11]) + int(fields[12])  # hundredths of a second of processor time
        if now != worked:
            worked, since = now, time.monotonic()
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc to see when to interrupt")
def test_interrupted_it_saves_what_it_learned(tmp_path):
    model = tmp_path / "m.budgetron"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "budgetron",
            "run",
            "-",
            "-t",
            "y",
            "--classes",
            "u,v",
            "-b",
            "200",
            "--save",
            str(model),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    process.stdin.write(b"a,b,y\n" + ROW * 60_000)  # more than the first piece, which decides the types
    process.stdin.flush()
    wait_until_idle(process)  # it waits for more rows
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Interrupted after 120,000 rounds" in error.decode()
    assert "Traceback" not in error.decode()
    assert budgetron.load(model).rounds_ == 120_000
    assert b"Forgetron" in said


def test_without_the_packages_of_the_command_line(tmp_path):
    (tmp_path / "typer.py").write_text("raise ImportError('no', name='typer')")
    done = subprocess.run(
        [sys.executable, "-m", "budgetron"],
        capture_output=True,
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 1
    assert done.stderr.decode().strip() == (
        "budgetron: the command line needs typer: pip install 'budgetron[cli]'"
    )
