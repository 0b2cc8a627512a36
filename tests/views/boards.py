"""Boards to export: one as people make them, one whose every text is an attack."""

from __future__ import annotations

import hashlib
from typing import Any

from polyloop.canvas.model import Edge, Node, Row, full
from polyloop.canvas.storyboard import TEXTS
from polyloop.views.canvas.board import Asset, Board

ATTACKS = (
    "</text></svg><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "]]><!--", "&lt;b&gt; \x00\x0b\x1b[31m",
    "=cmd|' /C calc'!A0", "<style>@import url(http://evil.test)</style>", "\u202ereversed", "\ud800 lone", "| a | b |\n|---|---|",
)  # fmt: skip


def node(node_id: str, kind: str, x: int, y: int, width: int, height: int, **more: Any) -> Node:
    return Node(id=node_id, type=kind, x=x, y=y, width=width, height=height, **more)


def sample() -> Board:
    """A short film: brief, characters, storyboard, table, media in a frame."""
    nodes = [
        node(
            "brief",
            "text",
            0,
            0,
            340,
            240,
            title="创意简报",
            body={"content": "雨夜，一个修表匠收到一块会倒走的怀表。三十秒短片，冷色，结尾留白。"},
            no=1,
        ),
        node(
            "style",
            "markdown",
            0,
            300,
            420,
            320,
            title="Look",
            body={"content": "# Look\n- cold light\n- slow camera, long lenses, one warm lamp"},
            no=2,
        ),
        node("frame", "frame", 480, -80, 800, 520, title="References", no=3),
        node("hero", "image", 520, 0, 720, 405, title="修表匠", parent="frame", locked=True, body={"prompt": "an old watchmaker by a lamp"}, no=4),
        node("shots", "script", 1340, 0, 920, 360, title="分镜 Storyboard", no=5),
        node("plan", "batch-table", 1340, 420, 1280, 560, title="Variations", body={"operation": "creative", "globalPrompt": ""}, no=6),
        node("voice", "audio", 0, 700, 340, 120, title="Rain", body={"prompt": "steady rain on a tin roof"}, no=7),
    ]
    plots = ["门铃响，雨里没有人，只有一个包裹。", "The watch ticks backwards; he leans in.", "灯灭。表停在十二点。"]
    shots = [Row(node="shots", id=f"row_{n}", place=n, body={"durationSeconds": 2.5 * (n + 1), "plotDescription": p}) for n, p in enumerate(plots)]
    shots[0].body.update({"dialogue": "谁？", "assetBindings": [{"nodeId": "hero", "role": "character", "priority": 1}]})
    lines = [
        Row(node="plan", id=f"row_{n}", place=n, body={"enabled": n != 1, "inputNodeIds": ["hero"], "prompt": f"@参考图1 with {colour} light"})
        for n, colour in enumerate(["cold", "amber", "green"])
    ]
    edges = [
        Edge(id="e1", source="brief", target="shots"),
        Edge(id="e2", source="hero", target="shots"),
        Edge(id="e3", source="hero", target="plan"),
        Edge(id="e4", source="style", target="hero"),
    ]
    content, _ = full([*nodes, *edges]).hashes
    return Board(canvas_id="cv_1", title="雨夜的表", snapshot_hash=content, nodes=nodes, edges=edges, rows={"shots": shots, "plan": lines})


def hostile() -> Board:
    """Every text that a person or an agent can choose, ids too."""
    everything = " ".join(ATTACKS)
    kinds = ("text", "markdown", "image", "frame", "script", "batch-table", "character")
    nodes = [
        node(f"../{kind}/{ATTACKS[n]}"[:80], kind, n * 900, 0, 800, 400, title=ATTACKS[n], body={"content": everything}, no=n)
        for n, kind in enumerate(kinds)
    ]
    script, table = nodes[4].id, nodes[5].id
    shots = [Row(node=script, id=a, place=n, body={"durationSeconds": 1, **dict.fromkeys(TEXTS, a)}) for n, a in enumerate(ATTACKS)]
    lines = [Row(node=table, id=a, place=n, body={"enabled": True, "inputNodeIds": [a], "prompt": a}) for n, a in enumerate(ATTACKS)]
    data = b"not really a picture"
    asset = Asset(hashlib.sha256(data).hexdigest(), "image/png", data)
    edges = [Edge(id=everything, source=nodes[0].id, target=nodes[1].id)]
    return Board(
        canvas_id="cv_2", title=everything, snapshot_hash="canvas:0", nodes=nodes, edges=edges, rows={script: shots, table: lines},
        assets={nodes[2].id: asset},
    )  # fmt: skip


BOARDS = {"sample": sample, "hostile": hostile, "empty": lambda: Board(canvas_id="cv_0", title="", snapshot_hash="canvas:1", nodes=[], edges=[])}
