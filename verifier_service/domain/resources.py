"""What a verifier needs of a machine, what a machine offers, and what is lacking between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from verifier_service.domain.records import Record

Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$")]


class Needs(Record):
    """What a verifier must find besides the memory of its limit: ``cpus`` in cores, ``gpus`` in devices,
    and ``tags``, names that an operator gives to workers (a licence, a data set, a kind of device)."""

    cpus: float = Field(default=0.0, ge=0.0)
    gpus: int = Field(default=0, ge=0)
    tags: tuple[Tag, ...] = ()


class Offer(Record):
    """What a worker has: ``cpus`` in cores (a container may have half of one), ``gpus`` in devices,
    ``memory_mb`` in MiB, and its tags."""

    cpus: float = Field(gt=0.0)
    gpus: int = Field(default=0, ge=0)
    memory_mb: int = Field(gt=0)
    tags: tuple[Tag, ...] = ()


def lacking(needs: Needs, memory_mb: int, offer: Offer) -> str | None:
    """What an offer lacks of what is needed, in words; ``None`` when it has everything.

    ``memory_mb`` is the limit of the verifier's attempts in MiB: an attempt may use all of it.
    """
    return ", ".join(_missing(needs, memory_mb, offer)) or None


def _missing(needs: Needs, memory_mb: int, offer: Offer) -> Iterator[str]:
    for tag in sorted(set(needs.tags) - set(offer.tags)):
        yield f"no tag {tag}"
    if needs.gpus > offer.gpus:
        yield f"{offer.gpus} of {needs.gpus} GPUs" if offer.gpus else "no GPU"
    if needs.cpus > offer.cpus:
        yield f"{offer.cpus:g} of {needs.cpus:g} cores"
    if memory_mb > offer.memory_mb:
        yield f"{offer.memory_mb} of {memory_mb} MiB of memory"
