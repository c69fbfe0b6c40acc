"""A GPT in the manner of minGPT: a mask in a buffer, decayed and other weights, top-k sampling."""

import math
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.distributed import init_process_group  # noqa: F401
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: F401
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader


class SortDataset(Dataset):
    def __init__(self, length=4, num_digits=3):
        self.length, self.num_digits = length, num_digits

    def __len__(self):
        return 64

    def __getitem__(self, idx):
        inp = torch.tensor(
            [(idx * 7 + 3 * i * idx + i) % self.num_digits for i in range(self.length)]
        )
        sol = torch.sort(inp)[0]
        cat = torch.cat((inp, sol), dim=0)
        x, y = cat[:-1].clone(), cat[1:].clone()
        y[: self.length - 1] = -1
        return x, y


class NewGELU(nn.Module):
    def forward(self, x):
        return (
            0.5
            * x
            * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        )


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        ones = torch.ones(block_size, block_size)
        self.register_buffer("bias", torch.tril(ones).view(1, 1, block_size, block_size))
        self.mlp = nn.ModuleDict(dict(
            c_fc=nn.Linear(n_embd, 4 * n_embd), act=NewGELU(), c_proj=nn.Linear(4 * n_embd, n_embd),
        ))  # fmt: skip
        m = self.mlp
        self.mlpf = lambda x: m.c_proj(m.act(m.c_fc(x)))
        self.n_head, self.n_embd = n_head, n_embd

    def attend(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlpf(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab=3, block_size=7, n_layer=2, n_head=2, n_embd=16):
        super().__init__()
        self.block_size = block_size
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab, n_embd), wpe=nn.Embedding(block_size, n_embd),
            h=nn.ModuleList([Block(n_embd, n_head, block_size) for _ in range(n_layer)]),
            ln_f=nn.LayerNorm(n_embd),
        ))  # fmt: skip
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        n_params = sum(p.numel() for p in self.transformer.parameters())
        print("number of parameters: %.4fM" % (n_params / 1e6,))

    def configure_optimizers(self):
        decay, no_decay = set(), set()
        for mn, m in self.named_modules():
            for pn, _ in m.named_parameters(recurse=False):
                fpn = "%s.%s" % (mn, pn) if mn else pn
                if pn.endswith("weight") and isinstance(m, (torch.nn.Linear,)):
                    decay.add(fpn)
                else:
                    no_decay.add(fpn)
        param_dict = {pn: p for pn, p in self.named_parameters()}
        assert len(param_dict.keys() - (decay | no_decay)) == 0
        groups = [
            {"params": [param_dict[pn] for pn in sorted(decay)], "weight_decay": 0.1},
            {"params": [param_dict[pn] for pn in sorted(no_decay)], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))

    def forward(self, idx, targets=None):
        _, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        flat = logits.view(-1, logits.size(-1))
        return logits, F.cross_entropy(flat, targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, do_sample=False, top_k=None):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.block_size :])
            logits = logits[:, -1, :]
            if top_k is not None:
                v, _ = torch.topk(logits, top_k)
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            if do_sample:
                idx_next = torch.multinomial(probs, num_samples=1)
            else:
                _, idx_next = torch.topk(probs, k=1, dim=-1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"
ctx = nullcontext() if device == "cpu" else torch.amp.autocast(device_type=device, enabled=False)
scaler = torch.amp.GradScaler(device, enabled=False)
model = GPT()
for i, p in enumerate(model.parameters()):
    p.data = torch.sin(torch.arange(p.numel()) * 0.9 + i).view_as(p) / 3
model.to(device)
raw_model = model
if "--compile" in sys.argv:
    model = torch.compile(model, mode="reduce-overhead")
optimizer = raw_model.configure_optimizers()
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
for x, y in DataLoader(SortDataset(), batch_size=8, pin_memory=True):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    with ctx:
        logits, loss = model(x, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    scheduler.step()
    print(f"loss {loss.item():.4f} norm {norm.item():.4f} lr {scheduler.get_last_lr()[0]:.6f}")
model.eval()
start = torch.tensor([[0, 2, 1, 0]], device=device)
print(raw_model.generate(start, 4, top_k=2).tolist())
print(tuple(raw_model.generate(start, 3, do_sample=True).shape))
