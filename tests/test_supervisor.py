"""The supervisor of long runs notices processes that die or hang, and continues with the next task."""

import os
import signal
import time

import pytest
from supervisor import supervise, supervise_several


def worker(reporter, deed, numbers):
    reporter.ready()
    for number in numbers:
        if number == 1:
            deed()
        reporter.is_alive()
        reporter.result(number, "passed")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(600)


def fail():
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("deed", "message"), [(die, "the process died: -9"), (fail, "the process died: 3"), (hang, "hangs")]
)
def test_a_process_that_fails(deed, message):
    results = list(supervise(worker, (deed,), range(3), silence=5.0))
    assert results[0] == (0, "passed", "")
    assert results[1][:2] == (1, "failed")
    assert message in results[1][2]
    assert results[2] == (2, "passed", "")


def test_several_processes():
    results = sorted(supervise_several(2, worker, (die,), range(5)))
    assert [outcome for _, outcome, _ in results] == ["passed", "failed", "passed", "passed", "passed"]


def test_a_worker_that_cannot_start():
    with pytest.raises(RuntimeError, match="before its first task"):
        list(supervise(missing_argument, (), range(2)))


def missing_argument(reporter):
    raise AssertionError("is called with the numbers, too")
