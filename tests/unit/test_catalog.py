"""The catalogue: what ships is sound, parameters are checked by name, broken plugins stop start-up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from tiers.catalog import TIERS_FOLDER, VerifierCatalog
from tiers.catalog_sources import SHIPPED, BrokenPlugin, Sources
from tiers.lab.review import Review
from verifier_service.domain.errors import InvalidInput, NotFound, Permanent
from verifier_service.domain.evidence import Finding, Reason, Tier, Verdict
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.records import JsonObject
from verifier_service.domain.trajectories import Problem, TrajectorySubmission
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class DoorParams(Params):
    """Parameters of every kind."""

    method: Literal["a", "b"] = "a"
    cycles: Annotated[int, Field(ge=1, le=100)] = 50
    sizes: tuple[float, ...] = (1.0,)


class Door(Verifier):
    """Refuses answers that start with ``!`` and reads nothing but answer and inputs."""

    info = VerifierInfo(
        name="door",
        version="1",
        tier=Tier.FAST,
        summary="for tests",
        reads=frozenset({"candidate", "inputs"}),
        libraries=("pydantic", "no-such-distribution"),
        limits=Limits(time_s=1.0, memory_mb=100),
    )
    params_model = DoorParams

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        assert isinstance(params, DoorParams)
        assert (item.reference, item.prompt, item.turns) == ({}, "", ())
        if str(item.candidate).startswith("!") and item.inputs.get("method") == params.method:
            return Reason(code="no_exclamations", message="answers do not shout")
        return None

    def verify(self, item: CheckInput, params: Params) -> Finding:
        return Finding(verdict=Verdict.ACCEPT)


class Renamed(Door):
    """Lists itself under another name than it is declared with."""


class Raising:
    """Not a verifier, and cannot even be made."""

    def __init__(self) -> None:
        raise RuntimeError("broken on purpose")


class Absent(Door):
    """Its availability check fails."""

    def unavailable(self) -> str | None:
        raise RuntimeError("broken on purpose")


VERIFIERS = (Door,)
LADDERS = ("code", "forecast", "math", "molecule-identity", "organic-gap", "quantum-energy", "structured")


def catalog(**shipped: str) -> VerifierCatalog:
    paths = shipped or {"door": f"{__name__}:Door"}
    return VerifierCatalog(Sources(shipped=paths, installed=False), folder=Path("/nonexistent"))


def ladder(**params: object) -> LadderSpec:
    return LadderSpec.model_validate(
        {
            "name": "l",
            "candidate": {"kind": "text", "from": "answer"},
            "outcome": {"use": "door"},
            "truth": "fast",
            "tiers": {"fast": [{"use": "door", "params": params}]},
        }
    )


def test_everything_shipped_loads_and_is_called_what_it_is_listed_as() -> None:
    shipped: Catalog = VerifierCatalog()
    listed = [line.info.name for line in shipped.list()]
    assert set(SHIPPED) <= set(listed)
    assert len(listed) == len(set(listed))
    for line in shipped.list():
        assert line.params_schema["type"] == "object"
        assert json.loads(line.model_dump_json())["info"]["name"] == line.info.name


def test_shipped_ladders_use_what_ships() -> None:
    shipped = VerifierCatalog()
    specs = [LadderSpec.model_validate_json(json.dumps(found)) for found in shipped.shipped_ladders()]
    assert [spec.name for spec in specs] == sorted(LADDERS)
    for spec in specs:
        for tier, uses in spec.tiers.items():
            for use in uses:
                assert shipped.verifier(use.use).tier is tier
                shipped.validate_params(use.use, use.params)
                if use.map is not None and spec.quantity is not None:
                    found = shipped.map(use.map)
                    assert found.target == spec.quantity.name
                    assert found.unit == spec.quantity.unit
                    assert found.source in shipped.verifier(use.use).quantities
        for use in spec.process.checks:
            shipped.validate_params(use.use, use.params)


def test_every_use_of_a_molecule_is_keyed_by_its_canonical_form() -> None:
    shipped = VerifierCatalog()
    assert shipped.identifier("molecule") == "molecule.identify"
    assert shipped.identifier("geometry") is None
    assert catalog().identifier("molecule") is None


def test_importing_the_catalogue_loads_no_chemistry() -> None:
    assert "rdkit" not in json.dumps(sorted(_modules_after_loading()))


def _modules_after_loading() -> list[str]:
    import subprocess

    code = "import sys; from tiers.catalog import VerifierCatalog; VerifierCatalog(); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TIERS_FOLDER.parent
    )
    return [name for name in run.stdout.split() if name.partition(".")[0] in {"rdkit", "pyscf", "tblite"}]


def test_parameters_come_back_with_their_defaults() -> None:
    assert catalog().validate_params("door", {}) == {"method": "a", "cycles": 50, "sizes": [1.0]}
    given: JsonObject = {"sizes": [2, 3.5], "method": "b"}
    assert catalog().validate_params("door", given) == {"method": "b", "cycles": 50, "sizes": [2.0, 3.5]}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"method": "c"}, "params.method"),
        ({"cycles": 0}, "params.cycles"),
        ({"cycles": "5"}, "params.cycles"),
        ({"cycles": True}, "params.cycles"),
        ({"cycle": 5}, "params.cycle"),
        ({"sizes": [1.0, "x"]}, "params.sizes.1"),
        ({"sizes": [float("nan")]}, "params"),
    ],
)
def test_a_wrong_parameter_is_named(params: JsonObject, field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        catalog().validate_params("door", params)
    assert (raised.value.code, raised.value.field) == ("invalid_params", field)


def test_unknown_names_are_not_found() -> None:
    empty = catalog()
    for call in (
        empty.verifier,
        empty.params_schema,
        empty.availability,
        empty.library_versions,
        empty.map,
        lambda name: empty.validate_params(name, {}),
    ):
        with pytest.raises(NotFound, match="nothing"):
            call("nothing")


def test_library_versions_name_what_is_missing() -> None:
    found = catalog().library_versions("door")
    assert found["no-such-distribution"] == "missing"
    assert found["pydantic"][0].isdigit()


def test_what_is_left_to_workers_is_keyed_as_the_release_pins_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = VerifierCatalog().library_versions("pyscf.gap")
    assert "missing" not in installed.values()
    monkeypatch.setattr("tiers.catalog_sources.installed_version", lambda _: "missing")
    assert VerifierCatalog().library_versions("pyscf.gap") == installed


@pytest.mark.parametrize(("answer", "refused"), [("!no", True), ("yes", False), (None, False)])
def test_the_door_asks_the_verifiers_of_the_ladder(answer: str | None, refused: bool) -> None:
    problem = Problem(prompt="p", inputs={"method": "b"}, reference={"gold": 1})
    submission = TrajectorySubmission(ladder="l", problem=problem, answer=answer)
    error = catalog().precheck(ladder(method="b"), submission)
    assert (error is not None) is refused
    if error is not None:
        assert (error.code, error.message) == ("no_exclamations", "answers do not shout")
    assert catalog().precheck(ladder(method="a"), submission) is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no.such.module:Thing", "ModuleNotFoundError"),
        (f"{__name__}:NoSuchClass", "AttributeError"),
        (f"{__name__}:Raising", "broken on purpose"),
        ("json:JSONDecoder", "not a subclass of Verifier"),
        (f"{__name__}:Renamed", "calls itself door"),
    ],
)
def test_a_broken_plugin_stops_start_up_with_its_name(path: str, words: str) -> None:
    with pytest.raises(BrokenPlugin, match=words) as raised:
        catalog(bad=path)
    assert "verifier bad" in str(raised.value)


def test_an_availability_check_that_raises_stops_start_up() -> None:
    with pytest.raises(BrokenPlugin, match="verifier door: its availability"):
        catalog(door=f"{__name__}:Absent")


def test_a_plugin_module_adds_verifiers_and_may_not_replace_one() -> None:
    added = VerifierCatalog(Sources((__name__,), shipped={}, installed=False), folder=Path("/nonexistent"))
    assert added.verifier("door").version == "1"
    with pytest.raises(BrokenPlugin, match="door is declared by"):
        Sources((__name__,), shipped={"door": f"{__name__}:Door"}, installed=False)
    single = f"{__name__}:Door"
    assert Sources((single,), shipped={"door": single}, installed=False).names() == ("door",)
    with pytest.raises(BrokenPlugin, match="door is declared by"):
        Sources((single,), shipped={"door": f"{__name__}:Renamed"}, installed=False)
    with pytest.raises(BrokenPlugin, match="plugin json:JSONDecoder is not a subclass"):
        Sources(("json:JSONDecoder",), installed=False)
    with pytest.raises(BrokenPlugin, match="plugin module no_such_module"):
        Sources(("no_such_module",), shipped={}, installed=False)


def test_entry_points_of_other_distributions_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[verifier_service.verifiers]\ndoor = {__name__}:Door\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "door" in Sources(shipped={}).names()


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("ladders/l.json", "{", "ladder l is not"),
        ("ladders/other.json", None, "ladder other calls itself l"),
        ("maps/m/map.json", "{}", "map m is not"),
    ],
)
def test_a_broken_file_stops_start_up_with_its_name(
    tmp_path: Path, file: str, text: str | None, words: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text or ladder().model_dump_json(by_alias=True))
    with pytest.raises(BrokenPlugin, match=words):
        VerifierCatalog(Sources(shipped={}, installed=False), folder=tmp_path)


def test_review_is_declared_and_never_executed() -> None:
    review = Review()
    assert review.info.external
    with pytest.raises(Permanent, match="people decide"):
        review.verify(CheckInput(), Params())
    found = catalog(review="tiers.lab.review:Review")
    assert found.validate_params("review", {"queue": "chemists"}) == {
        "queue": "chemists",
        "approvals": None,
    }
    for params in ({"queue": "../x"}, {"queue": "a", "approvals": 6}, {}):
        with pytest.raises(InvalidInput):
            found.validate_params("review", params)
