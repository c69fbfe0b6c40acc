"""Digits with torchkeras."""

import matplotlib.pyplot as plt
import mnist
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchkeras import KerasModel, summary
from torchmetrics.classification import MulticlassAccuracy

torch.manual_seed(0)
(x, y), (x_test, y_test) = [
    (torch.from_numpy(images)[:, None], torch.from_numpy(labels)) for images, labels in mnist.load()
]
train = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
test = DataLoader(TensorDataset(x_test, y_test), batch_size=256)

net = nn.Sequential(
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
summary(net, input_data=x[:1])
model = KerasModel(
    net,
    loss_fn=nn.CrossEntropyLoss(),
    metrics_dict={"accuracy": MulticlassAccuracy(10, average="micro")},
    optimizer=torch.optim.Adam(net.parameters(), lr=3e-3),
)

history = model.fit(
    train,
    val_data=test,
    epochs=3,
    ckpt_path="torchkeras.pt",
    patience=2,
    plot=False,
)
history.drop(columns="epoch").plot(subplots=True)
plt.savefig("torchkeras.png")
print(history)

print(model.evaluate(test, quiet=True))
with torch.no_grad():
    read = model.net.eval()(x_test[:10]).argmax(1)
print("read:", read.tolist(), "are:", y_test[:10].tolist())
