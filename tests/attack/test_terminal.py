"""The command line prints data literally: labels, names and paths cannot style or control a terminal."""

import atexit
import csv
import io
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import forked
import numpy as np
import pytest
import typer
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from budgetron._reporting.page import escape
from budgetron.cli import COMMANDS, _console, _predict
from budgetron.cli._console import SafeConsole, visible
from budgetron.cli._messages import friendly
from budgetron.cli._progress import LiteralColumn

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and terminals of Unix")

# Markup of rich, sequences that control a terminal (also as one C1 character), and a change of direction.
PATH = "[red]data\x1b[31m\u202e.csv"
COLUMNS = ["[bold]a\x1b[2J", "b\x9b31m\nbudgetron: forged", ":smile:"]
LABELS = ["[/red]no\x1b]0;owned\x07", "yes\r\x1b[A"]
FOLDER = "[bold]folder\x1b[5m"
SHOWN = {text: visible(text) for text in (PATH, *COLUMNS, *LABELS, FOLDER)}

ENVIRONMENT = os.environ | {"COLUMNS": "1000", "BUDGETRON_DATA": FOLDER}


@cache
def server():
    started = forked.Server(ENVIRONMENT)
    atexit.register(started.close)
    return started


def run(*arguments, cwd):
    return server().run([str(argument) for argument in arguments], cwd)


