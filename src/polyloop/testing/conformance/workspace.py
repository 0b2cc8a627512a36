"""The workspace port: one test for each sentence of it.

A workspace runs it by subclassing `WorkspaceConformance` in a test module and giving one fixture: `make_workspace(folder)`,
which opens the workspace in a folder. Tests put files there and look at them behind the workspace's back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.clock import SystemClock
from polyloop.contract.problem import ProblemError
from polyloop.kernel.seams import NotStarted
from polyloop.workspace import Workspace

MakeWorkspace = Callable[[Path], Workspace]

CLOCK = SystemClock()
OUTSIDE = "what stands outside"
#: path -> the kind of the refusal, by every operation.
BAD_PATHS = {
    "": "validation", ".": "validation", "./a.txt": "validation", "a.txt/": "validation", "d//f": "validation", "a\x00b": "validation",
    "a\nb": "validation", "d\\f": "validation", "n" * 3000: "validation", "\ud800": "validation", "d/.polyloop-tmp-1": "validation",
    "..": "permission_denied", "../ws_secret/a": "permission_denied", "d/../../secret.txt": "permission_denied", "/etc/passwd": "permission_denied",
    "C:/x": "permission_denied", ".polyloop-workspace/lock": "permission_denied", ".PolyLoop/store": "permission_denied",
    "link": "permission_denied", "way/a": "permission_denied", "inner": "permission_denied", "fifo1": "type_mismatch",
}  # fmt: skip


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def refused(kind: str, operation: Callable[..., Any], *args: Any, **more: Any) -> ProblemError:
    """The operation raises a problem of this kind that shows nothing of the outside."""
    with pytest.raises(ProblemError) as caught:
        operation(*args, **more)
    assert caught.value.problem.kind == kind
    assert OUTSIDE not in repr(caught.value.problem)
    return caught.value


class WorkspaceConformance:
    """The whole suite."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder with two files, odd things, and secrets beside it."""
        folder = tmp_path / "ws"
        (folder / "d/e").mkdir(parents=True)
        (folder / "a.txt").write_bytes(b"one\ntwo\nthree\n")
        (folder / "d/f").write_bytes(b"inside")
        (tmp_path / "ws_secret").mkdir()
        for secret in ("ws_secret/a", "secret.txt"):
            (tmp_path / secret).write_text(OUTSIDE)
        return folder

    @pytest.fixture
    def ws(self, folder: Path, make_workspace: MakeWorkspace) -> Any:
        workspace = make_workspace(folder)
        yield workspace
        workspace.close()

    @pytest.fixture
    def odd(self, folder: Path) -> None:
        for link, target in (("link", "../secret.txt"), ("way", "../ws_secret"), ("inner", "a.txt")):
            (folder / link).symlink_to(target)
        os.mkfifo(folder / "fifo1")

    # --- paths -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("path", BAD_PATHS, ids=lambda p: ascii(p[:20]))
    def test_every_operation_refuses_what_is_no_path_inside(self, ws: Workspace, odd: None, folder: Path, path: str) -> None:
        before, began, kind = self.tree(folder.parent), CLOCK.monotonic(), BAD_PATHS[path]
        for operation in (ws.read_lines, ws.exists, ws.checksum):
            refused(kind, operation, path)
        refused(kind, ws.write_atomic, path, b"x", replace=True)
        if path:
            refused(kind, ws.grep, "x", path)
        assert CLOCK.monotonic() - began < 1
        assert self.tree(folder.parent) == before

    def test_a_link_in_the_parents_of_a_new_file_is_no_way_out(self, ws: Workspace, odd: None, folder: Path) -> None:
        for path in ("way/new.txt", "way/deep/new.txt"):
            refused("permission_denied", ws.write_atomic, path, b"x")
        assert [p.name for p in (folder.parent / "ws_secret").iterdir()] == ["a"]

    def test_what_is_not_there_is_not_found(self, ws: Workspace) -> None:
        for operation in (ws.read_lines, ws.checksum):
            refused("not_found", operation, "none")
            refused("not_found", operation, "no/ne")
            refused("type_mismatch", operation, "d")
        assert ws.exists("none") is None
        assert ws.exists("a.txt/x") is None
        refused("not_found", ws.grep, "x", "none")

    # --- the six operations ------------------------------------------------------------------------------------------

    def test_read_lines_counts_from_one_and_tells_the_end(self, ws: Workspace) -> None:
        whole = ws.read_lines("a.txt")
        assert (whole.lines, whole.total_lines, whole.eof, whole.next_start) == (("one", "two", "three"), 3, True, None)
        assert whole.sha256 == sha(b"one\ntwo\nthree\n")
        part = ws.read_lines("a.txt", 2, 1)
        assert (part.start, part.lines, part.total_lines, part.eof, part.next_start) == (2, ("two",), 3, False, 3)
        assert ws.read_lines("a.txt", 3, 5).eof
        beyond = ws.read_lines("a.txt", 9)
        assert (beyond.lines, beyond.eof) == ((), True)
        for start, count in ((0, 1), (1, 0), (-1, 1), (1, 10**9)):
            refused("validation", ws.read_lines, "a.txt", start, count)

    def test_a_write_lands_whole_and_its_receipt_says_what(self, ws: Workspace, folder: Path) -> None:
        receipt = ws.write_atomic("new/deep/file.txt", "\u4e2d\n".encode())
        assert (receipt.path, receipt.sha256, receipt.bytes, receipt.created) == ("new/deep/file.txt", sha("\u4e2d\n".encode()), 4, True)
        assert (folder / "new/deep/file.txt").read_text() == "\u4e2d\n"
        again = ws.write_atomic("new/deep/file.txt", b"", expected_sha256=receipt.sha256)
        assert (again.bytes, again.created) == (0, False)

    def test_nothing_is_replaced_without_a_word(self, ws: Workspace, folder: Path) -> None:
        refused("conflict", ws.write_atomic, "a.txt", b"x")
        refused("conflict", ws.write_atomic, "a.txt", b"x", if_absent=True)
        refused("conflict", ws.write_atomic, "a.txt", b"x", expected_sha256=sha(b"other"))
        refused("conflict", ws.write_atomic, "none", b"x", expected_sha256=sha(b"other"))
        refused("validation", ws.write_atomic, "a.txt", b"x", if_absent=True, expected_sha256=sha(b"one"))
        refused("type_mismatch", ws.write_atomic, "d", b"x", replace=True)
        assert (folder / "a.txt").read_bytes() == b"one\ntwo\nthree\n"
        assert ws.write_atomic("a.txt", b"x", replace=True).created is False

    def test_grep_finds_lines_in_the_order_of_files(self, ws: Workspace, folder: Path) -> None:
        (folder / "b.bin").write_bytes(b"two\x00")
        (folder / "d/z").write_bytes(b"twofold\n\xff two\n")
        hits = ws.grep("two|in.*e$")
        assert [(h.path, h.line, h.text) for h in hits.hits] == [
            ("a.txt", 2, "two"), ("d/f", 1, "inside"), ("d/z", 1, "twofold"), ("d/z", 2, "\ufffd two"),
        ]  # fmt: skip
        assert (hits.complete, hits.truncated, hits.files, hits.binary_files) == (True, False, 3, 1)
        assert [h.path for h in ws.grep("two", "d").hits] == ["d/z", "d/z"]
        assert [h.path for h in ws.grep("two", "a.txt").hits] == ["a.txt"]
        few = ws.grep("two", limit=1)
        assert ([h.path for h in few.hits], few.complete, few.truncated, few.stop_reason) == (["a.txt"], False, True, "limit")
        exact = ws.grep("^one$", limit=1)
        assert (exact.complete, exact.truncated) == (True, False)

    def test_grep_is_linear_and_says_what_it_cannot_do(self, ws: Workspace, folder: Path) -> None:
        (folder / "evil").write_bytes(b"a" * 200_000 + b"b")
        began = CLOCK.monotonic()
        assert ws.grep("(a+)+$|(a|aa)*c").hits == ()
        assert CLOCK.monotonic() - began < 2
        for pattern in ("(", "(?=a)", r"(a)\1", "", "\ud800", "((((a{100}){100}){100}))"):
            refused("validation", ws.grep, pattern)

    def test_list_shows_every_file_in_a_stable_order(self, ws: Workspace, odd: None, folder: Path) -> None:
        (folder / ".polyloop-tmp-1-1").write_bytes(b"half a file")
        (folder / "B").touch()
        page = ws.list()
        assert [(f.path, f.bytes) for f in page.files] == [("B", 0), ("a.txt", 14), ("d/f", 6)]
        assert (page.count, page.covered, page.complete, page.has_more, page.continuation, page.others) == (3, 3, True, False, None, 4)
        assert [f.path for f in ws.list("*.txt").files] == ["a.txt"]
        assert [f.path for f in ws.list("d/**").files] == ["d/f"]
        assert ws.list("nothing").files == ()

    def test_pages_cover_the_list_once_and_only_the_last_is_complete(self, ws: Workspace, folder: Path) -> None:
        names = [f"many/{n:04}" for n in range(1203)]
        (folder / "many").mkdir()
        for name in names:
            (folder / name).touch()
        seen: list[str] = []
        page = ws.list("many/*")
        while page.has_more:
            assert not page.complete
            seen += [f.path for f in page.files]
            page = ws.list("many/*", page.continuation)
        assert page.complete
        assert [*seen, *(f.path for f in page.files)] == names

    def test_a_continuation_serves_only_its_own_unchanged_list(self, ws: Workspace, folder: Path) -> None:
        for n in range(600):
            (folder / f"{n:03}").touch()
        more = ws.list().continuation
        assert more is not None
        assert ws.list("", more).complete
        for glob, token, reason in (("*", more, "query_changed"), ("", more[:-4] + "AAAA", "foreign_cursor"), ("", "x", "foreign_cursor")):
            assert refused("pagination", ws.list, glob, token).problem.details["reason"] == reason
        ws.write_atomic("another", b"")
        assert refused("pagination", ws.list, "", more).problem.details == {"reason": "list_changed", "complete": False}

    def test_exists_and_checksum(self, ws: Workspace) -> None:
        found = ws.exists("a.txt")
        assert found is not None
        assert (found.kind, found.bytes) == ("file", 14)
        assert (ws.exists("d/e") or found).kind == "folder"
        assert ws.checksum("d/f") == (sha(b"inside"), 6)

    # --- holding -----------------------------------------------------------------------------------------------------

    def test_only_one_run_holds_a_workspace(self, ws: Workspace, folder: Path, make_workspace: MakeWorkspace) -> None:
        ws.hold()
        other = make_workspace(folder)
        for operation in (other.hold, other.list):
            refused("owned_elsewhere", operation)
        ws.close()
        other.hold()
        refused("owned_elsewhere", ws.hold)
        other.close()

    def test_a_missing_folder_is_made_and_nothing_before_it_is_used(self, folder: Path, make_workspace: MakeWorkspace) -> None:
        new = make_workspace(folder.parent / "x/y")
        assert not (folder.parent / "x").exists()
        assert new.list().complete
        new.close()
        assert (folder.parent / "x/y").is_dir()

    def test_a_keyed_write_can_be_settled(self, ws: Workspace, folder: Path, make_workspace: MakeWorkspace) -> None:
        assert ws.settle("k1") == NotStarted()
        receipt = ws.write_atomic("out", b"x", key="k1")
        assert ws.settle("k1") == receipt
        assert ws.write_atomic("out", b"x", key="k1") == receipt, "the same write again is answered, not done"
        refused("validation", ws.write_atomic, "out", b"y", key="k1")
        refused("conflict", ws.write_atomic, "a.txt", b"y", key="k2")
        assert ws.settle("k2") == NotStarted()
        ws.close()
        later = make_workspace(folder)
        assert later.settle("k1") == receipt
        later.close()

    def test_a_fenced_attempt_lands_no_more_but_the_next_one_may(self, ws: Workspace, folder: Path) -> None:
        assert ws.settle("k", 1, fence=True) == NotStarted()
        refused("conflict", ws.write_atomic, "out", b"x", key="k", attempt=1)
        assert not (folder / "out").exists()
        assert ws.write_atomic("out", b"x", key="k", attempt=2).created

    @staticmethod
    def tree(folder: Path) -> dict[str, str]:
        """What there is, beside what the workspace keeps for itself."""
        paths = [p for p in folder.rglob("*") if ".polyloop-workspace" not in p.parts]
        return {str(p): p.read_text() if p.is_file() and not p.is_symlink() else "" for p in paths}
