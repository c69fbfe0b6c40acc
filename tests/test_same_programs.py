"""Short programs of one line each: PyTorch and pyframe give the same, or the same kind of error."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from compared import alike, plain

import pyframe as pf

PROGRAMS = """
x=T.ones(2,dtype=T.bfloat16)[:1]; x*1.01
x=T.zeros(2,dtype=T.bfloat16).add_(1.01); x/3
x=T.tensor([1,2],dtype=T.uint8); x+=300; x
x=T.tensor([1,2],dtype=T.int8); x*200
x=T.tensor([255],dtype=T.uint8); (x==-1, x>-1, x-1)
x=T.tensor([1,2],dtype=T.int32); x+2**31
x=T.tensor([True]); x-x
x=T.tensor([True]); -x
x=T.tensor([True]); x//x
x=T.tensor([1.]); x<<1
x=T.tensor([1j]); x<x
x=T.tensor([1j]); x.max()
x=T.full((70000,),1.,dtype=T.float16); x.mean()
x=T.full((300,),300.,dtype=T.float16); (x.norm(), x.var(), x.std(), T.var_mean(x), T.std_mean(x))
x=T.full((300,),300.,dtype=T.float16); (x.norm(3), x.norm(1))
x=T.arange(6); x.copy_(3.5)
x=T.arange(6); x[0]=1j
x=T.arange(6); x[0]=float('nan')
x=T.arange(6); x[0]=2.9; x
x=T.arange(6); x[[0]]=2.5; x
x=T.arange(6,dtype=T.uint8); x[0]=-1; x
x=T.zeros(2,3); x[x==0]=T.arange(6)
x=T.zeros(2,3); x[[0]]=T.arange(3)
x=T.zeros(2,3); x[0]=T.arange(3); x
x=T.arange(6); x.masked_fill_(x>2,1.5)
x=T.arange(6); x.index_fill_(0,T.tensor([1]),2.5)
x=T.arange(24).reshape(2,3,4); x[[[0,1],[1,2]]]
x=T.arange(24).reshape(2,3,4); x[[slice(0,1),1]]
x=T.arange(24).reshape(2,3,4); x[[None,1]]
x=T.arange(24).reshape(2,3,4); x[T.tensor([1,0],dtype=T.int16)]
x=T.arange(24).reshape(2,3,4); x[T.tensor([0,1,1]),T.tensor([0,2])]
T.full((2,),-1,dtype=T.uint8)
T.full((2,),300,dtype=T.uint8)
T.tensor([300],dtype=T.uint8)
T.tensor([-1],dtype=T.uint8)
T.tensor(128,dtype=T.int8)
T.tensor([1e10],dtype=T.int32)
T.tensor([float('nan')],dtype=T.int32)
T.tensor([2**63])
T.tensor([2**63],dtype=T.uint64)
T.tensor([2**70],dtype=T.float64)
T.tensor([1j],dtype=T.float32)
T.tensor('a')
T.tensor(b'a')
T.tensor([None])
T.tensor({1,2})
T.tensor([1.],dtype=float), T.zeros(2,dtype=int), T.ones(2).sum(dtype=float), T.ones(1,dtype=bool)
T.tensor([1.],dtype='float32')
T.zeros(2,dtype=np.float32)
T.sum(T.ones(2,3),axis=0,keepdims=True), T.ones(2,3).sum(axis=1), T.sum(x=T.ones(2))
T.cat([T.ones(2,3),T.ones(2,4)],axis=-1)
T.ones(2).mT
T.ones(()).mT
'a' in T.arange(3)
[1] in T.arange(3)
x=T.ones(3); y=x[1:]; a,b=copy.deepcopy([x,y]); b.add_(1); (a, x)
x=T.arange(6.).view(2,3).t(); y=copy.deepcopy(x); (y.stride(), y)
x=T.ones(2); x.foo=[3]; (copy.copy(x).foo, copy.deepcopy(x).foo, pickle.loads(pickle.dumps(x)).foo)
x=T.ones(2); copy.copy(x).add_(1); x
x=T.ones(2,requires_grad=True)*2; (copy.copy(x).requires_grad, copy.copy(x).is_leaf)
x=T.ones(2,requires_grad=True)*2; pickle.loads(pickle.dumps(x)).requires_grad
[pickle.loads(pickle.dumps(T.ones(2).to(d))) for d in (T.bfloat16,T.bool,T.int8,T.complex64)]
np.float32(2)*T.tensor([1]), np.float64(2)*T.tensor([1.]), T.tensor([1])+np.array([1])
np.float32(2)*T.ones(2,requires_grad=True)
x=T.ones(3,requires_grad=True); y=x*2; y.pow_(2); T.autograd.grad(y.sum(),x)[0]
x=T.ones(3,requires_grad=True); y=x*2; y[1:].mul_(y.sum()); T.autograd.grad((y*y).sum(),x)[0]
x=T.ones(3,requires_grad=True); G=T.autograd.grad; G(G((x+x).pow_(3).sum(),x,None,1,1)[0].sum(),x)
x=T.ones(3,requires_grad=True); y=x*.3; y.sin_().cos_().pow_(3); T.autograd.grad(y.sum(),x)[0]
x=T.zeros(2,3,4).shape; [str(s).split('.')[1] for s in (x[1:], x+(1,), x*2)] + [x[1:].numel()]
"""


def _run(program: str, T: Any) -> Any:
    *statements, result = program.split(";")
    scope: dict[str, Any] = {"T": T, "np": np, "copy": copy, "pickle": pickle}
    with warnings.catch_warnings(action="ignore"):
        try:
            if "=" in result and "==" not in result and "(" not in result.split("=")[0]:
                statements, result = [*statements, result], "None"
            exec("\n".join(s.strip() for s in statements), scope)
            return plain(eval(result.strip(), scope))
        except Exception as e:
            return type(e)


@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    alike(_run(program, pf), _run(program, torch), 1e-6, 5e-7)
