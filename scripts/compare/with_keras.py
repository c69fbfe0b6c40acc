"""Digits with Keras, on PyTorch."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import matplotlib.pyplot as plt
import mnist
import pandas as pd
from keras import layers

keras.utils.set_random_seed(0)
(x, y), (x_test, y_test) = mnist.load()
x, x_test = x[..., None], x_test[..., None]

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(8, 5, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(24, 5, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dropout(0.25),
        layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.summary()

history = model.fit(
    x,
    y,
    epochs=3,
    batch_size=64,
    validation_data=(x_test, y_test),
    callbacks=[
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(
            "keras.weights.h5", save_best_only=True, save_weights_only=True
        ),
    ],
)
table = pd.DataFrame(history.history)
table.plot(subplots=True)
plt.savefig("keras.png")
print(table)

print(model.evaluate(x_test, y_test, return_dict=True, verbose=0))
print("read:", model.predict(x_test[:10]).argmax(1).tolist(), "are:", y_test[:10].tolist())
