"""Formulas as MathML, which browsers typeset by themselves: no script, nothing to load, and screen readers read it."""

import logging
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from latex2mathml.converter import convert

FUNCTIONS = {"log", "ln", "exp", "clip", "sin", "cos"}
MINUS = {"-", "\u2212", "+"}
TAGS = dict.fromkeys("\u27fa\u27f9\u00b1", "mo") | {"\u221e": "mi"}
r"""\iff, \implies and \pm are operators, infinity is not and has no spaces: latex2mathml has it the other way round."""
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


class NotTypeset(ValueError):
    """A formula that has no MathML."""


@cache
def mathml(tex: str, block: bool) -> str:
    r"""One formula.

    Raises:
        NotTypeset: a command is unknown, or a brace or an environment is not closed.
    """
    tex = tex.strip()
    if tex.count(r"\left") != tex.count(r"\right") + tex.count(r"\leftarrow") - tex.count(r"\rightarrow"):
        raise NotTypeset("as many \\left as \\right")
    if _depth(tex):
        raise NotTypeset("braces that match")
    source = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", tex)
    source = re.sub(r"\\arg(?![a-z])", r"\\operatorname{arg}", source).replace(r"\nonumber", "")
    try:
        root = ElementTree.fromstring(convert(source, display="block" if block else "inline"))
    except Exception as error:  # latex2mathml raises many kinds, most of them its own
        raise NotTypeset(f"a formula that latex2mathml reads ({type(error).__name__})") from None
    for node in root.iter(f"{NAMESPACE}mtext"):
        if re.search(r"(?<!\\)\$", node.text or ""):
            raise NotTypeset(f"no formula inside \\text, not {node.text}")
        node.text = re.sub(r"\\([_%#&$])", r"\1", node.text or "")
    unknown = [node.text for node in root.iter() if node.text and "\\" in node.text]
    if unknown:
        raise NotTypeset(f"commands that latex2mathml knows, not {' '.join(unknown)}")
    for node in root.iter():
        if node.text in TAGS:
            node.tag = NAMESPACE + TAGS[node.text]
        _space(node)
    ElementTree.register_namespace("", NAMESPACE[1:-1])
    return ElementTree.tostring(root, "unicode")


def _depth(tex: str) -> int:
    """Braces that are left open; -1 if one is closed that was not opened."""
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", tex):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return -1
    return depth


def _space(parent: ElementTree.Element) -> None:
    """What TeX does by itself: thin spaces around `log` and `min`, none after a minus that is a sign."""
    if not parent.tag.endswith(("mrow", "math", "mtd", "mstyle")):
        return
    children, spaced = list(parent), []
    for before, child, after in zip([None, *children], children, [*children[1:], None], strict=False):
        if child.tag.endswith("}mo") and child.text in MINUS and (before is None or _opens(before)):
            child.set("form", "prefix")
        if not _is_function(child):
            spaced.append(child)
            continue
        if before is not None and not _opens(before) and not spaced[-1].tag.endswith("mspace"):
            spaced.append(_thin())
        spaced.append(child)
        if after is not None and not (after.tag.endswith("}mo") and after.text in "([{"):
            spaced.append(_thin())
    parent[:] = spaced


def _opens(node: ElementTree.Element) -> bool:
    """An operator after which an operand begins: a sign, a relation, an opening bracket."""
    return node.tag.endswith("}mo") and (node.text or "") not in {")", "]", "}", "|", "!"} and not _is_function(node)


def _is_function(node: ElementTree.Element) -> bool:
    """`log`, `min`, also with an index: all but its spaces is as TeX has it."""
    base = node[0] if node.tag.endswith(("msub", "msup", "msubsup", "munder")) and len(node) else node
    name = base.text or ""
    if base.tag.endswith("}mo") and name.isalpha() and name.isascii():
        base.set("lspace", "0")
        base.set("rspace", "0")
        return True
    return base.tag.endswith("}mi") and name in FUNCTIONS


def _thin() -> ElementTree.Element:
    return ElementTree.Element(f"{NAMESPACE}mspace", {"width": "0.17em"})


def write_font(path: Path) -> None:
    """STIX Two Math, reduced to what formulas of this kind use: 1.5 MB become a tenth."""
    from fontTools import subset

    logging.getLogger("fontTools").setLevel(logging.ERROR)
    source = Path(str(files("ziamath"))) / "fonts" / "STIXTwoMath-Regular.ttf"
    options = subset.Options(flavor="woff", layout_features=["ssty", "dtls", "flac", "kern"], notdef_outline=True)
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=CODE_POINTS)
    subsetter.subset(font)
    subset.save_font(font, path, options)


CODE_POINTS = [
    *range(0x20, 0x7F),
    *range(0xA0, 0x100),
    *range(0x2C6, 0x2DE),  # accents
    *range(0x300, 0x339),
    *range(0x391, 0x3F7),  # Greek
    *range(0x2010, 0x2070),
    *range(0x2100, 0x214F),  # letter-like: reals, Planck's h, which stands for the italic h
    *range(0x2190, 0x21D6),
    *range(0x2200, 0x22F2),  # operators
    *range(0x23B4, 0x23E1),  # braces above and below
    *range(0x27E6, 0x27F0),
    *range(0x27F5, 0x2800),  # long arrows
    *range(0x2A7D, 0x2A80),
    *range(0x1D400, 0x1D49C),  # bold and italic
    *range(0x1D49C, 0x1D4D0),  # script
    *range(0x1D538, 0x1D56C),  # blackboard
    *range(0x1D6A4, 0x1D71C),  # Greek
]
