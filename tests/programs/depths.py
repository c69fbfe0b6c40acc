"""What libraries take from the depths of PyTorch, and what it gives."""

import torch
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.autograd import forward_ad
from torch.nn.attention.bias import causal_lower_right
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.optim.adam import adam
from torch.profiler import schedule
from torch.testing import assert_close
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakTensorKeyDictionary
from torchvision.models._utils import IntermediateLayerGetter

if __name__ == "__main__":
    print(torch.sym_max(1, 2.5), torch.sym_int(2.5), torch.sym_ite(torch.sym_not(0), 3, 4))
    a = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    b = [torch.tensor([0.5, 4.0]), torch.ones(1)]
    for found in (
        torch._foreach_add(a, b, alpha=2), torch._foreach_mul(a, [2.0, 3.0]),
        torch._foreach_addcmul(a, b, b, [1.0, 2.0]), torch._foreach_pow(2.0, a),
        torch._foreach_norm(a), torch._foreach_maximum(a, 1.5), torch._foreach_lerp(a, b, 0.25),
        torch._foreach_addcdiv(a, b, b, value=0.5), torch._foreach_clamp_max(a, b),
        torch._foreach_sqrt_(a), torch._foreach_copy_(b, a), torch._foreach_zero_(a), b,
    ):  # fmt: skip
        print([x.tolist() for x in found])
    x, w = torch.arange(50.0).reshape(1, 2, 5, 5) / 50, torch.arange(54.0).reshape(3, 2, 3, 3) / 54
    g = torch.ones(1, 3, 2, 2)
    print(conv2d_weight(x, w.shape, g, 2).sum((0, 2)), conv2d_input(x.shape, w, g, 2).sum())
    q, k = x[:, :, :2, :4], x[:, :, :3, :4]
    print(nn.functional.scaled_dot_product_attention(q, k, k, causal_lower_right(2, 3)).sum())
    for decoupled in (False, True):
        state = [[torch.tensor([v])] for v in (1.0, 0.5, 0.1, 0.2, 0.3, 2.0)]
        adam(*state, amsgrad=True, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1, eps=1e-8,
             maximize=False, foreach=False, decoupled_weight_decay=decoupled)  # fmt: skip
        print([float(s[0]) for s in state])
    flat = _flatten_dense_tensors([x[0, 0], w[0, 0]])
    print(flat.shape, [tuple(t.shape) for t in _unflatten_dense_tensors(flat, [x[0, 0], w[0, 0]])])
    groups = grouped([[x, w, x.double()], [w, x, w]], True)
    print(sorted((str(key[1]), len(lists[0]), at) for key, (lists, at) in groups.items()))
    with forward_ad.dual_level():
        y = forward_ad.make_dual(w[0, 0], w[1, 1]).exp()
        print(forward_ad.unpack_dual(y).tangent.sum(), forward_ad.unpack_dual(g).tangent)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(27, 4))
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    print(counter.get_total_flops(), sum(counter.get_flop_counts()["Sequential.0"].values()) > 0)
    print({k: v.shape for k, v in IntermediateLayerGetter(net, {"0": "a"})(x).items()})
    print([str(schedule(wait=1, warmup=1, active=2, repeat=1)(i)) for i in range(6)])
    with torch.backends.cudnn.flags(enabled=False, benchmark=True):
        print(torch.backends.cudnn.benchmark)
    for off in (1e-6, 1e-3):
        try:
            print(assert_close([x], [x + off]))
        except AssertionError as error:
            print("Mismatched elements" in str(error))
    table = WeakTensorKeyDictionary()
    table[x], table[w] = 1, 2
    del w
    print(len(table), table[x], list(IterableWrapper([1, 2])), torch.jit.isinstance([x], list[int]))
    print(
        torch.complex32, torch.sparse_csr, torch.strided, torch.quint8.itemsize, x.to_dense() is x
    )
    future = torch.futures.Future()
    then = future.then(lambda f: f.value() + 1)
    future.set_result(1)
    print(then.wait(), torch.overrides.is_tensor_method_or_property(torch.Tensor.add))
