"""Media: what is put in is what it says it is, is kept once, is shown where it stands, and comes out byte for byte or not at all."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.db import Database
from polyloop.documents import blobs
from polyloop.documents import requests as ask
from tests.documents.office import Office

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")  # one pixel


@pytest.fixture
def office(db: Database, tmp_path: Path) -> Office:
    (tmp_path / "pixel.png").write_bytes(PNG)
    (tmp_path / "note.txt").write_text("plain\n")
    return Office(db, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", PNG, "image/png"), ("a", PNG, "image/png"), ("a.jpg", b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        ("a.bin", b"\xfe\0\x01", "application/octet-stream"),
        ("a.txt", "合同".encode(), "text/plain"), ("a.docx", b"PK\x03\x04...", "application/zip"), ("a.mp4", b"\0\0\0\x18ftypmp42", "video/mp4"),
        ("a.wav", b"RIFF\0\0\0\0WAVE", "audio/wav"), ("a.svg", b"<svg onload='x'/>", "text/plain"), ("a.pdf", b"%PDF-1.7", "application/pdf"),
    ],
)  # fmt: skip
def test_bytes_say_what_they_are(name: str, data: bytes, kind: str) -> None:
    assert blobs.kind_of(name, data) == kind


def test_a_name_that_claims_another_kind_is_refused(office: Office, tmp_path: Path) -> None:
    node = office.new()
    for name, data, kind in (
        ("fake.png", b"MZ\x90\0not a picture", "type_mismatch"), ("fake.jpg", PNG, "type_mismatch"), ("fake.pdf", b"<html>", "type_mismatch"),
        ("empty.bin", b"", "validation"), ("big.bin", b"\xff" * ((20 << 20) + 1), "validation"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        office.refused(kind, "media_insert", {"nodeId": node, "file": name})
    (tmp_path / "link.png").symlink_to(tmp_path / "pixel.png")
    for path in ("../x.png", "/etc/passwd", "link.png", "a\0.png", "nowhere.png", ".polyloop/runs.db"):
        told, code = office.call("media_insert", {"nodeId": node, "file": path})
        assert (code != 0, told["error"]["executionStarted"]) == (True, False), path
    assert office.do("media_list", {"nodeId": node})["items"] == []


def test_put_in_listed_and_landed(office: Office, tmp_path: Path) -> None:
    node = office.new("D", "one\n\ntwo\n")
    first = office.blocks(node)[0]["blockId"]
    told = office.do("media_insert", {"nodeId": node, "file": "pixel.png", "afterBlockId": first})
    resource = told["data"]["resourceId"]
    assert [s["name"] for s in told["steps"]] == ["upload", "write", "verify"]
    assert told["verification"]["matched"] is True
    assert office.text(node) == f"one\n\n![pixel.png](media:{resource})\n\ntwo\n"
    office.do("media_insert", {"nodeId": node, "file": "pixel.png", "name": "again"})
    office.do("media_insert", {"nodeId": node, "file": "note.txt"})
    listed = office.do("media_list", {"nodeId": node})
    assert (listed["complete"], [(i["name"], i["type"], i["bytes"], len(i["blockIds"])) for i in listed["items"]]) == (
        True,
        [("again", "image/png", len(PNG), 2), ("note.txt", "text/plain", 6, 1)],
    )
    [(count,)] = office.db.look(lambda tx: tx.rows("select count(*) from doc_blob where tenant = ?", office.tenant))
    assert count == 2, "the same bytes are kept once"
    landed = office.do("media_download", {"nodeId": node, "resourceId": resource, "output": "out/p.png"})
    assert (tmp_path / "out/p.png").read_bytes() == PNG
    assert (landed["data"]["sha256"], landed["data"]["bytes"]) == (hashlib.sha256(PNG).hexdigest(), len(PNG))
    assert landed["verification"] == {
        "method": "readback", "matched": True, "expected": landed["data"]["sha256"], "observed": landed["data"]["sha256"], "atRevision": None,
    }  # fmt: skip
    office.do("update", {"nodeId": node, "command": "overwrite", "content": "bare\n", "force": True})
    assert [i["blockIds"] for i in office.do("media_list", {"nodeId": node})["items"]] == [[], []], "still there, shown nowhere"


def test_S0_44_landing_media_takes_nothing_unasked(office: Office, tmp_path: Path) -> None:
    node = office.new()
    resource = office.do("media_insert", {"nodeId": node, "file": "pixel.png"})["data"]["resourceId"]
    args = {"nodeId": node, "resourceId": resource, "output": "p.png"}
    (tmp_path / "p.png").write_bytes(b"mine")
    office.refused("conflict", "media_download", args)
    assert (tmp_path / "p.png").read_bytes() == b"mine"
    asked = office.refused("confirmation_required", "media_download", {**args, "overwrite": True}, approved_by="")
    assert asked["details"]["plan"]["resolved"]["replaces"] is True
    office.do("media_download", {**args, "overwrite": True})
    assert (tmp_path / "p.png").read_bytes() == PNG
    for output in ("../p.png", "/tmp/p.png", "a/../../p.png", ".polyloop/x"):
        told, code = office.call("media_download", {**args, "output": output})
        assert (code != 0, told["error"]["executionStarted"]) == (True, False), output
    (tmp_path / "ro").mkdir()
    (tmp_path / "link").symlink_to("/tmp")
    assert office.call("media_download", {**args, "output": "link/p.png"})[1] != 0
    office.refused("not_found", "media_download", {**args, "resourceId": "m_none", "output": "q.png"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "note.txt", "p.png", "pixel.png", "ro"], "nothing half made is left"


def test_a_landing_that_fails_leaves_nothing(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = office.new()
    resource = office.do("media_insert", {"nodeId": node, "file": "pixel.png"})["data"]["resourceId"]
    args = {"nodeId": node, "resourceId": resource, "output": "p.png", "operationKey": "k"}

    def failing(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        receipt = office.receipt("media_download", args)
    assert (receipt.status, receipt.problem().kind) in (("failed", "local_io"), ("retryable", "local_io"))
    assert not (tmp_path / "p.png").exists()
    assert office.receipt("media_download", args).ok
    assert (tmp_path / "p.png").read_bytes() == PNG


def test_what_was_landed_by_a_process_that_died_is_found(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wrote the file and died before it could note that."""
    from polyloop.documents import media

    node = office.new()
    resource = office.do("media_insert", {"nodeId": node, "file": "pixel.png"})["data"]["resourceId"]
    args = {"nodeId": node, "resourceId": resource, "output": "p.png", "operationKey": "k"}
    whole = media.land

    class Gone(BaseException):
        pass

    def dying(*given: Any) -> Any:
        whole(*given)
        raise Gone

    with monkeypatch.context() as patched:
        patched.setattr(media, "land", dying)
        with pytest.raises(Gone):
            office.answer("media_download", args)
    told, code = office.call("media_download", args)
    assert (told["state"], code) == ("running", 10)
    assert office.do("reconcile", {"operationId": told["taskId"]})["status"] == "success"
    assert office.receipt("media_download", args).ok
    assert (tmp_path / "p.png").read_bytes() == PNG


