"""Importing and warming a verifier in a child."""

from __future__ import annotations

from typing import NamedTuple

from tiers.catalog_sources import Sources, installed_version
from tiers.child_wire import Ready
from verifier_service.domain.verifiers import Verifier


class Unusable(Exception):
    """The verifier cannot run here; the message says why."""


class Warm(NamedTuple):
    """A verifier that can start at once, and what exactly was loaded."""

    verifier: Verifier
    ready: Ready


def warmed(sources: Sources, name: str) -> Warm:
    """Import a verifier and warm it. Raises ``Unusable``."""
    try:
        verifier = sources.load(name)
        reason = verifier.unavailable()
        if reason is None:
            verifier.warm()
    except Exception as error:
        raise Unusable(f"{type(error).__name__}: {error}") from error
    if reason is not None:
        raise Unusable(reason)
    libraries = {library: installed_version(library) for library in verifier.info.libraries}
    return Warm(verifier, Ready(verifier=name, version=verifier.info.version, libraries=libraries))
