"""Who sends results of a laboratory, and what a file of theirs may say.

To measure is not to judge: a measurement is what a laboratory is there for. A verdict or a grade from a
file is a judgement and asks for the right to judge, as at the desk; what became of an event asks for the
right to operate. Nobody's file says anything of what they submitted themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.errors import Forbidden
from verifier_service.domain.runs import Key, Scope

GRADE = "grade"  # the unit of what people grade at the desk
MAY_NOT_JUDGE = "may_not_judge"
MAY_NOT_SETTLE = "may_not_settle"
OWN_SUBMISSION = "own_submission"


class Sender(NamedTuple):
    """A key, or a session in its place, and its rights."""

    key: Key
    judges: bool = False  # its files may hold verdicts and grades
    settles: bool = False  # they may say what became of events

    @property
    def person(self) -> str | None:
        """Whose submissions it may not answer; a key that is nobody's has none."""
        return self.key.owner


def of_key(key: Key) -> Sender:
    """The sender behind an API key. Raises ``Forbidden`` for the key of somebody who only reviews: what
    waits for a laboratory, and how its rows are answered, would tell gold items from others."""
    operates = Scope.OPERATE in key.scopes
    if key.owner is not None and not operates:
        message = "a person's key needs the scope 'operate', too, for files of laboratories"
        raise Forbidden("missing_scope", message)
    return Sender(key, judges=operates and Scope.REVIEW in key.scopes, settles=operates)


def of_viewer(key: Key, viewer: Viewer) -> Sender:
    """The sender behind a session. Verdicts need the right to lead: an operator gives none."""
    return Sender(key, judges=viewer.may(Right.LEAD), settles=viewer.may(Right.OPERATE))
