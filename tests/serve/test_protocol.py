"""What the service does with connections."""

import asyncio

from budgetron.serve._protocol import JoinedWrites


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
