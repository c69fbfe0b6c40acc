"""Each module of nn, with arguments by their names in its signature, and the input that it takes.
What PyTorch refuses is to be refused."""

from __future__ import annotations

import inspect
import re

from pyframe import nn

from .backends import Backend
from .check import Compared, FailureError
from .families import Draw, family

# What arguments are: `*` as often as the module has dims of space, too; C is the number of
# channels, and {a|b} one of several
VALUES = """
in_channels in_features num_features num_channels num_parameters in1_features normalized_shape: C
d_model embed_dim input_size kdim vdim embedding_dim: C
in2_features out_features out_channels hidden_size: 2 3 4
kernel_size stride: * 1 2 3
padding: * 0 1 2
dilation: * 1 2
output_padding: * 0 1
output_size: * 1 2 3 5
size: * 3 5 8
scale_factor: * 2 2.2 1.3 0.6
groups: 1 2 C
padding_mode: 'zeros' 'reflect' 'replicate' 'circular'
bias affine track_running_stats elementwise_affine inplace ceil_mode count_include_pad: True False
return_indices log_input full log_target swap keepdim batch_first norm_first: True False
add_bias_kv add_zero_attn scale_grad_by_freq align_corners recompute_scale_factor: True False
zero_infinity enable_nested_tensor: True False
include_last_offset: False
divisor_override: 1 3
norm_type: 1 2 3.0
p: 0.0 1.0
eps layer_norm_eps: 1e-3 0.1
momentum: 0.3 None
alpha beta delta: 0.3 1.7
k negative_slope value threshold init margin: 0.3 1.5 2
lower: 0.1
upper: 0.4
lambd: 0.1 0.7
min_val: -0.5 -2
max_val: 0.5 2
num_groups num_heads nhead: 1 2
upscale_factor downscale_factor: 1 2
dim: 1 -1 0
approximate: 'tanh' 'none'
num_embeddings: 5
padding_idx: 0 -1
max_norm: 1.0
reduction: 'sum' 'none' 'mean'
weight pos_weight: wide(T.arange(1,C+1)/3).to(device)
ignore_index: 0 1 -1
label_smoothing: 0.2
blank: 0
dim_feedforward num_layers: 2 3
dropout: 0.0
activation: 'gelu' 'relu' F.silu
nonlinearity: 'relu' 'tanh'
start_dim: 0 1 2
end_dim: -1 1
unflattened_size: (1,-1) (-1,2)
"""
ODD = "-1 0 7 2.5 None 'x' (1,) True"  # what may fit none of them
OWN = {  # of one module
    "Conv padding": "* 0 1 2 'same' 'valid'", "Pad padding": "1 2 -1 P",
    "MultiMarginLoss p": "1 2", "PairwiseDistance p": "1 2 3", "TripletMarginLoss p": "1 2 3",
    "LocalResponseNorm size": "2 3", "ConstantPad value": "0.5 -1", "Softplus beta": "0.5 2",
    "Bilinear in2_features": "C", "EmbeddingBag mode": "'sum' 'mean' 'max'",
    "Upsample mode": "'nearest' 'nearest-exact'",
    "LayerNorm normalized_shape": "C (3,C)", "Fold output_size": "(4,5)", "Fold kernel_size": "2",
    "MaxUnpool kernel_size": "2", "LPPool kernel_size": "1 2 3",
    "MaxUnpool stride": "2", "MaxUnpool padding": "0",
}  # fmt: skip
LEFT = {  # what is drawn by no name, or made of others
    "device", "dtype", "size_average", "reduce", "sparse", "_weight", "_freeze", "num_chunks",
    "_random_samples", "output_ratio", "distance_function", "args", "kwargs", "min_value",
    "max_value", "options",
}  # fmt: skip
ARGUMENTS: dict[str, list[str]] = {}
for _line in VALUES.strip().splitlines():
    _names, _, _some = _line.partition(": ")
    ARGUMENTS.update(dict.fromkeys(_names.split(), _some.split(" ")))

