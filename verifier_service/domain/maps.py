"""A quantity map: how a cheap measurement becomes a statement about the dear one, with its error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from verifier_service.domain.evidence import Measurement
from verifier_service.domain.records import Record

CLASS_LABEL = "chemistry_class"


class MapClass(Record):
    """A straight line fitted on ``n`` pairs: target = slope * source + intercept, residual ``sigma``.

    ``intercept`` and ``sigma`` are in the target's unit, ``slope`` in target unit per source unit.
    """

    slope: float
    intercept: float
    sigma: Annotated[float, Field(ge=0.0)]
    n: Annotated[int, Field(ge=0)]


class QuantityMap(Record):
    """One fitted map between two quantities, with a line per class of candidates.

    ``default`` serves candidates without a class or of a class that the fit did not see.
    """

    name: str
    version: str
    source: str
    target: str
    unit: str
    classes: dict[str, MapClass] = {}
    default: MapClass

    def apply(self, measurement: Measurement, labels: Mapping[str, str]) -> Measurement:
        """Return the target quantity in ``unit``, sigma = sqrt((slope * sigma_in)^2 + sigma_class^2).

        ``labels["chemistry_class"]`` picks the line. An unknown input sigma counts as 0: the residual
        of the fit was found on measurements of the same kind. Raises ``ValueError`` when the
        measurement is not of the source quantity.
        """
        if measurement.quantity != self.source:
            raise ValueError(f"map {self.name} takes {self.source}, not {measurement.quantity}")
        line = self.classes.get(labels.get(CLASS_LABEL, ""), self.default)
        return Measurement(
            quantity=self.target,
            value=line.slope * measurement.value + line.intercept,
            unit=self.unit,
            sigma=math.hypot(line.slope * (measurement.sigma or 0.0), line.sigma),
        )
