"""Space-time diagrams: time runs down, each replica has a lane, messages are arrows between them.

In plain text, and as SVG made by hand: no library, no script, no font but the reader's own.  The
same recording always gives the same bytes.
"""

from __future__ import annotations

from html import escape
from itertools import count

from crdt.testing.recording import Arrow, Band, Mark, Recording, Step, Way

_LEAST = 16
"""Characters from lane to lane in text, at least."""
_MARGIN = 6
_CHAR = 7.3
"""Width of a character in pixels, about, in the SVG's 12 px fixed-width font."""
_FONT = 'font-family="monospace" font-size="12"'
_ROW = 44
_TOP = 34


def text_diagram(recording: Recording) -> str:
    """The run as plain text (box-drawing characters, one lane a column)."""
    labels = [step.drawn.text for step in recording.steps if isinstance(step.drawn, Mark)]
    apart = max([_LEAST, *(len(label) + 4 for label in labels)])
    lanes = [_MARGIN + number * apart for number in range(len(recording.names))]
    width = lanes[-1] + apart
    head = [" "] * width
    for at, name in zip(lanes, recording.names, strict=True):
        head[at] = name
    rows = ["".join(head).rstrip()]
    for number, step in enumerate(recording.steps):
        if number:
            rows.append(_empty(width, lanes))
            rows.append(_text_row(number, step, width, lanes))
    rows.append(_empty(width, lanes))
    if recording.broke:
        rows.append(f"{'':{_MARGIN}}stopped: {recording.broke}")
    return "\n".join(rows)


def _blank(width: int, lanes: list[int]) -> list[str]:
    row = [" "] * width
    for at in lanes:
        row[at] = "│"
    return row


def _empty(width: int, lanes: list[int]) -> str:
    return "".join(_blank(width, lanes)).rstrip()


def _text_row(number: int, step: Step, width: int, lanes: list[int]) -> str:
    row = _blank(width, lanes)
    drawn = step.drawn
    if isinstance(drawn, Band):
        row[lanes[0] : width] = f"═══ {drawn.text} ".ljust(width - lanes[0], "═")
    elif isinstance(drawn, Mark):
        _put(row, lanes[drawn.lane], f"● {drawn.text}")
    else:
        _text_arrow(row, drawn, lanes)
    row[: _MARGIN - 2] = f"{number:>{_MARGIN - 2}}"
    return "".join(row).rstrip()


def _put(row: list[str], at: int, text: str) -> None:
    row[at : at + len(text)] = text


def _text_arrow(row: list[str], arrow: Arrow, lanes: list[int]) -> None:
    """An arrow: whole, its first half (leaving), its second half (arriving), or broken off."""
    start, end = lanes[arrow.source], lanes[arrow.target]
    right = start < end
    near = abs(lanes[1] - lanes[0]) // 2
    if arrow.way is Way.AT_ONCE:
        first, last = start, end
    elif arrow.way is Way.TAKEN:
        first, last = (end - near if right else end + near), end
    else:
        first, last = start, (start + near if right else start - near)
    step = 1 if right else -1
    for at in range(first + step, last, step):
        row[at] = "┼" if at in lanes else "─"
    tip = {Way.SENT: "┄", Way.LOST: "✗"}.get(arrow.way, "▶" if right else "◀")
    row[last - step if arrow.way in {Way.AT_ONCE, Way.TAKEN} else last] = tip
    if arrow.way is not Way.TAKEN:
        row[start] = "├" if right else "┤"
    if arrow.message:
        label = f" m{arrow.message} "
        low, high = sorted((first, last))
        _put(row, low + (min(high - low, near * 2) - len(label)) // 2 + 1, label)


def svg_diagram(recording: Recording, title: str = "") -> str:
    """The run as one SVG document, every replica's new view in grey below what led to it."""
    marks = [step.drawn.text for step in recording.steps if isinstance(step.drawn, Mark)]
    texts = [*marks, *(view for step in recording.steps for view in step.views)]
    apart = int(max([_LEAST, *(len(text) + 4 for text in texts)]) * _CHAR)
    lanes = [50 + number * apart for number in range(len(recording.names))]
    width, height = lanes[-1] + apart, _TOP + _ROW * len(recording.steps) + 20
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f"<title>{escape(title or 'space-time diagram')}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for at, name in zip(lanes, recording.names, strict=True):
        body.append(f'<line x1="{at}" y1="{_TOP}" x2="{at}" y2="{height - 10}" stroke="#999"/>')
        body.append(_svg_text(at - 4, _TOP - 12, name, weight="bold"))
    sent: dict[int, int] = {}
    for number, step in zip(count(), recording.steps):
        body += _svg_step(number, step, lanes, sent)
        former = recording.steps[number - 1].views if number else ()
        body += _svg_views(number, step.views, former, lanes)
    body.append("</svg>")
    return "\n".join(body) + "\n"


def _height(number: int) -> int:
    return _TOP + _ROW * number + 16


def _svg_text(x: int, y: int, text: str, *, fill: str = "black", weight: str = "normal") -> str:
    style = f'fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _svg_views(
    number: int, views: tuple[str, ...], former: tuple[str, ...], lanes: list[int]
) -> list[str]:
    y = _height(number) + 18
    changed = [at for at, view in enumerate(views) if not former or former[at] != view]
    return [_svg_text(lanes[at] + 8, y, views[at], fill="#777") for at in changed]


def _svg_step(number: int, step: Step, lanes: list[int], sent: dict[int, int]) -> list[str]:
    """What a step adds; ``sent`` remembers at which height a message left."""
    drawn, y = step.drawn, _height(number)
    if isinstance(drawn, Mark):
        x = lanes[drawn.lane]
        return [f'<circle cx="{x}" cy="{y}" r="4"/>', _svg_text(x + 8, y + 4, drawn.text)]
    if isinstance(drawn, Band):
        line = f'<line x1="30" y1="{y}" x2="{lanes[-1] + 20}" y2="{y}" stroke="#ccc"/>'
        return [line, _svg_text(lanes[0] + 8, y - 4, drawn.text, fill="#555")]
    return _svg_arrow(drawn, y, lanes, sent)


def _svg_arrow(arrow: Arrow, y: int, lanes: list[int], sent: dict[int, int]) -> list[str]:
    start, end = lanes[arrow.source], lanes[arrow.target]
    if arrow.way is Way.LOST:
        half = (start + end) // 2
        return [_svg_line(start, y, half, y + 10, dash="4"), _svg_text(half - 4, y + 14, "✗")]
    name = f"m{arrow.message}"
    if arrow.way is Way.SENT:
        sent[arrow.message] = y
        return [f'<circle cx="{start}" cy="{y}" r="3"/>', _svg_text(start + 8, y + 4, name)]
    top = y if arrow.way is Way.AT_ONCE else sent.get(arrow.message, y)
    low = y + 14 if arrow.way is Way.AT_ONCE else y
    back = -9 if end > start else 9
    points = f"{end},{low} {end + back},{low - 5} {end + back},{low + 3}"
    label = _svg_text((start + end) // 2, (top + low) // 2 - 4, name)
    return [_svg_line(start, top, end, low), f'<polygon points="{points}"/>', label]


def _svg_line(x1: int, y1: int, x2: int, y2: int, *, dash: str = "none") -> str:
    place = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {place} stroke="black" stroke-dasharray="{dash}"/>'
