"""Keras: a loader that `fit`, `evaluate` and `predict` take, with any of Keras 3's backends."""

from __future__ import annotations

import sys
from importlib import import_module

from ._loader import KERAS_ADAPTERS, Item, Loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_made: dict[type, type[Loader[Any]]] = {}  # by Keras' base class


def loader_class() -> type[Loader[Any]]:
    """Loaders that Keras knows: it takes whatever is one of its data adapters as it is."""
    base = import_module(KERAS_ADAPTERS).DataAdapter
    if base not in _made:
        _made[base] = type("Loader", (_KerasLoader, base), {"__module__": __name__})
    return _made[base]


class _KerasLoader(Loader[Item]):
    """What Keras calls on its data adapters. Each of the iterators is one loop, hence the next epoch."""

    _begun: dict[str, Any] | None = None  # the place at which Keras' epoch began

    def get_numpy_iterator(self) -> Iterator[Any]:
        return _converted(self, import_module("numpy").asarray)

    def get_jax_iterator(self) -> Iterator[Any]:
        return self.get_numpy_iterator()

    def get_torch_dataloader(self) -> Iterator[Any]:
        return _converted(self, import_module("torch").as_tensor)

    def get_tf_dataset(self) -> Any:
        tf = import_module("tensorflow")
        types = self.pipeline.fields()
        specs = {name: _spec(tf, name, types[name], self._padded()) for name in self._fields or types}
        signature = tuple(specs.values()) if self._fields else specs
        return tf.data.Dataset.from_generator(self.get_numpy_iterator, output_signature=signature)

    def _padded(self) -> bool:
        from ._samples import batch_options

        return batch_options(self.pipeline._ops).get("pad") == "true"

    @property
    def num_batches(self) -> int | None:
        try:
            return len(self)
        except TypeError:
            return None

    @property
    def has_partial_batch(self) -> bool | None:
        return self.partial_batch_size is not None

    @property
    def partial_batch_size(self) -> int | None:
        """Samples of a last batch that is not full."""
        if self.drop_last or self.num_batches is None:
            return None
        return len(self.sampler) % self.batch_size or None

    def on_epoch_begin(self) -> None:
        self._begun = self.state_dict()

    def on_epoch_end(self) -> None:
        """Keras takes a batch to build the model, and calls its `reset`: the epoch, or a place in it, begins anew."""
        if sys._getframe(1).f_code.co_name == "reset" and self._begun is not None:
            self.load_state_dict(self._begun)
        self._begun = None


def _converted(loader: Loader[Any], convert: Callable[[Any], Any]) -> Iterator[Any]:
    """Batches of any format as arrays of one library, on the same memory."""
    for batch in loader:
        if isinstance(batch, dict):
            yield {name: convert(column) for name, column in batch.items()}
        else:
            yield tuple([convert(column) for column in batch])


def _spec(tf: Any, name: str, text: str, padded: bool) -> Any:
    """The type of a field in batches, of which the last may have fewer samples."""
    dtype, _, dims = text.partition("[")
    shape = [None if dim.strip() == "?" else int(dim) for dim in dims.rstrip("]").split(",") if dim]
    if None in shape and not padded:
        raise TypeError(f"field {name!r} is {text}, which makes ragged batches: wanted .batch(n, pad=True) for Keras")
    return tf.TensorSpec([None, *shape], tf.string if dtype == "bytes" else tf.dtypes.as_dtype(dtype))
