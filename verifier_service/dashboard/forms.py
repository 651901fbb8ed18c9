"""What was filled into a form, read as a request of the domain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, get_origin

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData

from verifier_service.dashboard.sessions import TOKEN_FIELD, read_form
from verifier_service.domain.errors import InvalidInput

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Filled(Generic[M]):
    """A form as it was sent; ``raw`` is for showing it again."""

    model: type[M]
    raw: Mapping[str, str | Sequence[str]]

    def read(self) -> M:
        """The request it makes. Raises ``InvalidInput`` naming the field and its limit."""
        try:
            return self.model.model_validate(dict(self.raw), strict=False)
        except ValidationError as error:
            raise _refused(self.model, error) from error


def form_of(model: type[M]) -> Callable[[Request], Awaitable[Filled[M]]]:
    """A dependency that gives the form of a request. Fields left empty count as not sent; fields of lists
    may come several times."""

    async def filled(request: Request) -> Filled[M]:
        return Filled(model, _raw(model, await read_form(request)))

    return filled


def _raw(model: type[BaseModel], form: FormData) -> dict[str, str | Sequence[str]]:
    found: dict[str, str | Sequence[str]] = {}
    for name in dict.fromkeys(form):
        texts = [value for value in form.getlist(name) if isinstance(value, str) and value != ""]
        if name == TOKEN_FIELD or not texts:
            continue
        field = model.model_fields.get(name)
        many = field is not None and get_origin(field.annotation) in (tuple, list, frozenset, set)
        found[name] = texts if many else texts[-1]
    return found


def _refused(model: type[BaseModel], error: ValidationError) -> InvalidInput:
    first = error.errors(include_url=False, include_context=True, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    message, kind = first["msg"], first["type"]
    described = model.model_fields[name].description if name in model.model_fields else None
    if kind == "missing":
        message = "this is needed"
    elif described is not None:
        message = described
    return InvalidInput(kind, message, field=name or None)
