"""LaTeX and plain text to tokens, in one pass, within bounds.

A token is ``(kind, text)``: ``n`` numeral, ``v`` variable, ``k`` constant, ``f`` function, ``c`` a
command with arguments, ``t`` words, ``u`` a named set, else an operator that is its own kind.
Layout (spaces, sizes, ``\\left``, dollars) is dropped. Anything not listed in ``vocabulary`` is
refused: an unknown command or character never disappears silently.
"""

from __future__ import annotations

import re

from tiers.mathematics.refusals import MAX_ANSWER, MAX_DEPTH, MAX_DIGITS, MAX_TOKENS, too_large, unparsable
from tiers.mathematics.vocabulary import (
    CHARACTERS,
    COMMANDS,
    DROPPED,
    FONTS,
    TEXTS,
    UNIT_WORDS,
    WORDS,
)

Token = tuple[str, str]

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PROGRAMMED = r"0(?:[xX][0-9A-Fa-f]+|[bB][01]+|[oO][0-7]+)(?![0-9A-Za-z.^_])"
# '2e-1' is 2e - 1: programs print two digits ('1e-05'), people write a point ('1.5e-3') or '1e-3'.
_SCIENTIFIC = (
    r"(?:(?:[0-9]+\.[0-9]*|\.[0-9]+|(?<![0-9.])1(?=[eE]))[eE][+-]?[0-9]{1,7}|[0-9]+[eE](?:[+-]?[0-9]{2,7}|[0-9]))"
    r"(?![0-9A-Za-z.^])"
)
_TOKEN = re.compile(
    rf"(?P<n>{_PROGRAMMED}|{_SCIENTIFIC}|{_NUMBER})|(?P<w>[A-Za-z]+)|\\(?P<c>[A-Za-z]+)\*?|\\(?P<e>.)|(?P<s>\s+)|(?P<o>.)",
    re.DOTALL,
)
_GROUP_MARK = re.compile(
    r"(?<=[0-9])(?:\{,\}|\\!,|\\!|,\\!\s?|\\,|\{\\,\}|\\ |~|\u202f|\u2009)(?=[0-9]{3}(?![0-9]))"
)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
_DECIMAL_COMMA = re.compile(r"(?<=[0-9])(?:,|\{,\})(?=[0-9])")
_DEGREES = re.compile(r"\^\s*(?:\{\s*(?:\\circ|∘)\s*\}|\\circ(?![A-Za-z])|∘)|\\degree(?![A-Za-z])|°")
_ROW_SPACE = re.compile(r"(\\\\)\s*\[\s*-?[0-9.]{1,6}\s*(?:pt|em|ex|mm|cm|px)\s*\]")
_FRACTION_DIGITS = re.compile(r"\\[dtc]?frac\s*([0-9])\s*([0-9])")
_OPENING = {"(": 1, "[": 1, "{": 1, "\\{": 1, ")": -1, "]": -1, "}": -1, "\\}": -1}
_TEXT_CHARS = re.compile(r"[A-Za-z0-9 .,'/^()²³°%:-]*")


def tokenize(text: str, *, thousands: bool = True, decimal_comma: bool = False) -> list[Token]:
    """Split one answer into tokens.

    ``thousands``: outside brackets ``1,000`` is one numeral rather than two members of a list.
    ``decimal_comma``: ``1,5`` is a decimal, ``1.000`` a group. Raises ``Refusal``.
    """
    if len(text) > MAX_ANSWER:
        raise too_large(f"longer than {MAX_ANSWER} characters")
    text = _prepared(text, thousands, decimal_comma)
    tokens: list[Token] = []
    position, end, depth = 0, len(text), 0
    match = _TOKEN.match
    while position < end:
        found = match(text, position)
        if found is None:
            raise unparsable("a character that is not part of the notation")
        position = found.end()
        group = found.lastgroup
        if group == "s":
            continue
        if group == "n":
            tokens.append(("n", _numeral(found.group())))
        elif group == "o":
            tokens.extend(_character(found.group()))
        elif group == "w":
            tokens.extend(_word(found.group()))
        else:
            position = _command(text, position, found[group or ""], tokens)
        if tokens and (step := _OPENING.get(tokens[-1][0])):
            depth += step
            if depth > MAX_DEPTH:
                raise too_large(f"brackets nest deeper than {MAX_DEPTH}")
        if len(tokens) > MAX_TOKENS:
            raise too_large(f"more than {MAX_TOKENS} tokens")
    return tokens


def _prepared(text: str, thousands: bool, decimal_comma: bool) -> str:
    if "°" in text or "circ" in text or "∘" in text or "degree" in text:
        text = _DEGREES.sub(" ° ", text)
    if decimal_comma:
        text = _DECIMAL_COMMA.sub(".", text.replace(".", ""))
    else:
        if "\\" in text or "{" in text or "~" in text or not text.isascii():
            text = _GROUP_MARK.sub("", text)
        if thousands and "," in text:
            text = _outside_brackets(text)
    if "{:}" in text:
        text = text.replace("{:}", ":")
    if "\\\\" in text:
        text = _ROW_SPACE.sub(r"\1", text)
    if "**" in text:
        text = text.replace("**", "^")
    if "frac" in text:
        text = _FRACTION_DIGITS.sub(r"\\frac{\1}{\2}", text)
    return text


