"""A store of a size that takes hours to ingest: trajectories that the service made, and their copies.

Every kind of trajectory is made once over HTTP, by the verifiers of the tests, so that each row and
document is what the service writes. Then all rows of it are copied in the database with other keys, in the
shares of ``KINDS``: four fifths into the run ``big``, the rest into forty others. Both databases run the
same SQL.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import make_url

from tests.support.server import Server
from verifier_service.persistence import model_tables, review_tables, tables, worker_tables

BIG = "big"
OTHERS = 40
BASE = 1_000  # keys below are those of the originals
STRIDE = 8  # keys of checks and demands that one trajectory may have
GROUP = 8
PER_STEP = 4_096
QUEUES = ("chemists", "editors", "biologists")
MEASURED: dict[str, Any] = {
    "name": "measured",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "quantity": {"name": "carbons@test", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "test.gate", "gate": "hard"}],
        "simulation": [{"use": "test.rough", "params": {"sigma": 3.0}}],
        "high_fidelity": [{"use": "test.exact"}],
    },
}
# Its cheap measurement says that it is exact, so that nothing dearer is asked for.
SURE: dict[str, Any] = {
    **MEASURED,
    "name": "sure",
    "tiers": {**MEASURED["tiers"], "simulation": [{"use": "test.rough"}]},
}
PEOPLE: dict[str, Any] = {
    "name": "people",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "review"},
    "truth": "lab",
    "tiers": {
        "fast": [{"use": "test.gate", "gate": "hard"}],
        "lab": [{"use": "review", "params": {"queue": QUEUES[0]}}],
    },
    "deadline_s": 8_640_000,
}
TURNS = [
    {
        "message": f"Step {n}: " + "the barrier falls when the ring opens, so I look at the ester. " * 2,
        "calls": [{"id": f"c{n}", "name": "energy", "arguments": {"smiles": "CCO"}}],
        "observations": [{"call": f"c{n}", "text": "energy -154.7 hartree; gap 7.7 eV; converged. " * 2}],
    }
    for n in range(5)
]


class Kind(NamedTuple):
    """A kind of trajectory: how many of a hundred are like it, and what is submitted."""

    name: str
    share: int
    ladder: str
    answer: str
    run: str = BIG
    inputs: dict[str, Any] = {}


KINDS = (
    Kind("measured", 24, "measured", "CCCO"),
    Kind("provisional", 12, "sure", "CCCOC"),
    Kind("refused", 22, "measured", "CCN"),
    Kind("too dear", 12, "measured", "CCCCO", run="poor"),
    Kind("broken", 4, "measured", "CCCCCO", inputs={"fail": "permanent"}),
    Kind("judged", 14, "people", "a good answer"),
    Kind("with people", 7, "people", "an answer"),
    Kind("stuck", 5, "measured", "CCCCCCO"),
)
STUCK = "bench.nobody"
TABLES = {
    table.name: table
    for table in (
        tables.trajectories,
        tables.bodies,
        tables.checks,
        worker_tables.attempts,
        tables.demands,
        tables.rewards,
        model_tables.decisions,
        review_tables.reviews,
        review_tables.votes,
        review_tables.review_events,
    )
}


def originals(server: Server) -> None:
    """One trajectory of each kind, as far as the service brings it."""
    with server.client() as http:
        for ladder in (MEASURED, SURE, PEOPLE):
            http.put(f"/v1/ladders/{ladder['name']}", json=ladder).raise_for_status()
        for queue in QUEUES:
            spec = {"name": queue, "approvals": 1, "instructions": "Is it what was asked for?"}
            http.put(f"/v1/review-queues/{queue}", json=spec).raise_for_status()
        for n in range(OTHERS):
            http.put(f"/v1/runs/other-{n:02}", json={}).raise_for_status()
        http.put("/v1/runs/poor", json={"budgets": {"compute": 1e-9}}).raise_for_status()
        http.put(f"/v1/runs/{BIG}", json={"audit_share": 0.05}).raise_for_status()
        for at, kind in enumerate(KINDS):
            problem = {"prompt": "Propose a molecule. " * 10, "inputs": kind.inputs}
            item = {"id": f"seed-{at}", "ladder": kind.ladder, "answer": kind.answer}
            body = {"trajectories": [{**item, "problem": problem, "turns": TURNS}]}
            http.post(f"/v1/runs/{kind.run}/trajectories", json=body).raise_for_status()
        reviews = _until(lambda: http.get("/v1/reviews").json()["reviews"], lambda found: len(found) == 2)
        [judged] = [one["id"] for one in reviews if one["candidate"] == "a good answer"]
        vote = {"reviewer": "somebody", "verdict": "accept"}
        http.post("/v1/reviews/claim", json={"reviewer": "somebody", "review": judged}).raise_for_status()
        http.post(f"/v1/reviews/{judged}/decision", json=vote).raise_for_status()
        _until(
            lambda: http.get(f"/v1/runs/{BIG}/trajectories").json()["trajectories"],
            lambda lines: sum(line["status"] == "final" for line in lines) >= 4,
        )


def _until(look: Callable[[], Any], good: Callable[[Any], bool], seconds: float = 60.0) -> Any:
    until = time.monotonic() + seconds
    while not good(found := look()):
        if time.monotonic() > until:
            raise SystemExit(f"the originals do not come to an end: {found}")
        time.sleep(0.2)
    return found


class Copier:
    """Copies rows of one database by its own SQL."""

    def __init__(self, url: str) -> None:
        self._planned: list[str] = []
        self.postgres = not url.startswith("sqlite")
        if self.postgres:
            self._connection: Any = psycopg.connect(url, autocommit=True)
            # Nothing that is copied refers to anything that is not.
            self.run("SET session_replication_role = replica")
            self.run("SET synchronous_commit = off")
        else:
            self._connection = sqlite3.connect(str(make_url(url).database), isolation_level=None)
            for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000"):
                self.run(f"PRAGMA {pragma}")

    def run(self, statement: str) -> None:
        """Execute for effect."""
        self._connection.execute(statement)

    def all(self, statement: str) -> list[Any]:
        """Execute and fetch."""
        return list(self._connection.execute(statement).fetchall())

    def copy(self, table: str, where: str, kind: slice, **changed: str) -> None:
        """Plan to copy one row for every number whose rest by 100 is in the slice. ``changed``: SQL by
        column, where ``s`` is the row and ``m`` the number."""
        names = [column.name for column in TABLES[table].columns if column.name != "pk"]
        names = ["pk", *names] if "pk" in changed else names
        values = ", ".join(changed.get(name, f"s.{name}") for name in names)
        self._planned.append(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} s, big_numbers m"
            f" WHERE {where} AND m.n % 100 >= {kind.start} AND m.n % 100 < {kind.stop} ORDER BY m.n"
        )

    def work(self) -> None:
        """Do all that is planned, without indexes, which are made at the end."""
        indexes = self._indexes()
        for name in indexes:
            self.run(f"DROP INDEX {name}")
        for statement in (*self._planned, *indexes.values()):
            self.run(statement)

    def _indexes(self) -> dict[str, str]:
        """Statements that make the indexes of the tables that are copied, by name; not those of keys."""
        names = ", ".join(f"'{name}'" for name in TABLES)
        if self.postgres:
            own = f"SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ({names})"
            keys = "(SELECT conname FROM pg_constraint)"
            return dict(self.all(f"{own} AND indexname NOT IN {keys}"))
        own = f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({names})"
        return dict(self.all(f"{own} AND sql IS NOT NULL"))

    def numbers(self, rows: int) -> None:
        """The numbers of the copies, each with its run."""
        runs = dict(self.all("SELECT id, pk FROM runs"))
        self.run("CREATE TABLE big_numbers (n BIGINT PRIMARY KEY, run BIGINT NOT NULL)")
        others = " ".join(f"WHEN {at} THEN {runs[f'other-{at:02}']}" for at in range(OTHERS))
        self.run(
            f"""INSERT INTO big_numbers WITH RECURSIVE every (n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM every WHERE n < {rows})
            SELECT n, CASE WHEN n * 7 % 20 < 16 THEN {runs[BIG]}
            ELSE CASE n / 20 % {OTHERS} {others} END END FROM every"""
        )

    def finish(self) -> None:
        """Counters behind the copies, statistics, and the connection closed."""
        self.run("DROP TABLE big_numbers")
        self.run(
            "UPDATE feeds SET seq = coalesce((SELECT max(seq) FROM rewards r WHERE r.run = feeds.run), 0)"
        )
        pins = "SELECT run, ladder, max(ladder_version) FROM trajectories t WHERE NOT EXISTS"
        same = "(SELECT 1 FROM pins p WHERE p.run = t.run AND p.ladder = t.ladder)"
        self.run(f"INSERT INTO pins (run, ladder, version) {pins} {same} GROUP BY run, ladder")
        if self.postgres:
            for table in ("trajectories", "checks", "demands", "reviews"):
                self.run(f"SELECT setval(pg_get_serial_sequence('{table}', 'pk'), max(pk)) FROM {table}")
            self.run("VACUUM ANALYZE")
            self.run("CHECKPOINT")
        else:
            self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


def fill(url: str, rows: int) -> None:
    """Copies of the originals, ``rows`` in all, while no server runs."""
    copier = Copier(url)
    copier.numbers(rows)
    shares, began = {}, 0
    for at, kind in enumerate(KINDS):
        [(pk, run)] = copier.all(f"SELECT pk, run FROM trajectories WHERE id = 'seed-{at}'")
        shares[kind.name] = slice(began, began + kind.share)
        _copied(copier, shares[kind.name], pk, run, f"seed-{at}")
        began += kind.share
    copier.work()
    _stuck(copier, shares["stuck"])
    copier.finish()


PK = f"{BASE} + m.n"
ID = "'t' || m.n"
SEQ = f"{BASE} + m.n * 16 + s.revision"
REWARD = "CASE WHEN s.reward IS NULL THEN NULL ELSE (m.n * 7919 % 1009) / 1009.0 END"


def _copied(copier: Copier, kind: slice, pk: int, run: int, id: str) -> None:
    """All rows of one trajectory."""
    made = "s.created_at - (1000000 - m.n) * 0.05"
    copier.copy(
        "trajectories",
        f"s.pk = {pk}",
        kind,
        pk=PK,
        run="m.run",
        id=ID,
        content="'c' || m.n",
        group_id=f"'step' || (m.n / {PER_STEP}) || '/' || (m.n / {GROUP})",
        group_size=str(GROUP),
        policy_version=f"'v' || (m.n / {PER_STEP})",
        subject="'s' || m.n",
        reward=REWARD,
        outcome=REWARD,
        seq=SEQ,
        created_at=made,
    )
    copier.copy("bodies", f"s.trajectory = {pk}", kind, trajectory=PK)
    places = _checks(copier, kind, pk)
    for at, (demand, check) in enumerate(
        copier.all(f"SELECT pk, check_pk FROM demands WHERE trajectory = {pk} ORDER BY pk")
    ):
        wanted = "NULL" if check is None else places[check]
        rank = "CASE WHEN s.rank IS NULL THEN NULL ELSE (m.n % 997) / 997.0 END"
        copier.copy(
            "demands",
            f"s.pk = {demand}",
            kind,
            pk=f"{BASE} + m.n * {STRIDE} + {at}",
            run="m.run",
            trajectory=PK,
            check_pk=wanted,
            rank=rank,
        )
    for (seq,) in copier.all(f"SELECT seq FROM rewards WHERE run = {run} AND trajectory = '{id}'"):
        where = f"s.run = {run} AND s.seq = {seq}"
        copier.copy("rewards", where, kind, run="m.run", seq=SEQ, trajectory=ID, reward=REWARD)
    for (decision,) in copier.all(f"SELECT pk FROM decisions WHERE trajectory = {pk} ORDER BY pk"):
        copier.copy(
            "decisions", f"s.pk = {decision}", kind, run="m.run", trajectory=PK, decided_at=made_at()
        )


def made_at() -> str:
    """When something of a copy was decided."""
    return "s.decided_at - (1000000 - m.n) * 0.05"


def _checks(copier: Copier, kind: slice, pk: int) -> dict[int, str]:
    """The checks of one trajectory with their attempts and items; SQL of each copy's key by original."""
    found = copier.all(
        f"SELECT DISTINCT check_pk FROM demands WHERE trajectory = {pk} AND check_pk IS NOT NULL ORDER BY 1"
    )
    places = {check: f"{BASE} + m.n * {STRIDE} + {at}" for at, (check,) in enumerate(found)}
    for at, (check, place) in enumerate(places.items()):
        key = f"'k{at}' || m.n"
        copier.copy("checks", f"s.pk = {check}", kind, pk=place, key=key, payer="m.run")
        copier.copy("attempts", f"s.check_pk = {check}", kind, check_pk=place)
        for review, name in copier.all(f"SELECT pk, id FROM reviews WHERE check_pk = {check}"):
            _item(copier, kind, review, name, place)
    return places


