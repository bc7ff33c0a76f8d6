"""A peer that can be cut off: ``{"do": "block", "peers": [...]}`` drops what goes to some others and comes from them.

Everything else is `twigcast overlay peer`.
"""

from __future__ import annotations

import json
from typing import Any

from twigcast.cli import main
from twigcast.overlay.onyx.network.tls import Certificates, host_and_port
from twigcast.peers import driver, process
from twigcast.peers.addresses import address_of

BLOCKED: set[int] = set()


class BlockedDriver(driver.PeerDriver):
    """A driver that loses all messages from and to some peers."""

    def _send(self, to: int, message: Any) -> None:
        if to not in BLOCKED:
            super()._send(to, message)

    def _receive(self, sender: int, message: Any) -> None:
        if sender not in BLOCKED:
            super()._receive(sender, message)


class BlockedProcess(process.PeerProcess):
    """The process of a peer that also obeys `block`."""

    def __init__(
        self, member: process.Member, identity: driver.PeerIdentity, certificates: Certificates | None
    ) -> None:
        super().__init__(member, identity, certificates, make_driver=BlockedDriver)

    def _obey(self, line: str) -> None:
        order = json.loads(line)
        if order["do"] != "block":
            super()._obey(line)
            return
        BLOCKED.clear()
        BLOCKED.update(address_of(*host_and_port(peer)) for peer in order["peers"])
        self.tell({"event": "blocked", "peers": order["peers"]})


if __name__ == "__main__":
    vars(process)["PeerProcess"] = BlockedProcess
    main()