def test_purged_media_is_gone_and_a_copy_keeps_its_own(office: Office) -> None:
    node = office.new()
    office.do("media_insert", {"nodeId": node, "file": "pixel.png"})
    copy = office.do("copy", {"nodeId": node, "title": "C"})["data"]["nodeId"]
    resource = office.do("media_list", {"nodeId": copy})["items"][0]["resourceId"]

    def kept() -> int:
        return office.db.look(lambda tx: tx.rows("select count(*) from doc_blob where tenant = ?", office.tenant))[0][0]

    for each, left in ((node, 1), (copy, 0)):
        if left == 0:
            office.do("media_download", {"nodeId": copy, "resourceId": resource, "output": "c.png"})
        office.do("delete", {"nodeId": each})
        office.do("purge", {"nodeId": each})
        assert kept() == left


@pytest.mark.parametrize("fault", ["lose_reply", "empty_object"])
@pytest.mark.parametrize("step", [0, 1])
def test_S0_8_an_upload_that_is_lost_on_the_way_is_there_once(db: Database, tmp_path: Path, fault: str, step: int) -> None:
    (tmp_path / "pixel.png").write_bytes(PNG)
    office = Office(db, faulty=True, folder=tmp_path)
    node = office.new()
    office.transport.faults = [""] * step + [fault]
    args = {"nodeId": node, "file": "pixel.png", "operationKey": "k"}
    receipt = office.receipt("media_insert", args)
    assert receipt.status == ("unknown", "partial_success")[step]
    settled, _ = office.call("reconcile", {"operationId": receipt.data["operationId"]})
    if step:
        assert settled["status"] == "success"
    else:
        partial = settled["error"]["details"]
        assert [s["status"] for s in partial["steps"][:2]] == ["success", "not_started"]
        receipt = office.receipt("media_insert", {"nodeId": node, "file": "pixel.png", "continues": receipt.data["operationId"]})
        assert receipt.ok
    assert len(office.do("media_list", {"nodeId": node})["items"][0]["blockIds"]) == 1


