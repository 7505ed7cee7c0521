"""Tables and verdicts of the workbench as text and HTML. What comes from traces is escaped in both."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_CELL = 76  # characters of a cell at most,
_CELL_OF_MANY = 40  # and in a table of many columns
_MANY = 8
_NUMBERS = ("int64", "double")


def visible(text: str) -> str:
    """The text with control characters, and marks that turn text around, written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def escape(text: str) -> str:
    """The text for HTML, between tags or in quotes."""
    text = visible(text)
    for char, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(char, name)
    return text


def _cell(value: object, most: int = _CELL) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, bytes):
        return f"x'{value[: most // 2].hex()}'" + ("..." if len(value) > most // 2 else "")
    text = visible(str(value)[: most + 1])
    return text if len(text) <= most else text[: most - 3] + "..."


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _line_width() -> int:
    import os

    try:
        return max(80, os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 120


def _rest(count: int, of: str) -> str:
    return f"... {count:,} more {of}{'' if count == 1 else 's'}"


# ---- tables ----


def text_table(names: Sequence[str], kinds: Sequence[str], rows: Sequence[tuple[Any, ...]], count: int) -> str:
    """The rows under the names of their columns, as many columns as a line holds, and what was left out."""
    most = _CELL if len(names) <= _MANY else _CELL_OF_MANY
    columns = [[_cell(name), *(_cell(row[i], most) for row in rows)] for i, name in enumerate(names)]
    shown: list[list[str]] = []
    room = _line_width()
    for i, cells in enumerate(columns):
        width = max(map(_width, cells))
        room -= width + 2 * (i > 0)
        if room < 0 and shown:
            break
        shown.append([_pad(cell, width, kinds[i] in _NUMBERS) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*shown)]
    if count > len(rows):
        lines.append(_rest(count - len(rows), "row"))
    if len(shown) < len(columns):
        left = ", ".join(cells[0] for cells in columns[len(shown) :])
        lines.append(f"{_rest(len(columns) - len(shown), 'column')}: {left}")
    if not rows:
        lines.append("(no rows)")
    return "\n".join(lines)


def html_table(names: Sequence[str], kinds: Sequence[str], rows: Sequence[tuple[Any, ...]], count: int) -> str:
    """The same as a table for notebooks."""
    right = [' style="text-align:right"' if kind in _NUMBERS else ' style="text-align:left"' for kind in kinds]
    head = "".join(f"<th{align}>{escape(name)}</th>" for name, align in zip(names, right))
    body = "".join(
        "<tr>" + "".join(f"<td{align}>{escape(_cell(x))}</td>" for x, align in zip(row, right)) + "</tr>"
        for row in rows
    )
    rest = f"<p>{_rest(count - len(rows), 'row')}</p>" if count > len(rows) else "" if rows else "<p>(no rows)</p>"
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}</div>"


# ---- the verdict ----

_VERDICTS = {
    "highly_input_bound": ("Highly input-bound", "#b3261e"),
    "moderately_input_bound": ("Moderately input-bound", "#8a5a00"),
    "not_input_bound": ("Not input-bound", "#1e6b34"),
}
_PARTS = {
    "input_wait": ("input wait", "#d1495b"),
    "host_to_device": ("host to device", "#edae49"),
    "compute": ("device compute", "#2e7d5b"),
    "collectives": ("collectives", "#30638e"),
    "device_to_device": ("device to device", "#5b9bd5"),
    "device_to_host": ("device to host", "#8e6bbf"),
    "kernel_launch": ("kernel launch", "#a0785a"),
    "host_compute": ("host compute", "#00798c"),
    "other": ("other, idle", "#9e9e9e"),
}


def _duration(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def _bar(breakdown: dict[str, Any], steps: int) -> str:
    parts = [(*_PARTS.get(key, (key, "#9e9e9e")), part) for key, part in breakdown.items() if part["percent"] >= 0.05]
    if not parts:
        return ""
    cells = "".join(
        f'<div style="width:{part["percent"]:.2f}%;background:{color}" '
        f'title="{escape(label)}: {part["percent"]:.1f} %"></div>'
        for label, color, part in parts
    )
    legend = "".join(
        f'<span style="display:inline-block;margin:0 1.2em 0.2em 0;white-space:nowrap">'
        f'<span style="display:inline-block;width:0.8em;height:0.8em;border-radius:2px;background:{color}"></span> '
        f"{escape(label)} {part['percent']:.1f} % ({_duration(part['ns'] / max(steps, 1))} a step)</span>"
        for label, color, part in parts
    )
    return (
        '<div style="display:flex;height:1.4em;border-radius:4px;overflow:hidden;margin:0.4em 0">'
        f"{cells}</div><div>{legend}</div>"
    )


def _list(title: str, items: Iterable[str]) -> str:
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"{_heading(title)}<ul style='margin:0.2em 0;padding-left:1.4em'>{lines}</ul>" if lines else ""


def _heading(title: str) -> str:
    return f'<div style="font-weight:600;margin-top:0.8em">{escape(title)}</div>'


def _rows(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    align = ["left"] + ["right"] * (len(head) - 1)
    style = [f'style="text-align:{a};padding:0.1em 1.2em 0.1em 0"' for a in align]
    body = "".join("<tr>" + "".join(f"<td {a}>{escape(x)}</td>" for x, a in zip(row, style)) + "</tr>" for row in rows)
    if not body:
        return ""
    names = "".join(f"<th {a}>{escape(x)}</th>" for x, a in zip(head, style))
    return (
        f'{_heading(title)}<table style="margin:0.2em 0"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    )


_STAGES = {
    "tf_data": "Stages of tf.data, by the time that callers were blocked in them",
    "ops": "Ops of the pipeline, by the workers' time",
    "worker_processes": "What the worker processes do",
    "inside_wait": "What runs inside the wait",
}


def _stage(stage: dict[str, Any] | None) -> str:
    if not stage:
        return ""
    rows = [
        (row["name"], f"{100 * row['share']:.1f} %", _duration(row["self_ns"]), f"{row['calls']:,}")
        for row in stage["all"][:6]
    ]
    return _rows(_STAGES.get(stage["kind"], "Stages"), ("stage", "share", "time", "calls"), rows)


def _gaps(gaps: Sequence[dict[str, Any]]) -> str:
    rows = []
    for gap in gaps:
        what = gap["meanwhile"] or gap["main"] or ""
        step = "between steps" if gap["step"] is None else f"step {gap['step']}"
        rows.append((_cell(what), _duration(gap["dur"]), step, f"{100 * gap['wait_share']:.0f} %"))
    of = gaps[0]["of"] if gaps else ""
    title = "the device computes nothing" if of == "device" else "the main thread does not work"
    return _rows(f"Longest gaps: {title}", ("meanwhile", "length", "where", "waiting for data"), rows)


def _what_ifs(what_ifs: Sequence[dict[str, Any]]) -> str:
    rows = [(x["what"], f"{x['step_percent']:+.1f} %", f"{x['input_percent']:.1f} %") for x in what_ifs]
    notes: dict[str, list[str]] = {}
    for x in what_ifs:
        notes.setdefault(x["assumption"], []).append(x["what"])
    lines = "".join(f"<li>{escape(', '.join(what))}: assuming that {escape(why)}</li>" for why, what in notes.items())
    table = _rows("What if", ("what", "step", "input"), rows)
    return table and f'{table}<ul style="margin:0.2em 0;padding-left:1.4em;opacity:0.75">{lines}</ul>'


def html_diagnosis(headline: str, json: dict[str, Any]) -> str:
    """A fragment without scripts: the verdict, how the step's time splits, findings, advice."""
    name, color = _VERDICTS.get(json["verdict"], ("Unknown", "#5f6368"))
    style = f"background:{color};color:#fff;border-radius:4px;padding:0.15em 0.6em;font-weight:600"
    badge = f'<span style="{style}">{name}</span>'
    detail = headline.partition(": ")[2] or headline
    parts = [
        f'<div style="margin-bottom:0.4em">{badge} <span>{escape(detail)}</span></div>',
        _bar(json["breakdown"], json["steps"]),
        _list("Evidence", json["evidence"]),
        _stage(json["stage"]),
        _gaps(json["gaps"]),
        _list("What to do", json["what_to_do"]),
        _what_ifs(json["what_if"]),
    ]
    return f'<div style="max-width:60em;line-height:1.45">{"".join(parts)}</div>'
