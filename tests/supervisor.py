"""Run numbered tasks in other processes, which may crash or hang."""

import multiprocessing
import queue
import threading

# Seconds without a sign of life after which a process hangs.
SILENCE = 60.0


class Reporter:
    """What a worker tells the supervisor.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
    """

    def __init__(self, connection):
        self._connection = connection

    def ready(self):
        """All preparations are done."""
        self._connection.send("ready")

    def is_alive(self):
        """A long task makes progress."""
        self._connection.send("alive")

    def result(self, number, outcome, failure=""):
        """A task has ended; `failure` describes what went wrong."""
        self._connection.send((number, outcome, failure))


def supervise(worker, arguments, numbers, silence=SILENCE):
    """Yield the number, outcome and failure of each task, in order.

    Parameters
    ----------
    worker : callable
        Takes a `Reporter`, the arguments, and the numbers of its tasks. It runs in another process. If that
        process dies or hangs, its task has failed, and a new process continues with the next task.
    """
    context = multiprocessing.get_context("spawn")
    numbers = list(numbers)
    while numbers:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_start, args=(worker, sender, arguments, numbers), daemon=True)
        process.start()
        sender.close()
        ready = False
        try:
            while numbers:
                if not receiver.poll(silence):
                    raise TimeoutError
                message = receiver.recv()
                if message == "ready":
                    ready = True
                elif message != "alive":
                    assert message[0] == numbers.pop(0)
                    yield message
        except (EOFError, TimeoutError) as error:
            process.join(1.0 if isinstance(error, EOFError) else 0.0)
            if not ready:
                raise RuntimeError("the process failed before its first task") from error
            hangs = isinstance(error, TimeoutError)
            yield (
                numbers.pop(0),
                "failed",
                "the process hangs" if hangs else f"the process died: {process.exitcode}",
            )
        finally:
            process.kill()
            process.join()
            receiver.close()


def _start(worker, connection, arguments, numbers):
    worker(Reporter(connection), *arguments, numbers)


def supervise_several(processes, worker, arguments, numbers, silence=SILENCE):
    """Do what `supervise` does with several processes at a time, and yield results as they come."""
    results, numbers = queue.Queue(), list(numbers)

    def run(part):
        try:
            for result in supervise(worker, arguments, part, silence):
                results.put(result)
            results.put(None)
        except BaseException as error:
            results.put(error)

    for i in range(processes):
        threading.Thread(target=run, args=(numbers[i::processes],), daemon=True).start()
    left = processes
    while left:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        if result is None:
            left -= 1
        else:
            yield result
