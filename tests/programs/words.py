"""Language models over words: an LSTM with a carried state and a Transformer; whole models saved."""

import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.onnx
from torch.nn.utils import clip_grad_norm_

TEXT = "the cat saw the dog and the dog saw the bird and the bird flew over the cat " * 12


class Corpus(object):
    def __init__(self, text):
        self.word2idx = {}
        for word in text.split():
            self.word2idx.setdefault(word, len(self.word2idx))
        self.ids = torch.tensor([self.word2idx[w] for w in text.split()]).type(torch.int64)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=16, nhid=16, nlayers=2):
        super(RNNModel, self).__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.nhid, self.nlayers = nhid, nlayers

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        decoded = self.decoder(output)
        return F.log_softmax(decoded.view(-1, decoded.size(-1)), dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return tuple(weight.new_zeros(self.nlayers, bsz, self.nhid) for _ in range(2))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super(PositionalEncoding, self).__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[: x.size(0), :]


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp=16, nhead=2, nhid=32, nlayers=2):
        super(TransformerModel, self).__init__(
            d_model=ninp, nhead=nhead, dim_feedforward=nhid, num_encoder_layers=nlayers, dropout=0.0
        )
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.pos_encoder = PositionalEncoding(ninp)
        self.decoder = nn.Linear(ninp, ntoken)
        self.ninp = ninp

    def forward(self, src, hidden):
        mask = torch.log(torch.tril(torch.ones(len(src), len(src), device=src.device)))
        src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.ninp))
        output = self.decoder(self.encoder(src, mask=mask))
        return F.log_softmax(output, dim=-1).view(-1, output.size(-1)), hidden


def repackage_hidden(h):
    if h is None:
        return None
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz, device):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous().to(device)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus(TEXT)
    data, bptt = batchify(corpus.ids, 4, device), 8
    kind = {"LSTM": RNNModel, "Transformer": TransformerModel}[sys.argv[1]]
    model = kind(len(corpus.word2idx))
    for i, p in enumerate(model.parameters()):
        p.data = torch.cos(torch.arange(p.numel()) + i).view_as(p) / 4
    model = model.to(device)
    criterion, lr = nn.NLLLoss(), 1.0
    hidden = model.init_hidden(4) if kind is RNNModel else None
    for i in range(0, data.size(0) - 1, bptt):
        seq_len = min(bptt, len(data) - 1 - i)
        source, target = data[i : i + seq_len], data[i + 1 : i + 1 + seq_len].view(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(source, hidden)
        loss = criterion(output, target)
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-lr)
        print(f"loss {loss.item():.4f} ppl {math.exp(loss.item()):.3f}")
    with open("words.pt", "wb") as f:
        torch.save(model, f)
    with open("words.pt", "rb") as f:
        model = torch.load(f, weights_only=False)
    os.remove("words.pt")
    if kind is RNNModel:
        model.rnn.flatten_parameters()
    model.eval()
    with torch.no_grad():
        hidden = model.init_hidden(4) if kind is RNNModel else None
        output, _ = model(data[:bptt], hidden)
    print(f"best {output.argmax(1)[:8].tolist()}")


if __name__ == "__main__":
    main()