def test_damaged_bytes_are_told_and_never_landed(office: Office, tmp_path: Path) -> None:
    node = office.new()
    resource = office.do("media_insert", {"nodeId": node, "file": "pixel.png"})["data"]["resourceId"]
    office.db.write_sync(lambda tx: tx.run("update doc_blob set data = ? where tenant = ?", b"damaged", office.tenant))
    told, code = office.call("media_download", {"nodeId": node, "resourceId": resource, "output": "p.png"})
    assert (told["error"]["kind"], code) == ("corrupt_store", 1)
    assert not (tmp_path / "p.png").exists()


def test_the_service_takes_no_bytes_of_another_digest(office: Office) -> None:
    node, digest = office.new(), hashlib.sha256(PNG).hexdigest()
    body = json.dumps({"name": "a", "type": "image/png", "bytes": len(PNG), "sha256": digest})
    for data in (b"other", b""):
        with pytest.raises(ProblemError, match="not the bytes of this digest"):
            office.transport.ask(ask.Attach(node=node, kind="media", item="m_1", mark=digest, body=body, data=data), "s1")


def test_previews(office: Office, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    node = office.new()
    out = io.BytesIO()
    image.new("RGB", (2000, 1000), (200, 10, 10)).save(out, "JPEG")
    (tmp_path / "big.jpg").write_bytes(out.getvalue())
    (tmp_path / "broken.png").write_bytes(PNG[:20])
    bomb = b"".join([PNG[:8], chunk(b"IHDR", b"\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0"), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b"")])
    (tmp_path / "bomb.png").write_bytes(bomb)
    ids = {n: office.do("media_insert", {"nodeId": node, "file": n})["data"]["resourceId"] for n in ("big.jpg", "broken.png", "bomb.png", "note.txt")}
    office.do("media_preview", {"nodeId": node, "resourceId": ids["big.jpg"], "output": "small.png"})
    with image.open(tmp_path / "small.png") as small:
        assert (small.format, small.size) == ("PNG", (512, 256))
    for name, kind in (("broken.png", "type_mismatch"), ("bomb.png", "validation"), ("note.txt", "type_mismatch")):
        office.refused(kind, "media_preview", {"nodeId": node, "resourceId": ids[name], "output": "x.png"})
    assert not (tmp_path / "x.png").exists()


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


@pytest.mark.parametrize("text", ["BMW and others", "ID3 is a tag", "the ftyp of it", "RIFFRAFF WAVE", "0123456 WEBP", "II* is odd"])
def test_a_text_that_begins_like_a_picture_is_a_text(text: str) -> None:
    assert blobs.kind_of("a.txt", text.encode()) == "text/plain"


@pytest.mark.parametrize("name", ["png", "jpeg", "gif", "webp"])
def test_a_damaged_picture_is_shown_or_refused_by_name(name: str) -> None:
    """The decoders raise errors of all sorts."""
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.effect_noise((40, 40), 50).convert("RGB").save(out, name)
    whole, kinds = out.getvalue(), set[str]()
    for at in range(12, len(whole), max(len(whole) // 60, 1)):
        for data in (whole[:at], whole[:at] + b"\xff\x00\xff" + whole[at + 3 :]):
            try:
                kinds.add(blobs.kind_of("", blobs.preview(data)))
            except ProblemError as stop:
                kinds.add(stop.problem.kind)
    assert kinds <= {"image/png", "type_mismatch", "validation"}
    assert "type_mismatch" in kinds
