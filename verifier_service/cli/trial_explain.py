"""From a stored case to what a trial says about it."""

from __future__ import annotations

from verifier_service.cli.trial_records import Tried, TriedCheck
from verifier_service.domain.cases import Body, Case
from verifier_service.domain.checks import DemandView
from verifier_service.domain.errors import Conflict, InvalidInput
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import CandidateSpec, Ladder, TagExtract
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import CheckState
from verifier_service.domain.wire import ItemError
from verifier_service.services.inspect_case import WholeCase


def refused(line: int, name: str | None, error: InvalidInput | Conflict | None) -> Tried:
    """A line that was not taken."""
    told = error or InvalidInput("invalid", "the line was not taken")
    return Tried(
        line=line, id=name, error=ItemError(code=told.code, message=told.message, field=told.field)
    )


def explained(
    catalog: Catalog, line: int, whole: WholeCase, *, highest: Tier, show_reference: bool
) -> Tried:
    """All that led to the last reward record of a case."""
    case, body = whole.case, whole.body
    source = case.ladder.spec.candidate
    record = whole.history[-1] if whole.history else None
    return Tried(
        line=line,
        id=case.standing.id,
        source=source_in_words(source),
        candidate=candidate_of(source, body.answer, body.turns),
        canonical=case.standing.canonical,
        compared_with=_compared_with(catalog, case, body),
        reference=body.reference if show_reference else None,
        checks=tuple(_check(case, demand) for demand in case.demands),
        record=record,
        formula=formula(case.ladder, record),
        note=_left_out(case, highest),
    )


def source_in_words(source: CandidateSpec) -> str:
    """Where a ladder takes its candidate from."""
    whole = "the answer" if source.from_ == "answer" else "the last turn's message"
    if source.extract is None:
        return whole
    if isinstance(source.extract, TagExtract):
        return f"the last <{source.extract.tag}> of {whole}"
    part = "the last box" if source.extract == "boxed" else "the last block of code"
    return f"{part} of {whole}"


def formula(ladder: Ladder, record: RewardRecord | None) -> str:
    """How the reward came about, in numbers."""
    if record is None:
        return "no reward record yet"
    if record.reward is None or record.outcome is None:
        return "no reward: a verification that did not happen is never a number"
    text = f"{record.reward:.4g} = outcome {record.outcome:.4g} ({_outcome_from(ladder, record)})"
    judged = [value for value in record.process if value is not None]
    if not record.process_weight:
        return text
    if not judged:
        return f"{text} + {record.process_weight:g} x 0 (no turn was judged)"
    mean = sum(judged) / len(judged)
    return f"{text} + {record.process_weight:g} x {mean:.4g} (mean of {len(judged)} judged turns)"


def _outcome_from(ladder: Ladder, record: RewardRecord) -> str:
    spec = ladder.spec
    if record.reason is not None and spec.outcome is None:
        return f"rejected: {record.reason.detail}"
    if spec.outcome is not None:
        return f"score of {spec.outcome.use}"
    if spec.quantity is None or spec.utility is None:
        return "estimated"
    shape = " ".join(f"{name} {value}" for name, value in spec.utility.model_dump(exclude={"kind"}).items())
    return f"expected utility of {spec.quantity.name}: {spec.utility.kind} {shape}"


def _check(case: Case, demand: DemandView) -> TriedCheck:
    check = demand.check
    rung = case.ladder.rung_at.get(demand.path.partition("@")[0])
    verifier = check.verifier if check is not None else rung.use.use if rung is not None else ""
    fields: dict[str, object] = {
        "path": demand.path,
        "role": demand.role,
        "tier": demand.tier,
        "verifier": verifier,
        "state": demand.state,
        "note": demand.reason,
    }
    if check is not None:
        fields |= {
            "check_state": check.state,
            "failure": check.failure if check.state is not CheckState.SUCCEEDED else None,
            "attempts": check.attempt,
            "cost": check.cost,
        }
    evidence = case.evidence(demand)
    if evidence is not None:
        shown = ("verdict", "score", "reason", "measurements", "per_turn", "hints", "assumptions")
        fields |= {name: getattr(evidence, name) for name in (*shown, "labels", "artifacts")}
        made = evidence.provenance
        fields |= {"version": made.version, "params": made.params, "libraries": made.libraries}
    return TriedCheck.model_validate(fields)


def _compared_with(catalog: Catalog, case: Case, body: Body) -> tuple[str, ...]:
    """Names of the parts of the problem that the verifiers read, where the task has them."""
    reads: set[str] = set()
    for demand in case.demands:
        if demand.check is not None:
            reads |= catalog.verifier(demand.check.verifier).reads
    parts = [f"reference.{name}" for name in body.reference if "reference" in reads]
    parts += [f"inputs.{name}" for name in body.inputs if "inputs" in reads]
    parts += ["prompt"] if "prompt" in reads else []
    return tuple(parts)


def _left_out(case: Case, highest: Tier) -> str | None:
    above = [tier for tier in case.ladder.spec.tiers if tier.rank > highest.rank]
    if not above or case.gate_rejection("hard_gate") is not None:
        return None
    names = [tier.value for tier in TIERS if tier in above]
    return f"not tried: {', '.join(names)} (see --tier)"
