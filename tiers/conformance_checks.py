"""The checks of the conformance suite: from what was seen to what it says. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tiers.conformance_inputs import CANARIES, Try, secrets_of, texts_of
from tiers.conformance_process import DEATH, DIES_AT, Fact
from tiers.conformance_records import CheckRecord, Sample, code_of, ending_of, scores
from tiers.conformance_runs import Played
from verifier_service.domain.evidence import Failure, Finding, Outcome
from verifier_service.domain.ports.execution import Done
from verifier_service.domain.verifiers import CheckInput, VerifierInfo

MAX_EXAMPLES = 5
LINGER_S = 2.0  # how long after its limit the harness may take to end an item on a busy machine
PRECHECK_S = 0.25  # of CPU, for a submission of a megabyte
BROKEN = frozenset({"verifier_error", "bad_output", "crashed", "worker_lost", "child_start_failed"})
OF_THE_RUN = frozenset({"s", "ms", "MiB", "MB", "B"})  # units of what a run took; no two runs take the same
AT_A_LIMIT = frozenset({"time_limit", "memory_limit", "output_limit"})
_CODE = re.compile(r"[a-z][a-z0-9_]*")
RAISED = {"RuntimeError": "permanent", "MemoryError": "resource", "TaskError": "task_error"}


def record(name: str, problems: Collection[str], good: str) -> CheckRecord:
    """Passed without problems, else failed with the first few of them."""
    if not problems:
        return CheckRecord(name=name, verdict="passed", message=good)
    shown = tuple(text[:300] for text in list(problems)[:MAX_EXAMPLES])
    return CheckRecord(
        name=name,
        verdict="failed",
        message=f"{len(problems)} problem{'s' if len(problems) > 1 else ''}: {shown[0]}",
        examples=shown,
    )


def skipped(name: str, why: str) -> CheckRecord:
    """Not applicable here."""
    return CheckRecord(name=name, verdict="skipped", message=why)


def fingerprint(outcome: Outcome | None, raised: str | None = None) -> str:
    """What must be the same whenever the same item is judged: all but what the run itself took.

    Of what ended at a limit only the ending: how far it came by then depends on the machine.
    """
    if outcome is None:
        return f"raised {raised}"
    if isinstance(outcome, Failure):
        return json.dumps([outcome.kind, outcome.code, outcome.message])
    if code_of(outcome) in AT_A_LIMIT:
        return json.dumps([outcome.verdict, outcome.score, code_of(outcome)])
    kept = outcome.model_dump(mode="json", exclude={"artifacts", "measurements"})
    kept["measurements"] = [
        measured.model_dump() for measured in outcome.measurements if measured.unit not in OF_THE_RUN
    ]
    return json.dumps(kept, sort_keys=True)


def _fingerprints(facts: Sequence[Fact]) -> dict[int, str]:
    return {fact.index: fingerprint(fact.outcome(), fact.raised) for fact in facts}


def unstable(first: Played, second: Played) -> set[int]:
    """Items that were not judged the same each time."""
    known = _fingerprints(first.of("forward"))
    others = [first.of("again"), first.of("backward"), second.of("forward")]
    return {
        index
        for found in map(_fingerprints, others)
        for index in known
        if index in found and found[index] != known[index]
    }


def determinism(info: VerifierInfo, first: Played, second: Played, names: Sequence[str]) -> CheckRecord:
    """The same item twice, in another order, in another process with another hash seed."""
    name = "determinism"
    if not info.deterministic:
        return skipped(name, "declares itself nondeterministic: its checks are replicated")
    problems = [f"{why} (ordinary items)" for why in (first.ending(), second.ending()) if why is not None]
    problems += [
        f"{names[index]}: judged differently: {_each_ending(index, first, second)}"
        for index in sorted(unstable(first, second))
    ]
    return record(name, problems, f"{len(names)} items judged alike 4 times, in 2 processes and 2 orders")


def _each_ending(index: int, first: Played, second: Played) -> str:
    found = (first.of("forward"), first.of("again"), first.of("backward"), second.of("forward"))
    facts = [fact for facts in found for fact in facts if fact.index == index]
    return ", ".join(_ended(fact.outcome(), fact.raised) for fact in facts)


def _ended(outcome: Outcome | None, raised: str | None) -> str:
    if outcome is None:
        return f"raised {raised}"
    score = outcome.score if isinstance(outcome, Finding) else None
    return _words((ending_of(outcome), code_of(outcome), score))


def batch(first: Played, dying: Played, names: Sequence[str]) -> list[CheckRecord]:
    """One outcome per item, in order, equal to one by one; and lazily, so that blame falls right."""
    found, known = first.of("batch"), _fingerprints(first.of("forward"))
    if first.ending() is not None and not found:
        return [skipped("batch", first.ending() or ""), skipped("batch_blame", first.ending() or "")]
    wobbling = unstable(first, first)
    problems = [] if len(found) == len(names) else [f"{len(found)} outcomes for {len(names)} items"]
    for fact in found:
        if fact.index in wobbling or fact.index not in known:
            continue
        if fingerprint(fact.outcome(), fact.raised) != known[fact.index]:
            problems.append(f"{names[fact.index]}: in a batch judged differently than alone")
    together = record("batch", problems, f"{len(names)} items judged in batches as they are alone")
    if dying.status != DEATH:
        return [together, skipped("batch_blame", "its verify_batch does not call verify")]
    told = len(dying.of("die"))
    lazy = (
        [] if told == DIES_AT else [f"{told} of {DIES_AT} finished items were told before the process died"]
    )
    return [
        together,
        record("batch_blame", lazy, "items are told one by one: only the executing one is blamed"),
    ]


def failures(first: Played) -> CheckRecord:
    """An error inside ``verify`` comes out as a failure of its own kind, never as a score."""
    facts = [fact for fact in first.of("raise") if fact.note]
    if not facts:
        return skipped("failure_is_null", "its verify_batch does not call verify")
    problems = []
    for fact in facts:
        outcome = fact.outcome()
        wanted = RAISED.get(fact.note, "transient")
        if isinstance(outcome, Failure) and outcome.kind == wanted:
            continue
        ended = ending_of(outcome) if outcome is not None else f"raised {fact.raised}"
        problems.append(f"{fact.note} inside verify ended as {ended} instead of the failure {wanted}")
    return record("failure_is_null", problems, "errors inside verify end as failures, without a score")


def samples(given: Sequence[Sample], first: Played) -> CheckRecord:
    """The author's own items end as the author says."""
    if not given:
        return skipped("samples", "no samples were given (--samples FILE)")
    facts = {fact.index: fact for fact in first.of("forward")}
    problems = []
    for index, sample in enumerate(given):
        outcome = facts[index].outcome() if index in facts else None
        if outcome is None:
            raised = facts[index].raised if index in facts else first.ending()
            problems.append(f"sample {index + 1}: expected {sample.expected}, got nothing ({raised})")
            continue
        got = (
            ending_of(outcome),
            code_of(outcome),
            outcome.score if isinstance(outcome, Finding) else None,
        )
        if (
            got[0] != sample.expected
            or sample.code not in (None, got[1])
            or sample.score not in (None, got[2])
        ):
            wanted = (sample.expected, sample.code, sample.score)
            problems.append(f"sample {index + 1}: expected {_words(wanted)}, got {_words(got)}")
    return record("samples", problems, f"{len(given)} samples end as declared")


