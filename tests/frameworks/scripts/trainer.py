"""Hugging Face Trainer: trainer.py KIND DIRECTORY STOP RESUME DISPATCH. What the model saw, step by step."""

import sys

import torch
from common import leave
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

import stoker

kind, directory, stop, resume = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "resume"
dispatch = {"None": None, "False": False}[sys.argv[5]]
pipe = stoker.range(70).rename(labels="value").map(lambda s: {"x": float(s["labels"])}, x="float32")
pipe = pipe.shuffle(seed=1).batch(4)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def forward(self, x, labels):
        if self.training:
            self.seen.append(labels.tolist())
        return {"loss": self.layer(x[:, None]).mean(), "logits": labels}


class MyTrainer(Trainer):
    def get_train_dataloader(self):
        if kind == "loader":
            return pipe.loader(format="torch")
        if kind == "prepared":
            return self.accelerator.prepare(DataLoader(pipe.dataset(), batch_size=None))
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset=None):
        return pipe.loader(format="torch")


class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == stop:
            control.should_save = control.should_training_stop = True


datasets = {"samples": pipe.dataset(samples=True), "batches": pipe.dataset()}
model = Model()
arguments = TrainingArguments(
    directory,
    num_train_epochs=2,
    per_device_train_batch_size=4,
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    accelerator_config={"dispatch_batches": dispatch},
)
trainer = MyTrainer(model=model, args=arguments, train_dataset=datasets.get(kind), callbacks=[Stop()])
trainer.train(resume_from_checkpoint=resume)
metrics = trainer.evaluate()
leave({"seen": model.seen, "steps": trainer.state.global_step, "eval_loss": metrics["eval_loss"]})
