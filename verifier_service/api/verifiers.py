"""The catalogue of verifiers."""

from __future__ import annotations

from fastapi import APIRouter

from verifier_service.api.auth import Reader
from verifier_service.api.context import InContext
from verifier_service.api.problems import documented
from verifier_service.domain.wire import VerifierList

router = APIRouter(prefix="/v1/verifiers", tags=["verifiers"])


@router.get("", responses=documented())
def list_verifiers(_: Reader, context: InContext) -> VerifierList:
    """Parameters as JSON Schema, cost, and why one is not available here. Scope: `read`."""
    return VerifierList(verifiers=context.service.catalog.list())
