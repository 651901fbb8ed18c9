"""Whatever attempts the cost model has seen: prices are finite, above 0, do not fall with size, and do not
depend on how the attempts came."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cost_model import PowerLaw
from verifier_service.domain.costs import NotedAttempt
from verifier_service.domain.evidence import Tier
from verifier_service.domain.verifiers import Limits, VerifierInfo

MODEL = PowerLaw()
AMOUNT = st.floats(min_value=1e-12, max_value=1e12)
ATTEMPTS = st.lists(
    st.builds(
        NotedAttempt,
        verifier=st.just("v"),
        method=st.just("m"),
        size=AMOUNT,
        cpu_s=st.one_of(AMOUNT, st.just(0.0)),
        found=st.booleans(),
    ),
    max_size=60,
)
INFOS = st.builds(
    VerifierInfo,
    name=st.just("v"),
    version=st.just("1"),
    tier=st.just(Tier.SIMULATION),
    summary=st.just(""),
    limits=st.just(Limits(time_s=1.0, memory_mb=1)),
    typical_cpu_s=st.floats(min_value=0.0, max_value=1e6),
    typical_size=st.floats(min_value=1e-3, max_value=1e6),
    cost_exponent=st.floats(min_value=0.0, max_value=6.0),
)


@settings(max_examples=60, deadline=None)
@given(INFOS, ATTEMPTS, st.lists(AMOUNT, min_size=2, max_size=8), st.integers(1, 7))
def test_prices(info: VerifierInfo, attempts: list[NotedAttempt], sizes: list[float], step: int) -> None:
    learned = MODEL.learn(info, attempts, None)
    pieces = None
    for start in range(0, len(attempts), step):
        pieces = MODEL.learn(info, attempts[start : start + step], pieces)
    assert pieces == learned or not attempts
    found = [MODEL.predict(info, size, learned.fit) for size in sorted(sizes)]
    for one in found:
        assert 0.0 < one.median_s <= 1e9
        assert 1.0 <= one.retries <= 10.0
        assert one.cpu_s >= one.median_s
        assert math.isfinite(one.upper())
        assert one.upper() >= one.median_s
    medians = [one.median_s for one in found]
    assert medians == sorted(medians)
