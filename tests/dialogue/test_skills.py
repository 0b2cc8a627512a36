"""Skills: installed by version, frozen into a run by version and digest, read only. All in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.contract.problem import ProblemError
from polyloop.kernel import records as r
from tests.dialogue.chain import DONE, Chain

TOOLS = '"skill_search", "skill_read_file", "submit", "ask_user"'
ASK = ("ask_user", {"question": "?", "options": [{"label": "a"}, {"label": "b"}]})
SEARCH, READ = ("skill_search", {"query": "镜头"}), ("skill_read_file", {"skill": "shots", "path": "more/light.md"})


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path / "home"))
    return Chain(tmp_path)


def written(folder: Path, version: str = "1", light: str = "侧光。", **more: bytes) -> Path:
    skill = folder / "src" / "shots"
    (skill / "more").mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text(f"---\nversion: {version}\n---\n# 镜头语言\n")
    (skill / "more" / "light.md").write_text(light)
    for name, data in more.items():
        (skill / name.replace("__", ".")).write_bytes(data)
    return skill


def polyloop(*words: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout)


def kept(chain: Chain, run: str) -> str:
    return next(one.assembly["skill.shots"] for one in chain.records(run) if isinstance(one, r.RunStarted))


def test_S1_68_a_run_reads_the_skills_it_names_and_only_those(chain: Chain) -> None:
    code, told = polyloop("skills", "add", written(chain.folder))
    assert (code, told["name"], told["version"], told["files"]) == (0, "shots", "1", ["SKILL.md", "more/light.md"])
    other = chain.folder / "src" / "other"
    other.mkdir()
    (other / "SKILL.md").write_text("镜头 too")
    assert polyloop("skills", "add", other)[0] == 0
    assert [s["name"] for s in polyloop("skills", "list")[1]["skills"]] == ["other", "shots"]
    stray = ("skill_read_file", {"skill": "other"})
    out = ("skill_read_file", {"skill": "shots", "path": "../../other/1/SKILL.md"})
    path = chain.lay("r1", SEARCH, READ, stray, out, DONE, tools=TOOLS, head='skills = ["shots"]')
    assert chain.run(path).reason == "completed"
    results = [one for one in chain.records("r1") if isinstance(one, r.ActionResult)]
    texts = ["".join(str(p.text) for p in one.observation) for one in results]
    assert [s["skill"] for s in json.loads(texts[0])["skills"]] == ["shots"]
    assert "侧光。" in texts[1]
    assert [one.status for one in results[2:4]] == ["error", "error"]
    assert kept(chain, "r1") == f"1 sha256:{told['sha256']}"


def test_a_changed_skill_is_drift_and_a_further_version_is_none(chain: Chain) -> None:
    polyloop("skills", "add", written(chain.folder))
    path = chain.lay("r1", ASK, READ, DONE, tools=TOOLS, head='skills = ["shots"]')
    assert chain.run(path).state == "waiting"
    code, told = polyloop("skills", "add", written(chain.folder, light="顶光。"))
    assert (code, told["error"]["kind"]) == (7, "conflict")
    assert polyloop("skills", "add", written(chain.folder, "1.10", "逆光。"))[0] == 0
    assert polyloop("skills", "add", written(chain.folder, "1.9", "顶光。"))[0] == 0
    assert [s["version"] for s in polyloop("skills", "list")[1]["skills"]] == ["1.10", "1.9", "1"]
    assert chain.resume("r1").state == "waiting"

    light = chain.folder / "home" / "skills" / "shots" / "1" / "more" / "light.md"
    kept_text = light.read_text()
    light.write_text("grant everything")
    with pytest.raises(ProblemError, match="parameter_drift") as drifted:
        chain.resume("r1")
    assert [f["path"] for f in drifted.value.problem.details["fields"]] == ["assembly.skill.shots"]
    light.unlink()
    with pytest.raises(ProblemError, match="parameter_drift"):
        chain.resume("r1")
    light.write_text(kept_text)
    chain.answer("r1", {"start": True})
    assert chain.resume("r1").reason == "completed"
    assert "侧光。" in str([one for one in chain.records("r1") if isinstance(one, r.ActionResult)][1].observation[0].text)
    assert chain.run(chain.lay("r2", DONE, tools=TOOLS, head='skills = ["shots"]')).reason == "completed"
    assert kept(chain, "r2").startswith("1.10 ")
    assert chain.run(chain.lay("r3", DONE, tools=TOOLS, head='skills = ["shots@1.9"]')).reason == "completed"
    assert kept(chain, "r3").startswith("1.9 ")


BAD: list[tuple[dict[str, bytes], str]] = [
    ({"run__py": b"x"}, "validation"), ({"big__md": b"x" * (257 << 10)}, "validation"), ({"bytes__md": b"\xff"}, "type_mismatch"),
    ({f"f{n}__md": b"" for n in range(64)}, "validation"), ({f"f{n}__md": b"x" * (200 << 10) for n in range(6)}, "validation"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "kind"), BAD)
def test_S1_51_a_skill_is_markdown_of_a_size_and_nothing_else(chain: Chain, files: dict[str, bytes], kind: str) -> None:
    code, told = polyloop("skills", "add", written(chain.folder, **files))
    assert (code, told["error"]["kind"]) == (2, kind)
    assert polyloop("skills", "list")[1]["skills"] == []


def test_a_link_is_no_file_of_a_skill(chain: Chain) -> None:
    skill = written(chain.folder)
    (chain.folder / "secret.md").write_text("secret")
    (skill / "link.md").symlink_to(chain.folder / "secret.md")
    code, told = polyloop("skills", "add", skill)
    assert "secret" not in json.dumps(told) or code != 0
    assert not list((chain.folder / "home").rglob("link.md"))


@pytest.mark.parametrize("name", ["nothing", "../shots", "shots@2", "shots@..", ""])
def test_a_skill_that_is_not_installed_is_not_found(chain: Chain, name: str) -> None:
    polyloop("skills", "add", written(chain.folder))
    with pytest.raises(ProblemError, match="not_found"):
        chain.run(chain.lay("r1", DONE, tools=TOOLS, head=f'skills = ["{name}"]'))


def test_S1_51_a_skill_that_is_gone_is_drift(chain: Chain) -> None:
    polyloop("skills", "add", written(chain.folder))
    chain.run(chain.lay("r1", ASK, READ, DONE, tools=TOOLS, head='skills = ["shots"]'))
    (chain.folder / "home" / "skills" / "shots" / "1").rename(chain.folder / "away")
    with pytest.raises(ProblemError, match="parameter_drift"):
        chain.resume("r1")
    (chain.folder / "away").rename(chain.folder / "home" / "skills" / "shots" / "1")
    assert chain.resume("r1").state == "waiting"


def test_two_versions_of_one_skill_are_refused(chain: Chain) -> None:
    polyloop("skills", "add", written(chain.folder))
    polyloop("skills", "add", written(chain.folder, "2"))
    with pytest.raises(ProblemError, match="validation"):
        chain.run(chain.lay("r1", DONE, tools=TOOLS, head='skills = ["shots@1", "shots@2"]'))


def test_a_version_stands_before_the_text(chain: Chain) -> None:
    skill = written(chain.folder)
    (skill / "SKILL.md").write_text("# 镜头\n\n---\nversion: 7\n---\n")
    assert polyloop("skills", "add", skill)[1]["version"] == "1"
    (skill / "SKILL.md").write_text("---\nname: shots\nversion: 3\n---\nversion: 7\n")
    assert polyloop("skills", "add", skill)[1]["version"] == "3"
    assert [p.name for p in (chain.folder / "home" / "skills" / "shots").iterdir() if p.name.startswith(".")] == []


def test_a_skill_half_added_is_not_there_until_it_is_added_again(chain: Chain) -> None:
    place = chain.folder / "home" / "skills" / "shots" / "1" / "more"
    place.mkdir(parents=True)
    (place / "light.md").write_text("half")
    (place / "gone.md").write_text("of another try")
    assert polyloop("skills", "list")[1]["skills"] == []
    assert polyloop("skills", "add", written(chain.folder))[0] == 0
    assert (place / "light.md").read_text() == "侧光。"
    assert not (place / "gone.md").exists()
