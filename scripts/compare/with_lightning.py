"""Digits with Lightning."""

import lightning as L
import matplotlib.pyplot as plt
import mnist
import pandas as pd
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Digits(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 24, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(384, 10),
        )
        self.loss = nn.CrossEntropyLoss()
        self.accuracy = MulticlassAccuracy(10, average="micro")
        self.val_accuracy = MulticlassAccuracy(10, average="micro")

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self(x)
        loss = self.loss(scores, y)
        self.accuracy(scores, y)
        self.log("loss", loss, prog_bar=True, on_step=False, on_epoch=True)
        self.log("accuracy", self.accuracy, prog_bar=True, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        scores = self(x)
        self.val_accuracy(scores, y)
        self.log("val_loss", self.loss(scores, y), prog_bar=True)
        self.log("val_accuracy", self.val_accuracy, prog_bar=True)

    def predict_step(self, batch, batch_idx):
        (x,) = batch
        return self(x).argmax(1)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


L.seed_everything(0)
(x, y), (x_test, y_test) = [
    (torch.from_numpy(images)[:, None], torch.from_numpy(labels)) for images, labels in mnist.load()
]
train = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
test = DataLoader(TensorDataset(x_test, y_test), batch_size=256)

model = Digits()
checkpoint = ModelCheckpoint(monitor="val_loss")
trainer = L.Trainer(
    max_epochs=3,
    logger=CSVLogger("lightning"),
    callbacks=[EarlyStopping("val_loss", patience=2), checkpoint],
)
trainer.fit(model, train, test)
model = Digits.load_from_checkpoint(checkpoint.best_model_path)

table = pd.read_csv(f"{trainer.logger.log_dir}/metrics.csv").groupby("epoch").first()
table.drop(columns="step").plot(subplots=True)
plt.savefig("lightning.png")
print(table)

print(trainer.validate(model, test, verbose=False)[0])
few = DataLoader(TensorDataset(x_test[:10]), batch_size=10)
print("read:", trainer.predict(model, few)[0].tolist(), "are:", y_test[:10].tolist())
