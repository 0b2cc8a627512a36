"""Which paths a glob names: `*`, `?`, `[...]` inside a name, `**` for any number of folders. Linear in both."""

from __future__ import annotations

from fnmatch import fnmatchcase


def matches(glob: str, path: str) -> bool:
    """A glob without a slash names files at any depth; with one, paths from the top. "" and "**" name everything."""
    if "/" not in glob:
        return glob in ("", "**") or fnmatchcase(path.rpartition("/")[2], glob)
    return _matches(glob.strip("/").split("/"), path.split("/"))


def _matches(glob: list[str], path: list[str]) -> bool:
    """`reach[i]` = the first i parts of the glob can stand for the parts of the path seen so far."""
    reach = [True] + [False] * len(glob)
    for i, part in enumerate(glob):
        reach[i + 1] = reach[i] and part == "**"
    for name in path:
        after = [False] * (len(glob) + 1)
        for i, part in enumerate(glob):
            if part == "**":
                after[i + 1] = reach[i + 1] or after[i]
            else:
                after[i + 1] = reach[i] and fnmatchcase(name, part)
        reach = after
    return reach[-1]
