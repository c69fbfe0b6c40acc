"""Digits with pyframe."""

import mnist

import pyframe as pf
from pyframe import nn, optim
from pyframe.train import ModelCheckpoint

pf.manual_seed(0)
(x, y), (x_test, y_test) = mnist.load()
x, x_test = x[:, None], x_test[:, None]

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
optimizer = optim.Adam(net.parameters(), lr=3e-3)
model = pf.Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])
model.summary((1, 28, 28))

history = model.fit(
    (x, y),
    epochs=3,
    batch_size=64,
    validation_data=(x_test, y_test),
    patience=2,
    callbacks=[ModelCheckpoint("pyframe.safetensors")],
)
history.plot().savefig("pyframe.png")
print(history)

print(model.evaluate((x_test, y_test)))
print("read:", model.predict(x_test[:10]).argmax(1).tolist(), "are:", y_test[:10].tolist())
