"""The notation that is read: every command, word and character with its token."""

from __future__ import annotations

from collections.abc import Mapping

Table = Mapping[str, tuple[str, str]]


def _words(text: str) -> list[str]:
    return text.split()


def _each(kind: str, text: str) -> dict[str, tuple[str, str]]:
    """Words that stand for themselves."""
    return {word: (kind, word) for word in text.split()}


def _mean(kind: str, meaning: str, text: str) -> dict[str, tuple[str, str]]:
    """Words of one meaning."""
    return dict.fromkeys(text.split(), (kind, meaning))


def _marks(text: str) -> dict[str, tuple[str, str]]:
    """``word=operator`` pairs; an operator is its own kind."""
    pairs = (pair.split("=", 1) for pair in text.split())
    return {word: (mark, mark) for word, mark in pairs}


def _named(kind: str, text: str) -> dict[str, tuple[str, str]]:
    """``character=meaning`` pairs."""
    pairs = (pair.split("=", 1) for pair in text.split())
    return {mark: (kind, meaning) for mark, meaning in pairs}


_GREEK = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho
sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega
"""
_FUNCTIONS: Table = {
    **_each("f", "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp"),
    **_each("f", "gcd lcm max min floor ceil abs"),
    "asin": ("f", "arcsin"),
    "acos": ("f", "arccos"),
    "atan": ("f", "arctan"),
    "lg": ("f", "log"),
}

COMMANDS: Table = {
    **_each("v", _GREEK),
    **_FUNCTIONS,
    **_each("c", "sqrt over overline bmod choose sum prod"),
    **_mean("c", "frac", "frac dfrac tfrac cfrac"),
    **_mean("c", "binom", "binom dbinom tbinom"),
    **_mean("c", "accent", "vec hat tilde"),
    **_mean("*", "*", "cdot times ast bullet"),
    **_mean("≤", "≤", "le leq leqslant leqq"),
    **_mean("≥", "≥", "ge geq geqslant geqq"),
    **_mean("≈", "≈", "approx simeq approxeq"),
    **_mean("∅", "∅", "emptyset varnothing"),
    **_mean("∖", "∖", "setminus backslash smallsetminus"),
    **_mean("|", "|", "vert lvert rvert mid |"),
    **_mean("and", "and", "land wedge &"),
    **_mean("or", "or", "lor vee"),
    **_marks(
        "div=/ lt=< gt=> ne=≠ neq=≠ in=∈ cup=∪ bigcup=∪ pm=± mp=∓ colon=: prime=' percent=% %=% to=to"
    ),
    **_marks("lbrace=\\{ {=\\{ rbrace=\\} }=\\} lbrack=[ rbrack=] langle=⟨ rangle=⟩ \\=\\\\"),
    **_marks("lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉"),
    "begin": ("begin", ""),
    "end": ("end", ""),
    "bar": ("c", "overline"),
    "ell": ("v", "ell"),
    "hbar": ("v", "hbar"),
    "pi": ("k", "pi"),
    "infty": ("k", "inf"),
    "$": ("$", "$"),
    "euro": ("$", "€"),
    "pounds": ("$", "£"),
    "R": ("u", "R"),
    "Z": ("u", "Z"),
}

DROPPED = frozenset(
    [
        *_words("left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr"),
        *_words("displaystyle textstyle scriptstyle limits nolimits mathstrut strut hfill rm bf it"),
        *_words("boxed fbox angle triangle"),
        *_words("tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge"),
        *_words("quad qquad thinspace enspace space medspace thickspace negthinspace , ; : ! > ( ) [ ] /"),
        *" \n\t",
    ]
)
TEXTS = frozenset(
    _words("text textbf textit textrm textsf texttt textnormal mbox hbox operatorname mathbb")
)
FONTS = frozenset(_words("mathrm mathbf mathit mathsf mathtt boldsymbol bm mathcal mathfrak"))

_COUNTS = """
zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 thirteen=13
fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20
"""


WORDS: Table = {
    **_each("v", _GREEK),
    **_FUNCTIONS,
    **_each("f", "sqrt cbrt factorial"),
    **_mean("f", "binomial", "binom binomial"),
    **_mean("k", "inf", "infinity inf oo"),
    **_each("k", "pi e i"),
    **_mean("°", "°", "degrees degree deg"),
    **_marks("and=and or=or union=∪ in=∈ percent=% times=*"),
    **_named("n", _COUNTS),
    "to": (":", "to"),
}

_FRACTIONS = """
½=1/2 ⅓=1/3 ⅔=2/3 ¼=1/4 ¾=3/4 ⅕=1/5 ⅖=2/5 ⅗=3/5 ⅘=4/5 ⅙=1/6 ⅚=5/6 ⅛=1/8 ⅜=3/8 ⅝=5/8 ⅞=7/8
"""
_GREEK_LETTERS = """
α=alpha β=beta γ=gamma δ=delta ε=epsilon ζ=zeta η=eta θ=theta ι=iota κ=kappa λ=lambda μ=mu µ=mu ν=nu ξ=xi
ρ=rho σ=sigma τ=tau υ=upsilon φ=phi χ=chi ψ=psi ω=omega Γ=Gamma Δ=Delta Θ=Theta Λ=Lambda Ξ=Xi Σ=Sigma Φ=Phi
Ψ=Psi Ω=Omega
"""


CHARACTERS: Table = {
    **{mark: (mark, mark) for mark in "+-*/^_()[]{}|,;:=<>!'%&∪∈∅±∓⟨⟩⌊⌋⌈⌉∖≠≈≤≥°"},
    **dict.fromkeys("−–—‐‑", ("-", "-")),
    **dict.fromkeys("×·⋅∙•∗", ("*", "*")),
    **_marks("÷=/ ⁄=/ ∕=/ ⩽=≤ ⩾=≥ ≃=≈ ∣=| ′=' ø=∅ Ø=∅ ∧=and ∨=or"),
    **_named("sup", "⁰=0 ¹=1 ²=2 ³=3 ⁴=4 ⁵=5 ⁶=6 ⁷=7 ⁸=8 ⁹=9 ⁻=- ⁺=+ ⁿ=n"),
    **_named("sub", "₀=0 ₁=1 ₂=2 ₃=3 ₄=4 ₅=5 ₆=6 ₇=7 ₈=8 ₉=9"),
    **_named("half", _FRACTIONS),
    **_named("v", _GREEK_LETTERS),
    **_named("k", "π=pi ∞=inf"),
    **_named("f", "√=sqrt ∛=cbrt"),
    **_named("u", "ℝ=R ℚ=Q ℤ=Z ℕ=N ℂ=C"),
    **_named("$", "€=€ £=£"),
    **dict.fromkeys("$~\u00a0\u2061\u200b\ufeff", ("", "")),
}

UNIT_WORDS = frozenset(
    [
        *_words("mm cm dm km m in inch inches foot feet ft yard yards yd mile miles mi meter meters metre"),
        *_words("mg g kg lb lbs oz s sec ms us ns second seconds min minute minutes h hr hrs hour hours"),
        *_words(
            "ml dl cl kl mL L l gal Hz kHz MHz hz khz mhz ghz N J kJ mj kj kwh W kW kw mw V A K Pa kPa pa"
        ),
        *_words("kpa mpa atm bar mol mph kmh kph rad sq cu square cubic per unit units"),
        *_words("day days dollar dollars cent cents"),
    ]
)