def _words(ending: tuple[str, str | None, float | None]) -> str:
    name, code, score = ending
    return name + (f" {code}" if code else "") + (f" score {score:g}" if score is not None else "")


def broken_task(
    info: VerifierInfo, tries: Sequence[Try], results: Mapping[str, Done], right: Collection[str]
) -> CheckRecord:
    """A task without inputs and reference is broken for everybody, or (where they are optional) for nobody.

    ``right`` names the items whose answer was right before their task was emptied.
    """
    if "reference" not in info.reads:
        return skipped("broken_task", "reads no reference")
    found = {each.name: ending_of(results[each.name].outcome) for each in tries if each.name in results}
    broken = [name for name, ending in found.items() if ending == "task_error"]
    problems = [
        f"{name}: ended as {ending} where other answers to an emptied task end as task_error"
        for name, ending in found.items()
        if broken and ending != "task_error"
    ]
    problems += [
        f"{name}: a right answer is rejected because its task lost its reference"
        for name, ending in found.items()
        if name in right and ending == "reject" and not broken
    ]
    good = "a task error for every answer" if broken else "a task like others: the reference is optional"
    return record("broken_task", problems, f"a task without inputs and reference is {good}")


def hostile(results: Mapping[str, Done]) -> CheckRecord:
    """No item makes it crash, garble its output or raise what it did not expect."""
    problems = []
    for name, done in results.items():
        outcome = done.outcome
        if isinstance(outcome, Failure) and outcome.code in BROKEN:
            problems.append(f"{name}: {outcome.code}: {outcome.message[:150]}")
    return record("hostile_input", problems, f"{len(results)} hostile items ended as findings or failures")


def garbage(results: Mapping[str, Done]) -> CheckRecord:
    """What is no answer gets neither a positive score nor an accepting verdict."""
    problems = [
        f"{name}: {ending_of(done.outcome)}, score {getattr(done.outcome, 'score', None)}"
        for name, done in results.items()
        if scores(done.outcome)
    ]
    return record("garbage_scores_nothing", problems, f"{len(results)} answers that are none got no reward")


