"""A canvas as a picture: SVG by our own hand, PNG by Pillow with the shipped font.

What the canvas says is data: in SVG every text and every attribute is escaped, and nothing in it runs or loads anything.
"""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Final

from polyloop.contract.problem import problem
from polyloop.formats.font import FONT
from polyloop.words.catalog import Lang

from .board import Board, plain
from .scene import ARC, PAPER, Arc, Line, Mark, Picture, Rect, scene

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

#: The longest side of a PNG; a larger canvas is drawn smaller.
SIDE_PX: Final = 4_096
#: Letters smaller than this are not drawn: nobody could read them.
LETTER_MIN_PX: Final = 4
#: Points of an arc that is drawn as a line.
_POINTS: Final = 24
_FAMILY: Final = "'Noto Sans SC','Noto Sans CJK SC','PingFang SC','Microsoft YaHei',system-ui,sans-serif"


def svg(board: Board, lang: Lang = "zh") -> bytes:
    """One self-contained SVG, UTF-8. Ids and texts of nodes appear as text only."""
    view = scene(board, lang)
    parts = [_svg_mark(mark) for mark in view.marks]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view.x} {view.y} {view.width} {view.height}" width="{view.width}" '
        f'height="{view.height}" font-family="{_FAMILY}" role="img" aria-label="{escape(plain(" ".join(board.title.split())))}">\n'
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{ARC}"/></marker></defs>\n'
        f'<rect x="{view.x}" y="{view.y}" width="{view.width}" height="{view.height}" fill="{PAPER}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    ).encode("utf-8", "replace")  # fmt: skip


def _svg_mark(mark: Mark) -> str:
    match mark:
        case Rect():
            stroke = f' stroke="{mark.stroke}" stroke-width="2"' if mark.stroke else ""
            return f'<rect x="{mark.x}" y="{mark.y}" width="{mark.w}" height="{mark.h}" rx="{mark.radius}" fill="{mark.fill}"{stroke}/>'
        case Arc():
            path = f"M{mark.x1} {mark.y1}C{mark.x1 + mark.bend} {mark.y1} {mark.x2 - mark.bend} {mark.y2} {mark.x2} {mark.y2}"
            return f'<path d="{path}" fill="none" stroke="{ARC}" stroke-width="2" marker-end="url(#head)"/>'
        case Picture():
            data = f"data:{mark.asset.mime};base64,{base64.b64encode(mark.asset.data).decode()}"
            return f'<image x="{mark.x}" y="{mark.y}" width="{mark.w}" height="{mark.h}" href="{data}"/>'
        case Line():
            bold = ' font-weight="700"' if mark.bold else ""
            place = f'x="{mark.x}" y="{mark.y:.1f}" font-size="{mark.size:g}" fill="{mark.fill}"'
            return f'<text {place}{bold} xml:space="preserve">{escape(mark.text)}</text>'


def png(board: Board, lang: Lang = "zh") -> bytes:
    """The same picture in points, at most SIDE_PX on its longest side.

    Raises ProblemError(capability_unavailable) without the extra `media`.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError as error:
        message = "Pillow is not installed: pip install 'polyloop[media]'"
        raise problem("capability_unavailable", message, stage="open", details={"extra": "media"}) from error
    view = scene(board, lang)
    scale = min(1.0, SIDE_PX / max(view.width, view.height))
    image = Image.new("RGB", (max(1, round(view.width * scale)), max(1, round(view.height * scale))), PAPER)
    draw = ImageDraw.Draw(image)
    fonts: dict[int, FreeTypeFont] = {}
    for mark in view.marks:
        match mark:
            case Line():
                size = round(mark.size * scale)
                if size >= LETTER_MIN_PX:
                    font = fonts[size] = fonts.get(size) or ImageFont.truetype(str(FONT), size)
                    spot = ((mark.x - view.x) * scale, (mark.y - view.y) * scale)
                    draw.text(spot, mark.text, font=font, fill=mark.fill, anchor="ls", stroke_width=size // 24 if mark.bold else 0)
            case Rect():
                box = _box(mark, view.x, view.y, scale)
                draw.rounded_rectangle(box, radius=mark.radius * scale, fill=mark.fill, outline=mark.stroke or None, width=max(1, round(2 * scale)))
            case Picture():
                _draw_picture(image, mark, _box(mark, view.x, view.y, scale))
            case Arc():
                _draw_arc(draw, mark, view.x, view.y, scale)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _box(mark: Rect | Picture, x: float, y: float, scale: float) -> tuple[float, float, float, float]:
    left, top = (mark.x - x) * scale, (mark.y - y) * scale
    return left, top, left + max(1, mark.w * scale), top + max(1, mark.h * scale)


def _draw_picture(sheet: Image, mark: Picture, box: tuple[float, float, float, float]) -> None:
    """A file was decoded whole when it was taken in; one that cannot be read any more leaves its place empty."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(mark.asset.data), formats=["PNG", "JPEG", "WEBP", "GIF"]) as found:
            shown = ImageOps.exif_transpose(found).convert("RGBA")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        return
    left, top, right, bottom = (round(side) for side in box)
    shown = ImageOps.contain(shown, (max(1, right - left), max(1, bottom - top)))
    sheet.paste(shown, (left + (right - left - shown.width) // 2, top + (bottom - top - shown.height) // 2), shown)


def _draw_arc(draw: ImageDraw, mark: Arc, x: float, y: float, scale: float) -> None:
    corners = ((mark.x1, mark.y1), (mark.x1 + mark.bend, mark.y1), (mark.x2 - mark.bend, mark.y2), (mark.x2, mark.y2))
    points = list[tuple[float, float]]()
    for step in range(_POINTS + 1):
        t = step / _POINTS
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        along, down = (sum(w * c[axis] for w, c in zip(weights, corners, strict=True)) for axis in (0, 1))
        points.append(((along - x) * scale, (down - y) * scale))
    draw.line(points, fill=ARC, width=max(1, round(2 * scale)), joint="curve")
    (tip_x, tip_y), size = points[-1], 14 * scale
    draw.polygon([(tip_x, tip_y), (tip_x - size, tip_y - size / 2), (tip_x - size, tip_y + size / 2)], fill=ARC)
