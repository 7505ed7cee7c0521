"""A loader's place in accelerate's checkpoints: `register_for_checkpointing`, save_state, load_state."""

from accelerate import Accelerator
from common import leave

import stoker


def make():
    return stoker.range(70).shuffle(seed=1).batch(4).loader("value", format="torch")


accelerator = Accelerator(cpu=True)
loader = make()
accelerator.register_for_checkpointing(loader)
loop = iter(loader)
for _ in range(5):
    next(loop)
accelerator.save_state("place")
rest = [value.tolist() for (value,) in loop]

again = Accelerator(cpu=True)
other = make()
again.register_for_checkpointing(other)
again.load_state("place")
leave({"rest": rest, "again": [value.tolist() for (value,) in other]})
accelerator.end_training()
