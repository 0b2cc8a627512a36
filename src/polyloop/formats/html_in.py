"""HTML pages to blocks: sanitised by a real HTML parser first, then the clean tree is walked.

What the page shows as text is kept; what it does, how it looks and what it embeds is not, and each kind of it is named. The raw text
is only looked at in passes that take one look at each character, because what is read here may have been made to be slow.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from typing import Final

from polyloop.formats.blocks import Document, Loss, printable, text_of
from polyloop.formats.encoding import decode
from polyloop.formats.html_walk import BREAKS, HEADINGS, MARKS, OTHER_MARKS, TABLE, Walk
from polyloop.formats.links import SAFE_SCHEMES, safe_link
from polyloop.formats.problems import unreadable

#: Unclosed elements inside one another; the parser's time grows with their square.
_MAX_OPEN: Final = 2_000
#: Taken out with all that is in them, and what each is named.
_DROPPED: Final = {
    "script": "scripts", "style": "", "title": "", "template": "scripts", "iframe": "embedded_object", "object": "embedded_object",
    "embed": "embedded_object", "video": "embedded_object", "audio": "embedded_object", "canvas": "embedded_object", "svg": "drawing",
    "select": "form_fields", "textarea": "form_fields", "button": "form_fields", "datalist": "form_fields",
}  # fmt: skip
_KEPT: Final = {
    *HEADINGS, *BREAKS, *MARKS, *OTHER_MARKS, *TABLE, "ul", "ol", "li", "blockquote", "pre", "br", "hr", "a", "img", "input", "rt", "rp", "ruby",
}  # fmt: skip
_ATTRIBUTES: Final = {
    "a": {"href"}, "img": {"src", "alt"}, "ol": {"start"}, "li": {"value"}, "input": {"type", "checked"}, "pre": {"class"}, "code": {"class"},
    "th": {"colspan", "rowspan", "align", "style"}, "td": {"colspan", "rowspan", "align", "style"}, "*": {"hidden"},
}  # fmt: skip
_ENDS_BY_ITSELF: Final = frozenset({
    "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "html", "head", "body", "br", "hr", "img",
    "input", "meta", "link", "col", "area", "base", "wbr", "source", "track", "embed", "param", "rt", "rp",
})  # fmt: skip
_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
#: What pages are written in. Other codecs are slow, or give what is no text.
_OF_THE_WEB: Final = re.compile(
    r"gb18030|gbk|gb2312|big5(?:hkscs)?|euc_(?:jp|kr)|shift_jis|cp932|cp949|iso2022_jp|iso8859-\d{1,2}|cp125\d|cp874|koi8-[ru]|ascii|mac-(?:roman|cyrillic)|hz"
)
_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,2000})", re.IGNORECASE)
_HREF: Final = re.compile(r"""\bhref\s{0,9}=\s{0,9}["']?\s{0,9}([^"'>\s]{1,200})""", re.IGNORECASE)


def read_html(name: str, data: bytes) -> Document:
    """Blocks without a place in the file. Raises `undecidable_encoding`, `nested_too_deep`, `too_many_characters`, `library_missing`."""
    try:
        import nh3
    except ImportError as error:
        raise unreadable(name, "library_missing", "reading HTML needs nh3") from error
    text, encoding = _decoded(name, data)
    losses = Counter({"html_layout": 1})
    _look(name, text, losses)

    clean = nh3.clean(
        text, tags=_KEPT, clean_content_tags=set(_DROPPED), attributes=_ATTRIBUTES, url_schemes={*SAFE_SCHEMES, "data", "file", "cid"},
        link_rel=None,
    )  # fmt: skip
    walk = Walk(name, losses)
    parser = HTMLParser()
    parser.handle_starttag, parser.handle_endtag, parser.handle_data = walk.start, walk.end, walk.text
    parser.feed(printable(clean))
    parser.close()
    walk.flush()
    title = _TITLE.search(text)
    heading = next((b for b in walk.blocks if b.type == "heading" and b.level == 1), None)
    told = (unescape(title[1]) if title else "") or (text_of(heading.runs) if heading else "")
    if encoding != "utf-8":
        losses["encoding"] += 1
    lost = tuple(Loss(code, count, encoding if code == "encoding" else "") for code, count in sorted(losses.items()) if count)
    return Document(tuple(walk.blocks), lost, " ".join(told.split()), name, "html")


def _decoded(name: str, data: bytes) -> tuple[str, str]:
    """By its mark, as UTF-8, as it says itself, else as any text."""
    said = _CHARSET.search(data[:4096])
    if said and not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        label = said[1].decode().lower()
        try:
            found = codecs.lookup("gb18030" if label in ("gb2312", "gbk") else label)
            if _OF_THE_WEB.fullmatch(found.name):
                return data.decode(found.name), found.name
        except (LookupError, UnicodeDecodeError):
            return decode(name, data)  # it is not what it says
    return decode(name, data)


def _look(name: str, text: str, losses: Counter[str]) -> None:
    """Names what the sanitiser will take out, and refuses what would keep it busy for ever."""
    opened, deep = Counter[str](), 0
    for part in _outside(text, losses):
        losses["unsafe_link"] += sum(1 for said in _HREF.findall(part) if said and not safe_link(unescape(said)))
        for end, written in _TAG.findall(part):
            tag = written.lower()
            if not end and (code := _DROPPED.get(tag, "")):
                losses[code] += 1
            if tag not in _ENDS_BY_ITSELF:  # an end counts for what it names: others end nothing
                step = 1 if not end else -1 if opened[tag] else 0
                opened[tag] += step
                deep += step
                if deep > _MAX_OPEN:
                    raise unreadable(name, "nested_too_deep", f"more than {_MAX_OPEN} elements are open inside one another")


def _outside(text: str, losses: Counter[str]) -> list[str]:
    """The text without what stands in comments, scripts, styles and drawings."""
    parts: list[str] = []
    at = 0
    for found in re.finditer(r"<!--|<script\b|<style\b|<svg\b", text, re.IGNORECASE):
        if found.start() < at:
            continue
        comment = found[0] == "<!--"
        parts.append(text[at : found.end()])
        losses["html_comments" if comment else ""] += 1
        ends = {"<!--": "-->", "<svg": "</svg"}.get(found[0].lower(), "</")
        end = text.find(ends, found.end())
        at = len(text) if end < 0 else end
        if end < 0:
            break
    del losses[""]
    return [*parts, text[at:]]
