"""What the service does with connections."""

import asyncio

from budgetron.serve._protocol import JoinedWrites, LimitedProtocol


class Transport:
    def __init__(self):
        self.done = []

    def write(self, data):
        self.done.append(data)

    def close(self):
        self.done.append("closed")

    def is_closing(self):
        return "closed" in self.done


def test_head_and_body_of_a_response_are_sent_together():
    async def write():
        transport = Transport()
        joined = JoinedWrites(transport, asyncio.get_running_loop())
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.done == []
        await asyncio.sleep(0)
        assert transport.done == [b"head body"]
        joined.write(b"more")
        assert not joined.is_closing()
        joined.close()
        await asyncio.sleep(0)
        assert transport.done == [b"head body", b"more", "closed"]
        assert joined.is_closing()

    asyncio.run(write())


class Unread(Transport):
    """A transport with data that the client has not read."""

    size = 100_000

    def get_write_buffer_size(self):
        return self.size

    def abort(self):
        self.done.append("aborted")


class Timers:
    """An event loop with one timer, which the test runs."""

    def call_later(self, seconds, action):
        self.action = action
        return self

    def cancel(self):
        self.action = None


def test_a_client_that_reads_nothing_is_disconnected():
    protocol = object.__new__(LimitedProtocol)
    protocol.transport, protocol.loop = Unread(), Timers()
    protocol._start_reading()
    protocol.transport.size -= 1  # the client has read something
    protocol.loop.action()
    assert protocol.transport.done == []
    protocol.loop.action()
    assert protocol.transport.done == ["aborted"]
