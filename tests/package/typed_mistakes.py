"""Mistakes that the types must find: test_types.py counts one in each line that says so."""

from __future__ import annotations

import stoker

stoker.range("ten")  # mistake
stoker.range(10).shufle(seed=1)  # mistake
stoker.range(10).shuffle(sead=1)  # mistake
stoker.range(10).shuffle(window="some")  # mistake
stoker.range(10).batch()  # mistake
stoker.tfrecord(3)  # mistake
stoker.tfrecord("a").parse(image=3)  # mistake
stoker.tfrecord("a").resize("image", 3, filter="sharp")  # mistake
stoker.tfrecord("a").normalize("image", mean="dark")  # mistake
stoker.range(10).batch(2).loader(treads=3)  # mistake
stoker.range(10).batch(2).loader(format="tensor")  # mistake
stoker.range(10).batch(2).numpy(on_error="skp")  # mistake
stoker.range(10).shuffle(1000)  # mistake
stoker.range(10).batch(2).loader("value").shape  # mistake