def check_literal(done, *expected):
    """Fail if the output has a control character, or not the given texts as they are shown."""
    text = (done.stdout + done.stderr).decode()
    assert {c for c in text if not c.isprintable()} <= {"\n"}, text
    assert "Traceback" not in text, text
    for part in expected:
        assert SHOWN.get(part, part) in text, (part, text)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with hostile rows, and a model that learned them."""
    path = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    with open(path / PATH, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "y"])
        for row in rng.normal(size=(200, 3)).round(3):
            writer.writerow([*row, LABELS[int(row[0] * row[1] > 0)]])
    done = run("run", PATH, "-t", "y", "-l", "arow", "--save", FOLDER + ".model", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


# ---------------------------------------------------------------------- every command

CHECKPOINT = ["-t", "y", "-l", "arow", "--checkpoint", FOLDER, "--every", "50"]
REPORT = ["--report", FOLDER + ".html"]

# Arguments after the command and the path, the exit code, and texts that the output contains.
LEARN = [
    (
        "run",
        ["-t", "y", "-l", "forgetron", "--certify", "--save", FOLDER + ".x", *REPORT],
        0,
        [FOLDER, *LABELS],
    ),
    ("run", CHECKPOINT, 0, [PATH, *COLUMNS, *LABELS]),
    ("run", CHECKPOINT, 0, [FOLDER]),
    ("run", [*CHECKPOINT, "--delay", "1"], 2, [FOLDER]),
    ("run", ["-t", COLUMNS[0] + "x"], 2, [PATH, *COLUMNS]),
    ("run", ["-t", COLUMNS[0]], 0, [PATH, *COLUMNS[1:]]),  # numbers
    ("run", ["-t", COLUMNS[0], "--task", "classification"], 2, [PATH]),
    ("run", ["-t", "y", "--classes", "x,y"], 2, [PATH]),
    (
        "compare",
        [PATH, "-t", "y", "-l", "arow", "-l", "forgetron", *REPORT],
        0,
        [PATH, *COLUMNS, *LABELS, FOLDER],
    ),
    ("tune", ["-t", "y", "-b", "5", "-g", "1"], 0, [PATH]),
    ("inspect", ["-t", "y"], 0, [PATH, *COLUMNS, *LABELS]),
    ("inspect", ["-t", "y", "--json", "--ignore", COLUMNS[0] + "x"], 2, [PATH, *COLUMNS]),
]


@pytest.mark.parametrize(("command", "arguments", "code", "expected"), LEARN)
def test_commands_that_learn(folder, command, arguments, code, expected):
    done = run(command, PATH, *arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    text = check_literal(done, *expected)
    assert code == 0 or text.count("\n") == 1


def test_predict(folder):
    done = run("predict", FOLDER + ".model", PATH, "--margins", cwd=folder)
    assert done.returncode == 0
    rows = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
    assert {row[0] for row in rows[1:]} == set(LABELS)  # a file gets the labels unchanged
    done.stdout = b""
    check_literal(done, "200 rows predicted")
    done = run("predict", FOLDER + ".model", "absent" + PATH, cwd=folder)
    assert done.returncode == 2
    check_literal(done, PATH)
    done = run("predict", PATH, PATH, cwd=folder)
    assert done.returncode == 2
    check_literal(done, PATH)


def test_reproduce_and_datasets(folder):
    done = run("reproduce", FOLDER, cwd=folder)
    assert done.returncode == 2
    check_literal(done, FOLDER)
    done = run("datasets", cwd=folder)
    assert done.returncode == 0
    check_literal(done, FOLDER)


def test_serve(folder):
    for model in ("absent" + PATH, PATH):  # the second one is no model file
        done = run("serve", FOLDER, "--model", model, cwd=folder)
        assert done.returncode == 2
        check_literal(done, PATH)


def test_every_command_is_tested():
    assert set(COMMANDS) == {*(command for command, *_ in LEARN), "predict", "reproduce", "datasets", "serve"}


def test_html(folder):
    done = run("run", PATH, "-t", "y", "-l", "arow", "--report", "page.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert not set("\x1b\x07\x9b\u202e") & set(page)


@pytest.mark.parametrize("command", ["run", "compare", "tune"])
def test_json_is_ascii(folder, command):
    options = ["-b", "5", "-g", "1"] if command == "tune" else ["-l", "arow"]
    done = run(command, PATH, "-t", "y", *options, "--json", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.isascii()
    result = json.loads(done.stdout)
    assert ([result["stream"]] if command == "tune" else list(result["streams"])) == [PATH]


def test_scripts_in_labels_are_text_in_the_report(tmp_path):
    labels = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>']
    lines = [f'{i % 7},"{labels[i % 2].replace(chr(34), chr(34) * 2)}"' for i in range(40)]
    (tmp_path / "<script>.csv").write_text("\n".join(['"<b onclick=""x"">",y', *lines, ""]))
    done = run("run", "<script>.csv", "-t", "y", "-l", "arow", "--report", "r.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|img|b)\b", page)
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    assert escape("a\x1b\x9b\u202e") == "a\ufffd\ufffd\ufffd"


# ---------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "x", "--no\x1b[31m\u202e"],
        ["run", "x", "y\x1b[31m\u202e"],
        ["--no\x1b[31m\u202e"],
        ["no\x1b[31m\u202e"],
        ["run", "x\x1b[31m"],
        ["run", "data:x\x1b[31m"],
        ["run", "data:digits", "-l", "x\x1b[31m"],
        ["run", "data:digits", "--save", "no\x1b[31m/model"],
        ["run", "undecodable\udcff\x1b[31m"],
    ],
)
def test_errors_in_arguments(tmp_path, arguments):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    check_literal(done, "\\x1b[31m")


# ---------------------------------------------------------------------- a terminal


def on_terminal(arguments, cwd):
    """Run the command with all its channels on a terminal; return what it printed."""
    import pty  # not on Windows

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "budgetron", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=ENVIRONMENT | {"TERM": "xterm-256color"},
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # how Linux reports that the other side was closed
            break
        if not data:
            break
        printed += data
    os.close(ours)
    return process.wait(timeout=60), printed.decode()


@pytest.mark.parametrize("command", ["run", "predict"])
def test_progress_and_predictions_on_a_terminal(folder, command):
    arguments = {
        "run": ["run", PATH, "-t", "y", "-l", "arow"],
        "predict": ["predict", FOLDER + ".model", PATH],
    }
    code, text = on_terminal(arguments[command], folder)
    assert code == 0, text
    for sequence in ("\x1b]0;", "\x1b[31m", "\x1b[5m", "\x9b", "\u202e", "\x07"):
        assert sequence not in text
    assert SHOWN[LABELS[0]] in text
    if command == "run":
        assert "\x1b[" in text  # colours of rich itself
        assert f"opening {SHOWN[PATH]}" in text
        assert text.count(SHOWN[PATH]) >= 4  # opening, how it is read, progress, and the title of the table


def test_a_task_of_a_progress_line_is_literal():
    console = SafeConsole()
    with console.capture() as shown, Progress(LiteralColumn("{task.description}"), console=console) as bar:
        bar.add_task("[red]x\x1b[31m\n")
    assert shown.get().strip() == "[red]x\\x1b[31m\\n"


# ---------------------------------------------------------------------- the console


def test_visible():
    assert visible("plain é 漢 [red] \\") == "plain é 漢 [red] \\"
    assert visible("\0\t\n\r\x1b\x7f\x80\x9b\xa0") == r"\x00\t\n\r\x1b\x7f\x80\x9b\xa0"
    assert visible("\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041") == (
        r"\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041"
    )
    assert visible("\udcff") == r"\udcff"
    assert visible("é漢", "ascii") == r"\xe9\u6f22"
    long = visible("a" * 10**6 + "b")
    assert len(long) < 11_000
    assert (long[0], long[-1]) == ("a", "b")


def test_nothing_that_is_printed_is_markup():
    console = SafeConsole()
    table = Table(title="[/a]", caption="[/b]")
    table.add_column("[/c]")
    table.add_row("[/d]\x1b")
    with console.capture() as shown:
        console.print("[/e] :smile: 1.5")
        console.print(table)
        console.print(Text("two\nlines\x1b"))
        console.print_lines("three\nfour")
    text = shown.get()
    for part in (
        "[/a]",
        "[/b]",
        "[/c]",
        "[/d]\\x1b",
        "[/e] :smile: 1.5\n",
        "two\nlines\\x1b",
        "three\nfour\n",
    ):
        assert part in text
    assert "\x1b" not in text


def test_no_other_module_prints_by_itself():
    """Fail for a console, a column of text or markup outside of the module that makes them safe."""
    unsafe = re.compile(
        r"\brich\.console\b|(?<!\w)(Console|TextColumn|Status|print)\(|from_markup|rich\.print"
    )
    for path in Path(_predict.__file__).parent.glob("*.py"):
        if path.name != Path(_console.__file__).name:
            assert not unsafe.search(re.sub(r"\b(out|err)\.print\(", "", path.read_text())), path


def test_an_encoding_that_lacks_characters(tmp_path):
    (tmp_path / "t.csv").write_text("é,y\n" + "1,ja\n2,né\n" * 20, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "budgetron", "run", "t.csv", "-t", "y", "-l", "arow"],
        capture_output=True,
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert rb"n\xe9" in done.stdout + done.stderr


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("[/red]\x1b[31m\nbudgetron: forged"), r"budgetron: [/red]\x1b[31m\nbudgetron: forged"),
        (FileNotFoundError(2, "No such file", "a\x1b[31m"), r"budgetron: a\x1b[31m: No such file"),
        (MemoryError(), "budgetron: not enough memory"),
        (MemoryError("needs 4 GB"), "budgetron: not enough memory: needs 4 GB"),
        (RecursionError("maximum recursion depth exceeded"), "budgetron: the input is nested too deeply"),
        (OverflowError("int too large"), "budgetron: a number is too large: int too large"),
    ],
)
def test_errors_end_in_one_message(capsys, error, expected):
    with pytest.raises(typer.Exit) as end, friendly():
        raise error
    assert end.value.exit_code == 2
    assert capsys.readouterr() == ("", expected + "\n")


@pytest.mark.parametrize("redirection", [">&-", "2>&-"])
def test_closed_channels(redirection, tmp_path):
    command = f'exec "{sys.executable}" -m budgetron datasets {redirection}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == (redirection != ">&-")
    assert bool(done.stderr) == (redirection != "2>&-")
    assert b"Traceback" not in done.stderr


def test_a_reader_that_closes_the_pipe(folder):
    """As in `budgetron predict ... | head -1`: no traceback, and exit code 1."""
    with open(folder / PATH, newline="") as file:
        header, *rows = csv.reader(file)
    with open(folder / "long.csv", "w", newline="") as file:
        csv.writer(file).writerows([header, *(rows * 100)])
    calls = [
        ["predict", FOLDER + ".model", "long.csv"],
        ["run", PATH, "-t", "y", "-l", "arow", "--save", "piped.model"],
        ["datasets"],
        ["--help"],
    ]
    for call in calls:
        done = server().run(call, folder, broken_pipe=True)
        errors = done.stderr.decode()
        assert done.returncode == 1, errors
        assert "Traceback" not in errors
        assert "Exception" not in errors
    assert run("predict", "piped.model", PATH, cwd=folder).returncode == 0  # it was saved before


# ---------------------------------------------------------------------- spreadsheets


def test_formulas_in_predictions(tmp_path):
    labels = ["=cmd|' /C calc'!A0", "@SUM(1)", "-1", "+1e5", "\tx", "plain", "-x"]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", *(f"b{i}" for i in range(len(labels))), "y"])
        for i in range(40 * len(labels)):
            place = i % len(labels)
            writer.writerow([i % 5, *(int(place == j) for j in range(len(labels))), labels[place]])
    done = run("run", "t.csv", "-t", "y", "-l", "projectron++", "--save", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    def predictions(*options):
        done = run("predict", "m", "t.csv", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))[1:]

    unchanged = [row[0] for row in predictions()]
    assert set(unchanged) == set(labels)
    escaped = predictions("--escape-formulas", "--margins")
    expected = {
        "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
        "@SUM(1)": "'@SUM(1)",
        "\tx": "'\tx",
        "-x": "'-x",
    }
    assert [row[0] for row in escaped] == [expected.get(label, label) for label in unchanged]
    margins = [float(cell) for row in escaped for cell in row[1:]]  # numbers stay numbers
    assert min(margins) < 0
    done = run("predict", "m", "t.csv", "--escape-formulas", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert b"--escape-formulas is for CSV" in done.stderr