def _item(copier: Copier, kind: slice, review: int, name: str, check: str) -> None:
    """One item of the desk, its votes by twenty people, and its trail."""
    queue = f"CASE m.n % 4 WHEN 0 THEN '{QUEUES[0]}' WHEN 1 THEN '{QUEUES[1]}' ELSE '{QUEUES[2]}' END"
    item, person = "'r' || m.n", "'person-' || (m.n / 100 % 20)"
    copier.copy(
        "reviews",
        f"s.pk = {review}",
        kind,
        pk=PK,
        id=item,
        check_pk=check,
        queue=queue,
        queue_version="1",
        precedence="(m.n * 31 % 1013) / -1013.0",
        created_at="s.created_at - (1000000 - m.n) * 0.05",
        disputed="(m.n % 1700 = 93)" if copier.postgres else "m.n % 1700 = 93",
    )
    decided = made_at()
    copier.copy("votes", f"s.review = {review}", kind, review=PK, reviewer=person, decided_at=decided)
    for (event,) in copier.all(f"SELECT pk FROM review_events WHERE review = '{name}' ORDER BY pk"):
        actor = f"CASE s.actor WHEN 'somebody' THEN {person} ELSE s.actor END"
        copier.copy("review_events", f"s.pk = {event}", kind, queue=queue, review=item, actor=actor)