SPACE = """Conv ConvTranspose MaxPool AvgPool LPPool AdaptiveAvgPool AdaptiveMaxPool BatchNorm
Dropout InstanceNorm ReflectionPad ReplicationPad ConstantPad CircularPad ZeroPad
MaxUnpool""".split()
SHAPES = """
Linear LayerNorm RMSNorm: N 3 C
GroupNorm PReLU: N C 4
LocalResponseNorm Upsample ChannelShuffle: N C 4 5
UpsamplingNearest2d UpsamplingBilinear2d Softmax2d Unfold: N C 4 5
PixelShuffle: N 8 2 3
PixelUnshuffle: N 2 4 6
Fold: N 8 12
Flatten Unflatten: N 4 3 2
RNNCell LSTMCell GRUCell: N C
CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU: N 4 3
LogSigmoid LogSoftmax Mish ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus: N 4 3
Softshrink Softsign Tanh Tanhshrink Threshold Dropout AlphaDropout RReLU FeatureAlphaDropout: N 4 3
MultiheadAttention TransformerEncoderLayer TransformerDecoderLayer Transformer: 3 N C
"""
CALLS = {  # of x, and of t as large; ones that are not net(x)
    "MultiheadAttention": "net(x, x * 0.5, t)", "TransformerDecoderLayer": "net(x, t)",
    "MaxUnpool": "net(*F.max_pool{n}d(x, 2, return_indices=True))",
    "L1Loss MSELoss SmoothL1Loss HuberLoss PairwiseDistance CosineSimilarity": "net(x, t)",
    "KLDivLoss": "net(F.log_softmax(x, -1), F.softmax(t, -1))",
    "BCELoss": "net(x.sigmoid(), t.sigmoid())", "BCEWithLogitsLoss": "net(x, t.sigmoid())",
    "PoissonNLLLoss": "net(x.abs() + 0.1, t.abs())", "SoftMarginLoss": "net(x, t.sign())",
    "GaussianNLLLoss": "net(x, t, t.abs() + 0.2)", "MarginRankingLoss": "net(x, t, t.sign())",
    "HingeEmbeddingLoss": "net(x, t.detach().sign())",
    "CosineEmbeddingLoss": "net(x, t, t.detach()[:, 0].sign())",
    "TripletMarginLoss TripletMarginWithDistanceLoss": "net(x, t, x.flip(0) * 0.5)",
    "MultiLabelSoftMarginLoss": "net(x, (t > 0).to(x.dtype))",
    "MultiLabelMarginLoss": "net(x, T.stack([i] + [i * 0 - 1] * (x.shape[1] - 1), 1))",
    "CrossEntropyLoss NLLLoss MultiMarginLoss": "net(x, i)",
    "CTCLoss": "net(F.log_softmax(x[:, None] + t[:, None], -1), i[None, :1] * 0 + 1, (len(x),), "
    "(1,))", "Bilinear Transformer": "net(x, t)", "Embedding": "net(i)",
    "EmbeddingBag": "net(T.stack([i, i.flip(0)]))",
}  # fmt: skip


CALLED = {name: call for names, call in CALLS.items() for name in names.split()}
FACTORS = "size", "scale_factor"  # of which one is given


def _table() -> dict[str, tuple[str, int]]:
    """The sizes of the input of each module, and its number of dims of space."""
    found = {}
    for line in SHAPES.strip().splitlines():
        names, _, sizes = line.partition(": ")
        found.update(dict.fromkeys(names.split(), (sizes, 0)))
    for n in (1, 2, 3):
        found.update({f"{name}{n}d": ("N C 5 4 3"[: 3 + 2 * n], n) for name in SPACE})
    found.update({name: ("N C", 0) for name in CALLED if name not in (*SPACE, *found)})
    for name in "UpsamplingNearest2d UpsamplingBilinear2d Upsample Unfold Fold".split():
        found[name] = found[name][0], 2
    return found


TABLE = _table()


class Refusing(Compared):
    """What both refuse, they may refuse by other errors."""

    def check(self, backend: Backend) -> bool:
        """As of any program."""
        try:
            return super().check(backend)
        except FailureError as failure:
            if failure.kind == "another error":
                return False
            raise


def _value(d: Draw, base: str, argument: str, n: int) -> str:
    some = ARGUMENTS.get(argument)
    for key, own in OWN.items():
        module, _, of = key.partition(" ")
        if of == argument and (base == module or (module == "Pad" and base.endswith("Pad"))):
            some = own.split(" ")
    if some is None:
        raise LookupError(f"modules.py: say what {argument} of {base} may be")
    if d.maybe(0.02):
        return str(d.pick(*ODD.split(" ")))
    if some[0] == "*":
        some = some[1:]
        if n and d.maybe(0.4):
            return f"({', '.join(d.pick(*some[:3]) for _ in range(n))},)"
    return str(d.pick(*some))


@family("modules")
def modules(d: Draw) -> Refusing:
    name = d.pick(*TABLE)
    sizes, n = TABLE[name]
    base = re.sub(r"\dd$", "", name) if n else name
    c, batch, given = d.pick(2, 4, 6), d.pick(1, 2, 2, 3, 5), []
    for p in inspect.signature(getattr(nn, name)).parameters.values():
        wanted = p.default is p.empty or p.name == "dropout" or d.maybe(0.35)
        if (
            wanted
            and p.name not in LEFT
            and name != "Transformer"
            and not ("Upsampl" in name and p.name in FACTORS)
        ):
            given.append(f"{p.name}={_value(d, base, p.name, n)}")
    if "Upsampl" in name:
        factor = d.pick(*FACTORS)
        given.append(f"{factor}={_value(d, base, factor, n)}")
    made = re.sub(r"\bC\b", str(c), ", ".join(given))
    made = f"{c}, 2, 1, 1, 3, 0.0" if name == "Transformer" else made
    made = made.replace("=P", f"={tuple(d.int(-1, 3) for _ in range(2 * n))}")
    shape = [{"C": c, "N": batch}.get(s) or int(s) for s in sizes.split()]
    call = CALLED.get(base, "net(x)").replace("{n}", str(n))
    d.net(f"T.nn.{name}({made})")
    d.arg("x", shape, d.pick("normal", "normal", "distinct"))
    if re.search(r"\bt\b", call):
        d.arg("t", shape, grad=False)
    if re.search(r"\bi\b", call):
        d.arg("i", (batch,), f"int:0:{5 if 'Emb' in name else c}", view=False)
    if d.maybe(0.3) or ("ropout" in name and "p=" not in made) or name == "RReLU":
        d.setup.append("net.eval()")
    d.line(f"y = {call}")
    d.line("y = [*y] if isinstance(y, tuple) else [y]")
    d.results("*y, *[b + 0 for b in net.buffers()]" if d.maybe(0.3) else "*y")
    return Refusing(d.program())
