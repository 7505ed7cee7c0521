"""Lightning: lightning_fit.py DEVICES STOP RESUME OVERFIT. Training with validation, the model's own record of both."""

import pathlib
import sys
import warnings

import lightning.pytorch as lightning
import torch
from common import leave

import stoker

devices, stop, resume, overfit = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "resume", int(sys.argv[4])
warnings.simplefilter("ignore")


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen, self.validated = [], []

    def training_step(self, batch, index):
        self.seen.append(batch[0].tolist())
        return self.layer(batch[0].float()[:, None]).mean()

    def validation_step(self, batch, index):
        self.validated.append(batch[0].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return stoker.range(70).shuffle(seed=1).batch(4).loader("value", format="torch")

    def val_dataloader(self):
        return stoker.range(20).batch(4).loader("value", format="torch")


class Stop(lightning.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if trainer.global_step == stop:
            trainer.save_checkpoint("place.ckpt")
            trainer.should_stop = True
            raise KeyboardInterrupt


model = Model()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=devices,
    strategy="ddp" if devices > 1 else "auto",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
    overfit_batches=overfit,
    callbacks=[Stop()],
)
try:
    trainer.fit(model, datamodule=Data(), ckpt_path="place.ckpt" if resume else None, weights_only=False)
except (KeyboardInterrupt, SystemExit):
    assert pathlib.Path("place.ckpt").exists()
leave({"seen": model.seen, "validated": model.validated})
