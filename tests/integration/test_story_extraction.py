"""A ladder that takes its candidate out of the last turn, from submission and from growth to the reward."""

from __future__ import annotations

from typing import Any

from tests.support.story import Story
from verifier_service.domain.trajectories import Turn

JUDGING: dict[str, Any] = {
    "name": "boxed",
    "candidate": {"kind": "text", "format": "latex", "from": "last_turn", "extract": "boxed"},
    "outcome": {"use": "test.judge"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "test.judge"}]},
}
MEASURING: dict[str, Any] = {
    "name": "measured",
    "candidate": {"kind": "text", "from": "last_turn", "extract": {"tag": "answer"}},
    "quantity": {"name": "carbons@test", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "turns.errors"}],
        "high_fidelity": [{"use": "test.exact"}],
        "lab": [{"use": "review", "params": {"queue": "q"}}],
    },
}
GOLD = {"reference": {"value": "7"}}


def said(*messages: str) -> list[dict[str, str]]:
    return [{"message": message} for message in messages]


def test_the_last_turn_is_judged_and_equal_boxes_share_a_check(told: Story) -> None:
    told.put_ladder(JUDGING)
    told.submit(
        "r",
        {"id": "a", "ladder": "boxed", "problem": GOLD, "turns": said("hm", r"so \boxed{7}")},
        {"id": "b", "ladder": "boxed", "problem": GOLD, "turns": said(r"it is \boxed{ 7 } again")},
        {"id": "c", "ladder": "boxed", "problem": GOLD, "turns": said(r"\boxed{7}", r"no, \boxed{8}")},
        {"id": "d", "ladder": "boxed", "problem": GOLD, "turns": said("7"), "answer": r"\boxed{7}"},
    )
    told.rest()
    assert [told.latest("r", name).reward for name in "abcd"] == [1.0, 1.0, 0.0, 0.0]
    assert told.latest("r", "a").evidence == told.latest("r", "b").evidence


def test_a_trajectory_that_grows_is_judged_by_its_last_turn(told: Story) -> None:
    told.put_ladder(JUDGING)
    told.submit(
        "r",
        {
            "id": "g",
            "ladder": "boxed",
            "problem": GOLD,
            "turns": said(r"first \boxed{1}"),
            "finished": False,
        },
    )
    turn = Turn(message=r"now \boxed{7}")
    told.service.grow("default", "r", "g", index=1, turns=[turn], answer=None, finished=True)
    told.rest()
    assert told.latest("r", "g").reward == 1.0


def test_dear_tiers_and_people_get_what_was_extracted(told: Story) -> None:
    told.put_ladder(MEASURING)
    told.submit("r", {"id": "m", "ladder": "measured", "turns": said("C <answer>CCCCCCCCCC</answer> C")})
    told.rest()
    record = told.latest("r", "m")
    assert (record.outcome, record.measurements[0].value) == (1.0, 10.0)
    with told.service.store.read() as tx:
        [review] = tx.reviews.listed("default", queue=None, state=None, limit=10)
    assert review.candidate == "CCCCCCCCCC"
