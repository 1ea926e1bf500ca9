"""Startup imports only what is needed; tables and progress fit the terminal."""

import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import budgetron
from budgetron import evaluate, linear, streams
from budgetron.cli import COMMANDS, _console, _load, _progress, _tasks, _terminal, app

SLOW = ("numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "pandas")


def imported_by(program):
    """Return which of the packages that take long to import a program imports."""
    program += f"\nimport sys; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return done.stdout.splitlines()[-1]


def test_importing_the_package_imports_nothing_slow():
    assert imported_by("import budgetron") == "[]"
    assert imported_by("from budgetron.cli import app") == "[]"
    help_text = "from typer.testing import CliRunner; from budgetron.cli import app\n"
    help_text += "assert CliRunner().invoke(app, ['--help']).exit_code == 0"
    assert imported_by(help_text) == "[]"


def test_names_are_imported_when_they_are_used():
    names = budgetron.__all__
    assert {"Forgetron", "BudgetClassifier", "linear", "save", "certify", "Trace"} <= set(names)
    for name in names:
        assert getattr(budgetron, name) is not None
    assert set(names) <= set(dir(budgetron))
    assert budgetron.Forgetron is budgetron.kernelized.Forgetron
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchLearner'"):
        _ = budgetron.NoSuchLearner
    with pytest.raises(ImportError):
        exec("from budgetron import nosuch")
    space = {}
    exec("from budgetron import *", space)
    assert set(names) <= set(space)


def test_the_list_of_commands_has_the_first_line_of_each_help():
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    for name, (_, line) in COMMANDS.items():
        assert _load(name).help.splitlines()[0] == line
        assert line in text
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["run"], ["predict"], ["tune"], ["serve"]])
def test_help_shows_no_type_for_options_without_a_value(arguments):
    text = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"}).stdout
    assert "--help" in text
    assert "bool" not in text.lower()


@pytest.fixture(scope="module")
def comparison():
    X, y = streams.two_gaussians(3000, random_state=0)
    y = np.where(X[:, 0] > 1.5, 1, -1)
    learners = {
        "linear.AROW": linear.AROW(),
        "a learner with a name that is longer than a line of a terminal: " + "x" * 60: linear.Perceptron(),
    }
    return evaluate.compare(learners, (X, y))


def printed(renderable, width):
    """Return the lines of what a console of this width prints."""
    file = io.StringIO()
    Console(width=width, file=file).print(renderable)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_tables_fit_the_width(comparison, width):
    lines = printed(_terminal.results_table(comparison.results, "t.csv"), width)
    lines += printed(_terminal.rare_table(comparison.results), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for result in comparison.results:  # no figure is cut
        for figure in (
            f"{100 * result.error_rate:.2f}",
            f"{100 * result.recall[1]:.1f}",
            f"{result.auc:.3f}",
        ):
            assert figure in text


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("0", 80), ("3", 80), ("133", 133)])
def test_an_unknown_width_is_80_columns(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    console = _console.SafeConsole()
    assert console.width == console.size.width == width


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_progress_line_is_one_line(comparison, monkeypatch, width, task):
    console = _console.SafeConsole(stderr=True)
    console.size = (width, 25)
    monkeypatch.setattr(_progress, "err", console)
    bars = []

    class Progress(_progress.Progress):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            bars.append(self)

    monkeypatch.setattr(_progress, "Progress", Progress)
    if task == "regression":
        X = np.random.default_rng(0).normal(size=(3000, 2))
        comparison = evaluate.compare([linear.AROWRegressor()], (X, 1e5 * X[:, 0]))
    rows = SimpleNamespace(n_rows=3000, size=None, position=0)
    title, figures = "/a/very/long/path/to/a/file/with/a/long/name.csv", _tasks.task_of(task).figures
    with _progress.progress(rows, title, comparison, figures) as show:
        show()
        (line,) = printed(bars[0].get_renderable(), width)
    assert "long/name.csv" in line
    assert "3,000 rounds" in line
    assert "…" not in line


UNUSED = (
    "budgetron.datasets",
    "budgetron.kernelized",
    "budgetron.portfolio",
    "numpy._core._add_newdocs",
    "numpy.f2py.f2py2e",
    "pandas",
    "rich.progress",  # for terminals
    "scipy.optimize",
    "scipy.special._ufuncs",
    "scipy.stats._stats_py",
)
COMMAND = """
import gc, sys
from budgetron.__main__ import main
sys.argv = ["budgetron", *{arguments}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert gc.isenabled()
# A postponed module has no file until it is used.
print([name for name in {unused} if name in sys.modules and "__file__" in vars(sys.modules[name])])
"""


# Old versions of scikit-learn import these themselves.
BY_LIBRARIES = """
import sys
from budgetron.cli._startup import avoid_slow_imports
avoid_slow_imports(["run"])
import sklearn.base
print([name for name in ("scipy.optimize", "scipy.special._ufuncs") if name in sys.modules])
"""


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_a_run_does_not_import_what_it_does_not_use(tmp_path, suffix):
    text = {"csv": "a,b,y\n1,2.5,0\n3,4.5,1\n", "svm": "1 1:2\n-1 2:3\n"}[suffix]
    (tmp_path / f"rows.{suffix}").write_text(text)
    arguments = ["run", str(tmp_path / f"rows.{suffix}"), "-l", "linear.pa"]
    arguments += ["-t", "y"] if suffix == "csv" else []
    lines = []
    for program in (BY_LIBRARIES, COMMAND.format(arguments=arguments, unused=UNUSED)):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
        lines.append(done.stdout.splitlines()[-1])
    by_libraries, by_command = lines
    assert by_command == by_libraries


POSTPONED = """
import sys
from budgetron.cli._startup import avoid_slow_imports
avoid_slow_imports({arguments})
import scipy.special, scipy.stats, numpy.f2py
assert "scipy.special._ufuncs" not in sys.modules
assert "scipy.stats._stats_py" not in sys.modules
import scipy.stats.distributions
from scipy.stats import norm
assert norm.cdf(0.0) == 0.5 and scipy.stats.norm is norm and sys.modules["scipy.stats"].norm is norm
assert callable(numpy.f2py.get_include)
assert scipy.special.expit(0.0) == 0.5
try:
    import pandas
    print("pandas")
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["run", "a.csv"], "this command does not use pandas"),
        (["run", "data:letter"], "pandas"),
        (["datasets"], "pandas"),
        ([], "pandas"),
    ],
)
def test_postponed_modules_are_imported_when_they_are_used(arguments, found):
    pytest.importorskip("pandas")
    program = POSTPONED.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == found
