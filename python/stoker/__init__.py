"""Stoker: input pipelines for training, traces and benchmarks.

import stoker

pipe = (stoker.tfrecord("data/train-*.tfrecord")
        .shuffle(seed=42)
        .parse(image="bytes", label="int64")
        .decode_image("image").random_resized_crop("image", 224, 224).random_flip("image")
        .normalize("image", mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4]).layout("image", "CHW")
        .batch(256, drop_last=True))

for batch in pipe.torch():
    loss = step(batch["image"].cuda(non_blocking=True), batch["label"])
"""

from __future__ import annotations

from ._core import (
    BudgetError,
    CancelledError,
    CorruptError,
    Error,
    ForkError,
    FunctionError,
    InvalidError,
    LimitError,
    MismatchError,
    ReadError,
    UnfitError,
    UnsupportedError,
    __version__,
)
from ._ops import hdf5, image_folder, range, text, tfrecord, webdataset
from ._pipeline import Pipeline, load, load_plugin, pipeline
from ._record import counter, record, span, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import bench, torch
    from ._convert import Ragged
    from ._functions import source
    from ._g2p import G2p, g2p
    from ._inspect import Inspection, inspect
    from ._loader import Loader
    from ._record import Recording
    from ._trace import Diagnosis, Table, Trace, open_trace
    from ._watch import StokerWarning

__all__ = [
    "BudgetError",
    "CancelledError",
    "CorruptError",
    "Diagnosis",
    "Error",
    "ForkError",
    "FunctionError",
    "G2p",
    "Inspection",
    "InvalidError",
    "LimitError",
    "Loader",
    "MismatchError",
    "Pipeline",
    "Ragged",
    "ReadError",
    "Recording",
    "StokerWarning",
    "Table",
    "Trace",
    "UnfitError",
    "UnsupportedError",
    "__version__",
    "bench",
    "counter",
    "g2p",
    "hdf5",
    "image_folder",
    "inspect",
    "load",
    "load_plugin",
    "open_trace",
    "pipeline",
    "range",
    "record",
    "source",
    "span",
    "step",
    "text",
    "tfrecord",
    "webdataset",
]

# Read when they are asked for, so that the import stays fast: name -> module.
_LATER = {
    "Diagnosis": "_trace",
    "G2p": "_g2p",
    "Inspection": "_inspect",
    "Loader": "_loader",
    "Ragged": "_convert",
    "Recording": "_record",
    "StokerWarning": "_watch",
    "Table": "_trace",
    "Trace": "_trace",
    "bench": "bench",
    "g2p": "_g2p",
    "inspect": "_inspect",
    "open_trace": "_trace",
    "source": "_functions",
    "torch": "torch",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    import importlib

    try:
        module = importlib.import_module("." + _LATER[name], __name__)
    except ModuleNotFoundError as error:  # an AttributeError, so that hasattr() and help() do not fail
        package = (error.name or "").partition(".")[0]
        raise AttributeError(f"stoker.{name} needs the package {package!r}, which is not installed") from error
    value = module if name == _LATER[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
