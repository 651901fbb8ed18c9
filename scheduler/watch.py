"""The watch over audits: does a verifier still foretell the truth as it did?

Each audit gives a standardised error z = (believed - found) / sd, high where the belief was too high. Its
rank among earlier audits of the same stratum is uniform while nothing changes, whatever the errors'
distribution; the normal score of the rank drives a Shiryaev-Roberts statistic, averaged over the sizes of
shift that it looks for (Shiryaev 1963; Pollak 1985, Ann. Stat. 13, 206; on ranks: Gordon and Pollak 1994,
Ann. Stat. 22, 763). It asks for errors that grow, the signature of a policy that games a cheap verifier.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtri

FORMAT = "watch/1"
SHIFTS = (0.25, 0.5, 1.0, 1.5)  # in normal scores
REFERENCE = 30  # audits before any alarm
MOST_KEPT = 400
# Exceeded in 5 % of undisturbed streams of 200 audits, by simulation (``tests/unit/test_watch.py``).
THRESHOLD = 1_600.0
_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Response:
    """What an alarm does where it stands: factors on the variance and on the share of audits."""

    variance_factor: float = 2.0
    audit_factor: float = 2.0


RESPONSE = Response()


@dataclass(slots=True)
class Stratum:
    """Sorted errors of earlier audits, how many there were, and the statistic per size of shift."""

    errors: list[float] = field(default_factory=list)
    audits: int = 0
    statistics: list[float] = field(default_factory=lambda: [0.0] * len(SHIFTS))

    def saw(self, error: float, tie: float) -> float:
        """Add one; the mean statistic afterwards, 0 while the reference is collected."""
        below, above = bisect_left(self.errors, error), bisect_right(self.errors, error)
        rank = (below + tie * (above - below + 1)) / (len(self.errors) + 1)
        if self.audits >= REFERENCE:
            score = float(ndtri(min(max(rank, _EDGE), 1.0 - _EDGE)))
            self.statistics = [
                (value + 1.0) * math.exp(shift * score - shift * shift / 2)
                for value, shift in zip(self.statistics, SHIFTS, strict=True)
            ]
        self.audits += 1
        if len(self.errors) < MOST_KEPT:
            insort(self.errors, error)
        return sum(self.statistics) / len(SHIFTS)


@dataclass(slots=True)
class Watch:
    """All strata of one ladder; a stratum begins when its first audit comes."""

    strata: dict[str, Stratum] = field(default_factory=dict)

    def saw(self, stratum: str, error: float, key: str) -> dict[str, Any] | None:
        """Look at one audit, named ``key``. On an alarm its statistic, the threshold and the number of
        audits; the stratum then begins anew."""
        if not math.isfinite(error):
            return None
        state = self.strata.setdefault(stratum, Stratum())
        statistic = state.saw(error, _uniform(f"{stratum}\0{key}"))
        if statistic <= THRESHOLD:
            return None
        del self.strata[stratum]
        return {"statistic": statistic, "threshold": THRESHOLD, "audits": state.audits}

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the watch goes on."""
        return {
            "format": FORMAT,
            "strata": {
                name: [state.errors, state.audits, state.statistics]
                for name, state in sorted(self.strata.items())
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Watch:
        """The watch that ``as_json`` wrote; a new one for another format."""
        if document.get("format") != FORMAT:
            return cls()
        return cls({name: Stratum(*parts) for name, parts in document["strata"].items()})


def _uniform(text: str) -> float:
    word = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(word, "big") >> 11) / 2.0**53
