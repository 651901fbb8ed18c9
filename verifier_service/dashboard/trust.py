"""Trust: how well cheap tiers foretold dear ones, alarms of the watch, and how far reviewers agree."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from verifier_service.bootstrap import overviews
from verifier_service.dashboard import trust_figures
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.pages import COUNTING, redirect, render
from verifier_service.dashboard.sessions import InService, Leading, Observing, Operating
from verifier_service.domain.accounts import Viewer
from verifier_service.domain.errors import NotFound
from verifier_service.domain.models import LadderKey
from verifier_service.domain.records import Request as Form
from verifier_service.domain.runs import RunState
from verifier_service.domain.trajectories import Identifier
from verifier_service.services import insight

router = APIRouter()

PATH = "/ui/trust"
RUNS = 200
ALARMS = 100
DIAGRAMS = 8
READABLE = (RunState.OPEN, RunState.CLOSING, RunState.CLOSED)

Chosen = Annotated[Identifier | Literal[""], Query()]


class Cleared(Form):
    """The alarm that is over."""

    alarm: Identifier


@router.get("/trust")
def trust_page(
    request: Request, viewer: Observing, service: InService, run: Chosen = "", ladder: Chosen = ""
) -> Response:
    """The figures of one run, the newest unless another is chosen, and the project's alarms."""
    with service.store.read() as tx:
        runs = [one for one in tx.runs.of_project(viewer.project)[:RUNS] if one.state in READABLE]
        chosen = tx.runs.get(viewer.project, run) if run else next(iter(runs), None)
        alarms = tx.alarms.of_project(viewer.project, ALARMS)
    ladders = () if chosen is None else tuple(sorted(chosen.ladder_versions))
    return render(
        request,
        "trust.html",
        viewer,
        runs=runs,
        run=chosen,
        ladders=ladders,
        ladder=ladder if ladder in ladders else "",
        alarms=alarms,
        words=trust_figures.stratum_words,
    )


@router.get("/trust/calibration")
def calibration_panel(
    request: Request,
    viewer: Observing,
    service: InService,
    run: Annotated[Identifier, Query()],
    ladder: Chosen = "",
) -> Response:
    """Bias, coverage and reliability of a run, and whether pay and merit go together."""
    seen = overviews.calibration(service, viewer.project, run).soon()
    if seen is None:
        return render(request, COUNTING, viewer)
    pairs = trust_figures.pairs_of(seen.value, ladder)
    return render(
        request,
        "_trust_calibration.html",
        viewer,
        seen=seen,
        pay=trust_figures.pay_words(seen.value.pay_and_merit),
        apart=bool(seen.value.pay_and_merit and seen.value.pay_and_merit.apart),
        bias=trust_figures.bias(pairs),
        coverage=trust_figures.coverage(pairs, seen.value.nominal),
        diagrams=[
            (trust_figures.pair_title(one), trust_figures.reliability(one)) for one in pairs[:DIAGRAMS]
        ],
        more=max(0, len(pairs) - DIAGRAMS),
    )


@router.get("/trust/alarms")
def alarms_panel(request: Request, viewer: Observing, service: InService) -> Response:
    """Alarms, newest first, as they stand."""
    with service.store.read() as tx:
        alarms = tx.alarms.of_project(viewer.project, ALARMS)
    return render(request, "_trust_alarms.html", viewer, alarms=alarms, words=trust_figures.stratum_words)


@router.post("/trust/alarms/clear")
def clear_alarm(
    request: Request,
    viewer: Operating,
    service: InService,
    sent: Annotated[Filled[Cleared], Depends(form_of(Cleared))],
) -> Response:
    """End an alarm whose cause is known: its stratum is treated as before."""
    alarm = sent.read().alarm
    found = service.unit(lambda tx: insight.clear_alarm(tx, viewer.project, alarm))
    if found is None:
        raise NotFound("unknown_alarm", f"no alarm {alarm!r} stands")
    service.learn(LadderKey(viewer.project, found.ladder, found.ladder_version))
    return redirect(request, PATH, f"The alarm of {found.ladder} is cleared.")


@router.get("/trust/reviewers")
def reviewers_panel(request: Request, viewer: Observing, service: InService) -> Response:
    """How far the reviewers of each queue agree: a part of the page."""
    return _reviewers(request, viewer, service, "_trust_reviewers.html", COUNTING)


@router.get("/desk/agreement")
def agreement_page(request: Request, viewer: Leading, service: InService) -> Response:
    """The same for leads, as a page of the desk."""
    return _reviewers(request, viewer, service, "desk_agreement.html", "desk_agreement.html")


def _reviewers(
    request: Request, viewer: Viewer, service: InService, template: str, counting: str
) -> Response:
    seen = overviews.agreements(service, viewer.project).soon()
    if seen is None:
        return render(request, counting, viewer, seen=None)
    found = [(one.queue, trust_figures.agreement(one)) for one in seen.value]
    return render(request, template, viewer, queues=found, seen=seen)
