"""Drawings as SVG: rectangles, lines and text in a coordinate system of pixels.

Charts are intervals over an axis (areas of an arena, spans of a timeline, bars), drawn as rectangles with a title. They
are generated with the report, by the standard library's ElementTree, which escapes all text; colours are classes of the
page's style, so that they follow light and dark mode.
"""

from __future__ import annotations

from xml.etree import ElementTree

NAMESPACE = "http://www.w3.org/2000/svg"


class Drawing:
    """One SVG; `label` is its description for screen readers."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.root = ElementTree.Element("svg", {
            "xmlns": NAMESPACE, "viewBox": f"0 0 {_number(width)} {_number(height)}", "role": "img",
            "aria-label": label, "width": _number(width), "height": _number(height),
        })  # fmt: skip

    def style(self, text: str) -> None:
        """Embed the style, for a drawing in a separate file."""
        ElementTree.SubElement(self.root, "style").text = text

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, title: str = "", places: str = ""
    ) -> None:
        """Draw a rectangle; `title` is its tooltip, `places` are the places that it highlights in the code."""
        attributes = {"x": _number(x), "y": _number(y), "width": _number(max(width, 0.4)), "height": _number(height),
                      "class": kind}  # fmt: skip
        if places:
            attributes["data-p"] = places
        result = ElementTree.SubElement(self.root, "rect", attributes)
        if title:
            ElementTree.SubElement(result, "title").text = _printable(title)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> None:
        ElementTree.SubElement(self.root, "line", {
            "x1": _number(x1), "y1": _number(y1), "x2": _number(x2), "y2": _number(y2), "class": kind,
        })  # fmt: skip

    def polyline(self, points: list[tuple[float, float]], kind: str) -> None:
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        ElementTree.SubElement(self.root, "polyline", {"points": text, "class": kind})

    def circle(self, x: float, y: float, radius: float, kind: str, title: str) -> None:
        result = ElementTree.SubElement(
            self.root, "circle", {"cx": _number(x), "cy": _number(y), "r": _number(radius), "class": kind}
        )
        ElementTree.SubElement(result, "title").text = _printable(title)

    def text(self, x: float, y: float, content: str, anchor: str = "start", kind: str = "label") -> None:
        result = ElementTree.SubElement(
            self.root, "text", {"x": _number(x), "y": _number(y), "text-anchor": anchor, "class": kind}
        )
        result.text = _printable(content)

    def markup(self) -> str:
        return ElementTree.tostring(self.root, encoding="unicode")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _printable(text: str) -> str:
    """Text without control characters, which XML does not have."""
    return "".join(letter if letter >= " " or letter == "\n" else " " for letter in text)
