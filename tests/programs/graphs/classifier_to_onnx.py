"""A classifier is exported as ONNX with a batch of any size, checked, and run by onnxruntime."""

import io
import sys

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
import torch.onnx
from torch import nn

dynamo = "--dynamo" in sys.argv


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8, padding=1),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d((4, 4)),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(128, 32), nn.GELU(), nn.Linear(32, 10)
        )

    def forward(self, x):
        x = self.features(x)
        x = x.view(x.size(0), -1)
        logits = self.classifier(x)
        return F.log_softmax(logits, dim=1), logits.argmax(dim=-1)


def wave(*shape):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


def to_numpy(tensor):
    return tensor.detach().cpu().numpy() if tensor.requires_grad else tensor.cpu().numpy()


model = Classifier()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(wave(*p.shape) * 0.4)
model.eval()
x = wave(2, 3, 16, 16).requires_grad_()
torch_out = model(x)
torch.onnx.export(
    model,
    x,
    "classifier.onnx",
    export_params=True,
    opset_version=17,
    do_constant_folding=True,
    input_names=["input"],
    output_names=["output", "label"],
    dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}, "label": [0]},
    dynamo=dynamo,
)
onnx_model = onnx.load("classifier.onnx")
onnx.checker.check_model(onnx_model, full_check=True)
print(onnx_model.opset_import[0].version)
for value in (*onnx_model.graph.input, *onnx_model.graph.output):
    print(value.name, [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim][1:])
print(onnx_model.graph.input[0].type.tensor_type.shape.dim[0].dim_param)

session = onnxruntime.InferenceSession("classifier.onnx", providers=["CPUExecutionProvider"])
outs = session.run(None, {session.get_inputs()[0].name: to_numpy(x)})
np.testing.assert_allclose(to_numpy(torch_out[0]), outs[0], rtol=1e-3, atol=1e-5)
print(outs[1].tolist(), outs[0].round(4)[:, :3].tolist())
more = wave(5, 3, 16, 16)
outs = session.run(["label"], {"input": to_numpy(more)})
print(outs[0].tolist(), model(more)[1].tolist())

file = io.BytesIO()
torch.onnx.export(model, (x,), file, dynamo=dynamo, training=torch.onnx.TrainingMode.EVAL)
session = onnxruntime.InferenceSession(file.getvalue())
print([tuple(i.shape) for i in session.get_inputs()], len(session.get_outputs()))
print(model.training)


class Masked(nn.Module):
    def forward(self, query, key, mask=None):
        score = query @ key.transpose(-2, -1) * 0.5
        if mask is not None:
            score = score.masked_fill(mask == 0, float("-inf"))
        return {"score": score, "weight": score.softmax(-1)}


q, k, mask = wave(2, 3, 4), wave(2, 5, 4), (wave(2, 3, 5) > -0.5).long()
axes = {"query": {0: "b", 1: "t"}, "key": {0: "b", 1: "s"}, "mask": {0: "b", 1: "t", 2: "s"}}
torch.onnx.export(
    Masked(),
    (q, k, {"mask": mask}),
    "masked.onnx",
    dynamo=dynamo,
    input_names=["query", "key", "mask"],
    output_names=["score", "weight"],
    dynamic_axes=axes,
)
session = onnxruntime.InferenceSession("masked.onnx")
q, k, mask = wave(1, 2, 4), wave(1, 6, 4), (wave(1, 2, 6) > -0.5).long()
fed = {"query": q.numpy(), "key": k.numpy(), "mask": mask.numpy()}
score, weight = session.run(None, fed)
ours = Masked()(q, k, mask)
print(np.allclose(weight, ours["weight"].numpy(), atol=1e-6), weight.round(4).tolist())
