"""Pictures of molecules, for ``<img>``: each with a policy of its own under which nothing in it runs."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import InService, Visiting
from verifier_service.domain.accounts import Viewer
from verifier_service.domain.ports.drawing import Drawing

router = APIRouter()

POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
MAX_TEXT = 4_000
KEPT = "private, max-age=86400"
WORDS = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="320" height="240" viewBox="0 0 320 240">'
    '<text x="160" y="{top}" text-anchor="middle" font-family="sans-serif" font-size="14" fill="#444">'
    "{lines}</text></svg>"
)


@router.get("/drawings/molecule.svg")
def molecule(
    service: InService, _visit: Visiting, smiles: Annotated[str, Query(max_length=MAX_TEXT)]
) -> Response:
    """The structure of a SMILES; where there is no picture, the reason in words."""
    drawn = service.drawer.draw(smiles)
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": KEPT if drawn.svg else "no-store"}
    if drawn.code is not None:
        headers["X-Drawing"] = drawn.code
    return Response(drawn.svg or in_words(drawn), media_type="image/svg+xml", headers=headers)


@router.get("/drawings/molecule")
def facts(
    request: Request,
    service: InService,
    visit: Visiting,
    smiles: Annotated[str, Query(max_length=MAX_TEXT)],
) -> Response:
    """Formula, heavy atoms and molar mass of a SMILES, or why there is no picture: a part of a page, which
    comes after it, since the process that draws may be busy."""
    return render(request, "_molecule.html", Viewer.of(visit.user), drawn=service.drawer.draw(smiles))


def drawing_of(smiles: str) -> str:
    """The address of a picture."""
    return f"/ui/drawings/molecule.svg?smiles={quote(smiles, safe='')}"


def in_words(drawn: Drawing) -> str:
    """Why there is no picture, as one."""
    lines = ["Cannot be drawn:", *wrap(drawn.message or "the reason is not known", 40)[:6]]
    spans = "".join(
        f'<tspan x="160" dy="{0 if at == 0 else 20}">{escape(line)}</tspan>'
        for at, line in enumerate(lines)
    )
    return WORDS.format(top=120 - 10 * len(lines), lines=spans)