def _outside_brackets(text: str) -> str:
    """Join thousands groups wherever no ``(``, ``[`` or ``\\{`` is open."""
    depth = 0
    pieces: list[str] = []
    for piece in re.split(r"(\\\{|\\\}|[\[\]()])", text):
        if piece in ("(", "[", "\\{"):
            depth += 1
        elif piece in (")", "]", "\\}"):
            depth -= 1
        elif depth <= 0 and "," in piece:
            piece = _THOUSANDS.sub(lambda match: match.group().replace(",", ""), piece)
        pieces.append(piece)
    return "".join(pieces)


def _character(mark: str) -> list[Token]:
    token = CHARACTERS.get(mark)
    if token is None:
        raise unparsable("a character that is not part of the notation")
    return [token] if token[0] else []


def _numeral(text: str) -> str:
    if len(text) > MAX_DIGITS:
        raise too_large(f"a numeral of more than {MAX_DIGITS} digits")
    return text


def _word(word: str) -> list[Token]:
    if len(word) == 1:
        return [WORDS.get(word) or ("v", word)]
    known = WORDS.get(word) or WORDS.get(word.lower())
    if known:
        return [known]
    if word in UNIT_WORDS or word.lower() in UNIT_WORDS or len(word) > 3:
        return [("t", word)]
    return [WORDS.get(letter) or ("v", letter) for letter in word]


def _command(text: str, position: int, name: str, tokens: list[Token]) -> int:
    if name in DROPPED:
        if name in ("left", "right") and text.startswith(".", position):
            return position + 1
        return position
    if name in TEXTS or name in FONTS:
        return _words(text, position, name, tokens)
    token = COMMANDS.get(name)
    if token is None:
        raise unparsable("a command that is not part of the notation")
    tokens.append(token)
    if name == "begin" or name == "end":
        return _environment(text, position, tokens)
    return position


def _environment(text: str, position: int, tokens: list[Token]) -> int:
    found = re.compile(r"\s*\{([a-zA-Z]{1,12}\*?)\}(?:\{[clr| ]{0,60}\})?").match(text, position)
    if found is None or found.group(1).rstrip("*") not in _TABLES:
        raise unparsable("an environment that is not a matrix")
    tokens[-1] = (tokens[-1][0], found.group(1))
    return found.end()


_TABLES = frozenset({"matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "smallmatrix", "array"})


def _words(text: str, position: int, name: str, tokens: list[Token]) -> int:
    found = re.compile(r"\s*\{([^{}\\$]*)\}|\s*([A-Za-z])").match(text, position)
    if found is None:
        if name in FONTS:  # \mathbf{\alpha}, {\rm …}: the font alone means nothing
            return position
        raise unparsable("text that is not plain words")
    content = (found.group(1) if found.group(1) is not None else found.group(2)).strip()
    tokens.extend(_phrase(content, name))
    return found.end()


def _phrase(content: str, name: str) -> list[Token]:
    if name == "mathbb":
        if content in ("R", "Q", "Z", "N", "C"):
            return [("u", content)]
        raise unparsable("an unknown named set")
    known = WORDS.get(content) or WORDS.get(content.lower())
    if known and (name in FONTS or name == "operatorname" or known[0] in ("and", "or", "∪", ",", ":", "n")):
        return [known]
    if name == "operatorname":
        raise unparsable("a function that is not part of the notation")
    if content.isascii() and content.isdigit():
        return [("n", _numeral(content))]
    if not content:
        return []
    if len(content) == 1 and content.isalpha() and content not in UNIT_WORDS:
        bold = name in FONTS and name not in ("mathit", "mathrm")
        return [("v", f"{name} {content}" if bold else content)]
    if content in (",", ";"):
        return [(content, content)]
    if len(content) > 60 or not _TEXT_CHARS.fullmatch(content):
        raise unparsable("text that is not plain words")
    return [("t", content)]


def outward_brackets(tokens: list[Token]) -> list[Token] | None:
    """The tokens with ``]1,3[`` read as an open interval: its brackets turned to where they point.

    A turned bracket is a round one whose text is the bracket as written. ``None`` where nothing can be
    turned: no bracket points outwards, or they do not pair.
    """
    turned: list[Token] = []
    inside, depth, found = False, 0, False
    for token in tokens:
        if token[0] in ("[", "]"):
            if inside and depth:
                return None
            opens = "]" if not inside else "["
            outward = token[0] == opens
            found |= outward
            turned.append(("(" if not inside else ")", token[0]) if outward else token)
            inside = not inside
            continue
        if inside and token[0] in ("(", ")"):
            depth += 1 if token[0] == "(" else -1
        turned.append(token)
    return turned if found and not inside and not depth else None