def _stuck(copier: Copier, kind: slice) -> None:
    """Of these copies the dear check is queued, for a verifier that nobody has, and no record is there."""
    copies = f"{BASE} + n FROM big_numbers WHERE n % 100 >= {kind.start} AND n % 100 < {kind.stop}"
    mine = f"trajectory IN (SELECT {copies})"
    none = "status = NULL, reward = NULL, outcome = NULL, seq = NULL"
    copier.run(f"UPDATE trajectories SET {none} WHERE pk IN (SELECT {copies})")
    named = f"SELECT t.run, t.id FROM trajectories t WHERE t.pk IN (SELECT {copies})"
    copier.run(f"DELETE FROM rewards WHERE (run, trajectory) IN ({named})")
    copier.run(
        f"UPDATE checks SET verifier = '{STUCK}', state = 'queued', evidence = NULL, ended_at = NULL"
        f" WHERE tier = 'high_fidelity' AND pk IN (SELECT check_pk FROM demands WHERE {mine})"
    )
    copier.run(f"UPDATE demands SET state = 'requested' WHERE tier = 'high_fidelity' AND {mine}")


def described(url: str) -> Iterable[str]:
    """What is in it, in a line for each table."""
    copier = Copier(url)
    counts = [f"{table} {copier.all(f'SELECT count(*) FROM {table}')[0][0]:,}" for table in TABLES]
    yield ", ".join(counts)
    statuses = copier.all(
        f"SELECT status, count(*) FROM trajectories WHERE run = (SELECT pk FROM runs WHERE id = '{BIG}')"
        " GROUP BY status ORDER BY 2 DESC"
    )
    yield f"of the run {BIG}: " + ", ".join(
        f"{status or 'pending'} {count:,}" for status, count in statuses
    )