def limits(info: VerifierInfo, results: Mapping[str, Done]) -> CheckRecord:
    """Every item ends at its limits; an answer that can reach them must count against the candidate."""
    declared, problems = info.limits, []
    for name, done in results.items():
        if done.wall_s > declared.time_s + LINGER_S:
            problems.append(f"{name}: took {done.wall_s:.1f} s of {declared.time_s:g} s")
        if done.limit_hit is not None and info.on_limit != "reject":
            problems.append(
                f"{name}: reached the {done.limit_hit.replace('_', ' ')}, and on_limit is not 'reject': a "
                "model could make its reward null (bound the work, or declare it)"
            )
    longest = max((done.wall_s for done in results.values()), default=0.0)
    bounds = f"{declared.time_s:g} s and {declared.memory_mb} MiB"
    return record("limits", problems, f"every item within {bounds}; the longest took {longest:.3g} s")


def findings(seen: Sequence[tuple[str, CheckInput, Outcome]]) -> CheckRecord:
    """Findings say what they must: codes for machines, one entry per turn, hints to turns that exist."""
    problems = [f"{name}: {flaw}" for name, item, outcome in seen for flaw in _flaws(item, outcome)]
    return record("findings", problems, f"{len(seen)} outcomes are well formed")


def _flaws(item: CheckInput, outcome: Outcome) -> Iterator[str]:
    code = code_of(outcome)
    if code is not None and not _CODE.fullmatch(code):
        yield f"the code {code!r} is not snake_case"
    if isinstance(outcome, Failure):
        return
    if outcome.reason is not None and not outcome.reason.message.strip():
        yield "a reason without a message"
    if outcome.per_turn is not None and len(outcome.per_turn) != len(item.turns):
        yield f"per_turn has {len(outcome.per_turn)} entries for {len(item.turns)} turns"
    for hint in outcome.hints:
        if hint.turn is not None and not 0 <= hint.turn < len(item.turns):
            yield f"a hint to turn {hint.turn}, which does not exist"


def no_leak(seen: Sequence[tuple[str, CheckInput, Outcome]]) -> CheckRecord:
    """Nothing that is told repeats the reference, where the answer did not say it first."""
    problems = []
    for name, item, outcome in seen:
        told = [text for text in texts_of(outcome.model_dump(mode="json")) if text]
        hidden = {*secrets_of(item), *(each for each in CANARIES if each in json.dumps(item.reference))}
        if any(secret in text for secret in hidden for text in told):
            problems.append(f"{name}: the outcome repeats a text of the reference")
    return record("no_leak", problems, f"no text of the reference in {len(seen)} outcomes")


def no_output(played: Sequence[Played]) -> CheckRecord:
    """Standard output belongs to whoever runs the process."""
    printed = [each.printed for each in played if each.printed]
    problems = [f"printed {text[:80]!r}" for text in printed]
    return record("no_output", problems, "nothing on standard output")


def no_leftovers(first: Played) -> CheckRecord:
    """Judging the same items again opens, starts and writes nothing more; nothing outlives the process."""
    before, after = first.left("forward"), first.left("again")
    if before is None or after is None:
        return skipped("no_leftovers", first.ending() or "the items were not judged twice")
    problems = []
    if after.descriptors > before.descriptors:
        problems.append(f"{after.descriptors - before.descriptors} descriptors more after judging again")
    if len(after.processes) > len(before.processes):
        problems.append(
            f"{len(after.processes) - len(before.processes)} processes more after judging again"
        )
    if after.files > before.files:
        problems.append(f"{after.files - before.files} files more after judging again")
    if first.running:
        problems.append(f"{len(first.running)} processes outlive the one that started them")
    return record("no_leftovers", problems, "no descriptor, process or file is left")


def precheck(door: Played | None, given: Sequence[Sample], names: Sequence[str]) -> CheckRecord:
    """The door's questions are quick, need the standard library only, and refuse nothing that is right."""
    if door is None:
        return skipped("precheck", "has none")
    problems = [door.ending() or ""] if door.ending() is not None else []
    for fact in door.of("precheck"):
        if fact.raised is not None:
            problems.append(f"{names[fact.index]}: {fact.raised}")
        if fact.cpu_s > PRECHECK_S:
            problems.append(f"{names[fact.index]}: took {fact.cpu_s:.2f} s")
        if fact.reason is not None and fact.index < len(given) and given[fact.index].expected == "accept":
            problems.append(f"{names[fact.index]}: refuses what is right ({fact.reason.code})")
    left = door.left("precheck")
    if left is not None and left.modules:
        problems.append(f"imports {', '.join(left.modules[:5])} at the door")
    return record("precheck", problems, f"answers within {PRECHECK_S:g} s, with the standard library alone")
