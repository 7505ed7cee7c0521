"""A look at the first samples of a pipeline: a sheet of pictures, or a table."""

from __future__ import annotations

import os

from ._samples import ALL_RANKS, before_batching, classes_of, only_row
from ._show import html_table, text_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._pipeline import Pipeline

_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM")  # how files of pictures begin
_CHANNELS = (1, 3)
_MOST = 65536
_CAPTION = "stoker_caption"
_VALUES = 6  # of an array in a cell


class Sheet:
    """Pictures side by side, each with its label: shown by notebooks, `save` writes the PNG file."""

    __slots__ = ("png", "field", "count")

    def __init__(self, png: bytes, field: str, count: int) -> None:
        self.png = png
        self.field = field  # what the pictures are of
        self.count = count

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "wb") as file:
            file.write(self.png)

    def __repr__(self) -> str:
        return f"<stoker sheet: {self.count} pictures of field {self.field!r}, {len(self.png):,} bytes of PNG>"


class Rows:
    """Samples as a table: text when printed, HTML in notebooks; `save` writes the HTML file."""

    __slots__ = ("names", "rows")

    def __init__(self, names: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.names = names
        self.rows = rows

    def _kinds(self) -> list[str]:
        first: tuple[Any, ...] = self.rows[0] if self.rows else ()
        return ["text" if isinstance(value, str) else "double" for value in first] or ["text"] * len(self.names)

    def _repr_html_(self) -> str:
        return html_table(self.names, self._kinds(), self.rows, len(self.rows))

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._repr_html_())

    def __str__(self) -> str:
        return text_table(self.names, self._kinds(), self.rows, len(self.rows))

    __repr__ = __str__


def show(pipeline: Pipeline, n: int, columns: int, zoom: int, options: Mapping[str, Any]) -> Sheet | Rows:
    from ._loader import number_of

    n = number_of("n", n, 1)
    if n > _MOST:
        raise ValueError(f"n: wanted at most {_MOST} samples, found {n}")
    options = {**options, **ALL_RANKS}
    samples = before_batching(pipeline).take(n)
    found = _picture_field(samples, options)
    if found is None:
        return _table(samples, options)
    field, kind = found
    if kind == "file":
        samples = samples.decode_image(field)
    elif kind == "CHW":
        samples = samples.layout(field, "HWC")
    return _sheet(samples, field, n, columns, zoom, options)


# ---- pictures ----


def _picture_field(samples: Pipeline, options: Mapping[str, Any]) -> tuple[str, str] | None:
    """The field with pictures, and what they are: "HWC", "CHW", or "file", bytes that begin as a file of pictures."""
    from ._runs import Runs

    with Runs(samples.batch(1), options).looking() as run:
        import json

        fields = json.loads(run.explain_json())["fields"]
        for field in fields:
            layout = _layout(field["dtype"], field["shape"])
            if layout:
                return field["name"], layout
        batch = run.next()
    if batch is None:
        return None
    for field in fields:
        if field["dtype"] == "bytes" and not field["shape"]:
            data = batch.column(field["name"]).tolist()[0]
            if data.startswith(_PICTURES) or (data[:4], data[8:12]) == (b"RIFF", b"WEBP"):
                return field["name"], "file"
    return None


def _layout(dtype: str, shape: list[int]) -> str:
    if dtype not in ("uint8", "float32") or len(shape) != 3:
        return ""
    return "HWC" if shape[2] in _CHANNELS else "CHW" if shape[0] in _CHANNELS else ""


def _with_caption(samples: Pipeline, options: Mapping[str, Any]) -> tuple[Pipeline, str | None]:
    """The field that is written under a picture: the label, by its name where the source knows it."""
    kind = samples.fields(**options).get("label")
    if kind not in ("int64", "int32", "bytes"):
        return samples, None
    try:
        names = classes_of(samples)
    except AttributeError:
        names = []
    if kind == "bytes" or not names:
        return samples, "label"

    def name_of(sample: dict[str, Any]) -> dict[str, Any]:
        label = int(sample["label"])
        text = names[label] if 0 <= label < len(names) else str(label)
        return {_CAPTION: text.encode(errors="replace")}

    types: dict[str, Any] = {_CAPTION: "bytes"}
    return samples.map(name_of, name="show", **types), _CAPTION


def _sheet(samples: Pipeline, field: str, n: int, columns: int, zoom: int, options: Mapping[str, Any]) -> Sheet:
    import tempfile

    samples, caption = _with_caption(samples, options)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "sheet.png")
        sheet = samples.write_sheet(path, field, caption=caption, columns=columns, count=n, zoom=zoom)
        count = sheet.run(**options)["samples"]
        with open(path, "rb") as file:
            return Sheet(file.read(), field, count)


# ---- a table ----


def _cell(value: Any) -> Any:
    """Numbers as they are; bytes as text, and arrays by type, shape and first values."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    shape = getattr(value, "shape", ())
    if shape == ():
        return value.item() if hasattr(value, "item") else value
    flat = value.reshape(-1)
    rest = " ..." if len(flat) > _VALUES else ""
    values = " ".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in flat[:_VALUES].tolist())
    return f"{value.dtype}{list(shape)}: {values}{rest}"


def _table(samples: Pipeline, options: Mapping[str, Any]) -> Rows:
    rows = [only_row(batch) for batch in samples.batch(1).numpy(**options)]
    names = list(samples.fields(**options))
    return Rows(names, [tuple(_cell(row[name]) for name in names) for row in rows])
