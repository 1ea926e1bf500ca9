"""Run `python -m budgetron` in separate processes, without the time to start Python and import modules.

`Server` starts one process that imports everything, and forks a child for every command. Like any process, a
child has its own arguments, working directory, output and exit code. Only the modules are already imported.
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

TIME_LIMIT = 120  # seconds, after which a command is killed


class Server:
    """A process that runs commands, one after the other, with the given environment variables."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(self, arguments, cwd=None, broken_pipe=False):
        """Run one command and return what `subprocess.run` would return.

        With `broken_pipe`, standard output is a pipe whose reader has closed it.
        """
        with tempfile.TemporaryDirectory() as folder:
            request = [list(arguments), str(cwd or Path.cwd()), folder, broken_pipe]
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
            outputs = [Path(folder, channel).read_bytes() for channel in ("1", "2")]
        return subprocess.CompletedProcess(arguments, code, *outputs)

    def close(self):
        self.process.communicate()


def run_child(arguments, cwd, folder, broken_pipe):
    """Run a command in a forked child, with an empty standard input, and exit."""
    code = 1
    try:
        signal.alarm(TIME_LIMIT)
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for channel in (1, 2):
            os.dup2(os.open(os.path.join(folder, str(channel)), os.O_WRONLY | os.O_CREAT), channel)
        if broken_pipe:
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
        sys.argv = ["", *arguments]
        runpy.run_module("budgetron", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve():
    """Fork a child for each request on standard input, and print its exit code."""
    from budgetron.cli import app

    # Some modules are imported only when a command runs. This command ends at once, and imports them for all
    # children. Its errors are ignored, because the tests will show them.
    ignored = io.StringIO()
    with (
        contextlib.redirect_stdout(ignored),
        contextlib.redirect_stderr(ignored),
        contextlib.suppress(SystemExit, Exception),
    ):
        app(["run", os.path.join(os.devnull, "absent.csv")])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run_child(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
