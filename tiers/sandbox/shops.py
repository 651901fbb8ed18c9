"""Where programs are run: in a sandbox of this machine, or by a service that the operator names."""

from __future__ import annotations

import os
from typing import NamedTuple

from tiers.sandbox import probe
from tiers.sandbox.probe import NoSandbox, Sandbox
from tiers.sandbox.remote import RemoteService, RemoteWorkshop
from tiers.sandbox.workshop import LocalWorkshop, Program, Workshop


class Shop(NamedTuple):
    """A workshop for one program; ``sandbox`` is set where it is on this machine."""

    workshop: Workshop
    sandbox: Sandbox | None


def chosen() -> Sandbox | RemoteService:
    """What ``VERIFIER_SANDBOX`` and ``VERIFIER_SANDBOX_URL`` ask for. Raises ``NoSandbox``.

    With ``auto``, a sandbox of this machine comes first and the service only where there is none.
    """
    choice = os.environ.get("VERIFIER_SANDBOX", "auto")
    address = os.environ.get("VERIFIER_SANDBOX_URL", "")
    if choice != "remote":
        try:
            return probe.find(choice)
        except NoSandbox:
            if choice != "auto" or not address:
                raise
    if not address:
        raise NoSandbox("VERIFIER_SANDBOX is remote, and VERIFIER_SANDBOX_URL names no service")
    return RemoteService(address, os.environ.get("VERIFIER_SANDBOX_KEY", ""))


def open_shop(program: Program, memory_mb: int) -> Shop:
    """Make a program ready to run. Raises ``CompileFault``, ``Transient``, ``NoSandbox``."""
    found = chosen()
    if isinstance(found, RemoteService):
        return Shop(RemoteWorkshop(found, program), None)
    return Shop(LocalWorkshop(found, program, memory_mb), found)
