"""The brake: no room of rooms.txt has more lines than its budget, and the page shows the rooms."""

from __future__ import annotations

import re

import pytest
import repo_sources as sources
from repo_sources import ROOMS, Room

PAGE = sources.ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- The rooms of tests/repo/rooms.txt -->\n", "<!-- The end of the rooms -->\n"


def test_no_room_is_above_its_budget(request: pytest.FixtureRequest) -> None:
    lines = sources.lines_of_rooms()
    if request.config.getoption("--update-golden"):
        _lower_budgets(lines)
    table = "\n".join(
        f"{lines[room]:7,} of {room.most_lines:7,} {'!' if lines[room] > room.most_lines else ' '} "
        f"{' '.join(room.names)}"
        for room in ROOMS
    )
    print(table)
    core = sum(room.most_lines for room in ROOMS if not room.is_extra)
    assert core <= sources.MOST_CORE_LINES, "the budgets of the core's rooms are more than its own"
    assert all(lines[room] <= room.most_lines for room in ROOMS), table


def test_the_page_shows_the_rooms(request: pytest.FixtureRequest) -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    plan = _plan(sources.read_rooms()[1])
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + begin + plan + END + rest.partition(END)[2])
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == plan, (
        "pytest tests/repo/test_rooms.py --update-golden"
    )


def _plan(rooms: list[Room]) -> str:
    """A table of all rooms, part by part from the top floor down."""
    rows = ["| room | most lines | what it is for | imported by |", "| --- | ---: | --- | --- |"]
    for part in sources.PARTS:
        inside = [room for room in rooms if _part(room) == part]
        total = sum(room.most_lines for room in inside)
        rows.append(f"| **{part}** | **{total:,}** | | |")
        for room in inside:
            name = ", ".join(f"`{name}`" for name in room.names)
            purpose = room.purpose + " (Beside the core.)" * room.is_extra
            rows.append(f"| {name} | {room.most_lines:,} | {purpose} | {_importers(room)} |")
    return "\n".join(rows) + "\n"


def _importers(room: Room) -> str:
    """The rooms of the core below the face that may import one, a part as a whole if all may."""
    names: list[str] = []
    for part in sources.PARTS[1:]:
        others = [r for r in ROOMS if _part(r) == part and r is not room and not r.is_extra]
        may = [r.names[0] for r in others if r.may_import(room)]
        names += [f"{part}.*"] if len(may) == len(others) > 0 else may
    return ", ".join(names)


def _part(room: Room) -> str:
    return room.names[0].split(".")[0]


def _lower_budgets(lines: dict[Room, int]) -> None:
    text = sources.ROOMS_FILE.read_text()
    for room in ROOMS:
        row = re.escape(" ".join(room.names)) + r" \| "
        most = min(lines[room], room.most_lines)
        text = re.sub(rf"^({row})\d+", rf"\g<1>{most}", text, flags=re.M)
    sources.ROOMS_FILE.write_text(text)
