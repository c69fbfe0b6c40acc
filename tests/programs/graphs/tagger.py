"""A tagger of words with an LSTM, trained, scripted, and exported for sentences of any length."""

import sys
from typing import Tuple

import numpy as np
import onnxruntime
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.onnx
import torch.optim as optim

dynamo = "--dynamo" in sys.argv
DATA = [
    ("the dog ate the apple".split(), ["DET", "NN", "V", "DET", "NN"]),
    ("everybody read that book".split(), ["NN", "V", "DET", "NN"]),
]
words = {w: i for i, w in enumerate(dict.fromkeys(w for s, _ in DATA for w in s))}
tags = {"DET": 0, "NN": 1, "V": 2}


class Tagger(nn.Module):
    hidden: torch.jit.Final[int]

    def __init__(self, embedding: int, hidden: int, vocabulary: int, tags: int):
        super().__init__()
        self.hidden = hidden
        self.embeddings = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * hidden, tags)

    def start(self, n: int) -> Tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(2, n, self.hidden), torch.zeros(2, n, self.hidden)

    def forward(self, sentence: torch.Tensor) -> torch.Tensor:
        embeds = self.embeddings(sentence)
        out, _ = self.lstm(embeds.view(sentence.size(0), 1, -1), self.start(1))
        space = self.hidden2tag(out.view(sentence.size(0), -1))
        return F.log_softmax(space, dim=1)


def sequence(items, to):
    return torch.tensor([to[i] for i in items], dtype=torch.long)


def wave(*shape):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


model = Tagger(6, 6, len(words), len(tags))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(wave(*p.shape) * 0.5)
scripted = torch.jit.script(model)
loss_function = nn.NLLLoss()
optimizer = optim.SGD(scripted.parameters(), lr=0.1)
for epoch in range(12):
    for sentence, named in DATA:
        scripted.zero_grad()
        loss = loss_function(scripted(sequence(sentence, words)), sequence(named, tags))
        loss.backward()
        optimizer.step()
    if epoch % 4 == 3:
        print(f"{epoch} {loss.item():.4f}")
with torch.no_grad():
    inputs = sequence(DATA[0][0], words)
    print(scripted(inputs).argmax(1).tolist(), torch.allclose(model(inputs), scripted(inputs)))
scripted.eval()
model.eval()
torch.onnx.export(
    model,
    (inputs,),
    "tagger.onnx",
    input_names=["sentence"],
    output_names=["tags"],
    dynamic_axes={"sentence": {0: "length"}, "tags": {0: "length"}},
    dynamo=dynamo,
)
session = onnxruntime.InferenceSession("tagger.onnx")
for sentence, _ in DATA:
    fed = sequence(sentence, words)
    (found,) = session.run(["tags"], {"sentence": fed.numpy()})
    print(found.argmax(1).tolist(), np.allclose(found, model(fed).detach().numpy(), atol=1e-5))
print(torch.jit.freeze(scripted)(inputs).argmax(1).tolist())
print(sorted(k for k, _ in scripted.named_parameters() if "reverse" in k))
