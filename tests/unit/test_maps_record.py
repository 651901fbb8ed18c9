"""A map turns one quantity into another, with the error of both."""

from __future__ import annotations

import math

import pytest

from verifier_service.domain.evidence import Measurement
from verifier_service.domain.maps import MapClass, QuantityMap

MAP = QuantityMap(
    name="a-to-b",
    version="1",
    source="a",
    target="b",
    unit="eV",
    classes={"aromatic": MapClass(slope=2.0, intercept=-1.0, sigma=0.4, n=50)},
    default=MapClass(slope=0.5, intercept=1.0, sigma=0.9, n=200),
)


def measured(value: float = 3.0, sigma: float | None = 0.15) -> Measurement:
    return Measurement(quantity="a", value=value, unit="Ha", sigma=sigma)


def test_the_class_picks_the_line_and_both_errors_count() -> None:
    mapped = MAP.apply(measured(), {"chemistry_class": "aromatic"})
    assert (mapped.quantity, mapped.value, mapped.unit) == ("b", 5.0, "eV")
    assert mapped.sigma == pytest.approx(math.sqrt(0.3**2 + 0.4**2))


@pytest.mark.parametrize("labels", [{}, {"chemistry_class": "unseen"}, {"other": "aromatic"}])
def test_an_unknown_class_takes_the_default(labels: dict[str, str]) -> None:
    mapped = MAP.apply(measured(sigma=None), labels)
    assert mapped.value == 2.5
    assert mapped.sigma == 0.9


def test_another_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="takes a, not b"):
        MAP.apply(Measurement(quantity="b", value=1.0, unit="eV"), {})


def test_a_map_survives_json() -> None:
    assert QuantityMap.model_validate_json(MAP.model_dump_json()) == MAP
