"""Draws one SMILES after the other: a process that its parent may kill at any time.

Requests are lines of JSON on standard input, a text each; answers lines of JSON on standard output, either
``{"svg", "facts"}`` or ``{"code", "message"}``. It ends when its input does, and by itself when one drawing
takes longer than its alarm, also while it is deep in a library.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any

WIDTH, HEIGHT = 320, 240
ALARM_S = 10
MEMORY = 2 << 30  # address space in bytes; RDKit maps about 600 MB of libraries


def main() -> None:
    """Serve until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = sys.stdout
    sys.stdout = sys.stderr
    _draw("C")
    for line in sys.stdin:
        signal.alarm(ALARM_S)
        answer = _answer(json.loads(line))
        signal.alarm(0)
        out.write(json.dumps(answer) + "\n")
        out.flush()


def _answer(text: str) -> dict[str, Any]:
    from tiers.molecule import Refusal

    try:
        svg, facts = _draw(text)
        return {"svg": svg, "facts": facts}
    except Refusal as refusal:
        return {"code": "not_a_structure", "message": refusal.message}
    except MemoryError:
        return {"code": "too_large", "message": "it takes too much memory to draw"}
    except Exception as error:  # noqa: BLE001 - whatever a library raises, there is no picture
        return {"code": "failed", "message": f"it could not be drawn ({type(error).__name__})"}


def _draw(text: str) -> tuple[str, tuple[str, int, float]]:
    """The SVG, transparent, with sizes of its own and no names of classes; formula, heavy atoms and
    molar mass. Raises ``Refusal``."""
    from rdkit.Chem import Descriptors, rdDepictor, rdMolDescriptors
    from rdkit.Chem.Draw import rdMolDraw2D

    from tiers.molecule import read_smiles

    molecule = read_smiles(text, allow_fragments=True, allow_dummies=True).mol
    rdDepictor.SetPreferCoordGen(False)
    drawn: Any = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options = drawn.drawOptions()
    options.clearBackground = False
    options.padding = 0.08
    options.addStereoAnnotation = True
    prepared = rdMolDraw2D.PrepareMolForDrawing(molecule)
    drawn.DrawMolecule(prepared)
    drawn.FinishDrawing()
    svg: str = drawn.GetDrawingText()
    formula = rdMolDescriptors.CalcMolFormula(molecule, separateIsotopes=True, abbreviateHIsotopes=False)
    weight: Any = getattr(Descriptors, "MolWt")  # noqa: B009 - its stubs do not know it
    facts = (formula, molecule.GetNumHeavyAtoms(), weight(molecule))
    return svg[svg.index("<svg") :] if "<svg" in svg else svg, facts


if __name__ == "__main__":
    main()
