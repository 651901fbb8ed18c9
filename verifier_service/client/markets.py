"""Plans about what became of events."""

from __future__ import annotations

from verifier_service.client.calls import Call, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.settlements import SettlementList


def settlements(
    session: Session, *, after: int = 0, event: str | None = None, limit: int = 200
) -> Plan[SettlementList]:
    """Versions of what became of events, in the order in which they were stored, behind the cursor
    ``after``; ``next`` is the cursor of the next page. Needs the scope ``read``."""
    params: dict[str, str | int | float] = {"after": after, "limit": limit}
    if event is not None:
        params["event"] = event
    call = Call(method="GET", path=path("settlements"), params=params, read=reading(SettlementList))
    return (yield from deliver(session, call))
