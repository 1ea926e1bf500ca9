"""`python -m budgetron` in processes of their own that need not begin with Python's start and all imports.

`Server` starts one process that imports everything, and forks a child of it for every command. A child has
its own arguments, folder, output and end, as any process has; only its modules are there already.
"""

import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

SECONDS = 120  # after which a command is killed


class Server:
    """Runs commands, one after the other, in the environment given."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(self, arguments, cwd=None):
        """What `subprocess.run` would return."""
        with tempfile.TemporaryDirectory() as folder:
            request = [list(arguments), str(cwd or Path.cwd()), folder]
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
            outputs = [Path(folder, channel).read_bytes() for channel in ("1", "2")]
        return subprocess.CompletedProcess(arguments, code, *outputs)

    def close(self):
        self.process.communicate()


def live(arguments, cwd, folder):
    """The life of a child: as `python -m budgetron`, from nothing on its standard input."""
    code = 1
    try:
        signal.alarm(SECONDS)
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for channel in (1, 2):
            os.dup2(os.open(os.path.join(folder, str(channel)), os.O_WRONLY | os.O_CREAT), channel)
        sys.argv = ["", *arguments]
        runpy.run_module("budgetron", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve():
    from budgetron.cli import app

    # A first command, that ends at once: what is imported when one comes is there for all.
    # Whatever is wrong with it, the others will say.
    quiet = io.StringIO()
    with (
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        contextlib.suppress(SystemExit, Exception),
    ):
        app(["run", os.path.join(os.devnull, "absent.csv")])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
