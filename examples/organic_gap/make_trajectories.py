"""Write ``trajectories.jsonl``: 12 groups of 8 samples, plus two lines that are sent twice.

Seeded, standard library only: running it again writes the same bytes.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

from molecules import FAULTY, SPELLINGS, TABLE
from turns import STYLES, write_turns

SEED = 20
GROUPS, SIZE = 12, 8
FAULTY_PER_GROUP = 3
TWINS = 3
REPEATS = 2
TASK = (
    "Propose one organic molecule whose Kohn-Sham HOMO-LUMO gap (r2SCAN/def2-SVP, geometry from GFN2-xTB) "
    "lies between 4.0 and 5.0 eV. Answer with one SMILES string and nothing else. "
)

Trajectory = dict[str, Any]


def weighted(rng: random.Random, count: int) -> list[str]:
    """Names of molecules: the interesting ones often, those far outside rarely."""
    names: list[str] = []
    for name, (gap, _) in SPELLINGS.items():
        names += [name] * (1 if gap is None or gap > 6.0 else 3)
    far = [name for name, (gap, _) in SPELLINGS.items() if gap is None or gap > 6.0]
    names += rng.sample(far, count - len(names))
    rng.shuffle(names)
    return names


def faulty(rng: random.Random, count: int) -> list[tuple[str, str | None]]:
    """Pairs of kind and answer, each answer once."""
    pairs = [(kind, answer) for kind, answers in FAULTY.items() for answer in answers]
    rng.shuffle(pairs)
    if len(pairs) != count:
        raise ValueError(f"{len(pairs)} faulty answers for {count} places")
    return pairs


def answers(rng: random.Random) -> list[list[tuple[str, str, str | None]]]:
    """Per group, eight of (kind, molecule or "", answer)."""
    good = weighted(rng, GROUPS * (SIZE - FAULTY_PER_GROUP))
    bad = faulty(rng, GROUPS * FAULTY_PER_GROUP)
    groups = []
    for _ in range(GROUPS):
        group: list[tuple[str, str, str | None]] = []
        for _ in range(SIZE - FAULTY_PER_GROUP):
            name = good.pop()
            group.append(("molecule", name, rng.choice(SPELLINGS[name][1])))
        for _ in range(FAULTY_PER_GROUP):
            kind, answer = bad.pop()
            group.append((kind, "", answer))
        rng.shuffle(group)
        groups.append(group)
    return groups


def trajectory(
    rng: random.Random, group: int, member: int, kind: str, name: str, answer: str | None
) -> Trajectory:
    """One sample with its turns."""
    start = sorted(TABLE)[group % len(TABLE)]
    style = rng.choice(STYLES)
    return {
        "id": f"gap-{group:02d}-{member}",
        "group": f"prompt-{group:02d}",
        "group_size": SIZE,
        "policy_version": f"step-{40 * (group // 4)}",
        "ladder": "organic-gap",
        "problem": {"prompt": f"{TASK}You may start from {start} ({TABLE[start]:.2f} eV)."},
        "turns": write_turns(rng, style, start, answer),
        "answer": answer,
        "metadata": {"kind": kind, "molecule": name, "turns": style},
    }


def twin(original: Trajectory, other: Trajectory) -> Trajectory:
    """A sample that came out word for word like a sibling: other id, same content."""
    copied = copy.deepcopy(original)
    copied["id"] = other["id"]
    return copied


def trajectories() -> list[Trajectory]:
    """All lines in order."""
    rng = random.Random(SEED)
    lines = [
        trajectory(rng, group, member, *sample)
        for group, samples in enumerate(answers(rng))
        for member, sample in enumerate(samples)
    ]
    for group in rng.sample(range(GROUPS), TWINS):
        members = [
            place
            for place in range(group * SIZE, group * SIZE + SIZE)
            if lines[place]["metadata"]["molecule"]
        ]
        first, second = rng.sample(members, 2)
        lines[second] = twin(lines[first], lines[second])
    return lines + [copy.deepcopy(lines[place]) for place in rng.sample(range(len(lines)), REPEATS)]


def main() -> None:
    """Write the file next to this script."""
    target = Path(__file__).with_name("trajectories.jsonl")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in trajectories())
    target.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
