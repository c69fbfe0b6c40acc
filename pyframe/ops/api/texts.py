"""What texts of public functions share: each argument is explained once, and what is made in a loop
has its text and its example in a row. Pages do without."""

from __future__ import annotations

import inspect
import re
import types
from typing import Any

# name: what an argument is, in all functions but those that say it themselves; `family.name`, or
# `function.name`, is for one module's functions, or one function; `Base.name` is for classes that
# are derived from that one.
_ARGUMENTS = """
Adam.amsgrad: whether v̂ is of the largest v so far (arXiv 1904.09237).
Adam.betas: b1 and b2, from 0 to below 1; both floats, or both tensors of one element.
LRScheduler.last_epoch: the epoch to go on after; -1 begins anew.
LRScheduler.optimizer: whose groups' rates are set.
FieldModule.inplace: whether the input is overwritten with the result.
Optimizer.betas: b1 and b2, from 0 to below 1.
Optimizer.capturable Optimizer.foreach Optimizer.fused: it changes nothing.
Optimizer.decoupled_weight_decay: whether parameters shrink by lr * weight_decay instead.
Optimizer.differentiable: whether autograd follows the step.
Optimizer.eps: what keeps divisors above 0.
Optimizer.lr: the learning rate, at least 0; a number, or a tensor of one element.
Optimizer.maximize: whether to go up the gradient.
Optimizer.params: parameters, or dicts {"params": …, "lr": …} of groups with options of their own.
Optimizer.weight_decay: this times a parameter is added to its gradient (an L2 penalty).
_Averaged.average: of C classes "macro" for the mean over those that occur in targets or outputs,
  "weighted" for the mean weighted by how often they are targets, "micro" for all counts
  together, None for all of them, (C,).
_Counts.options: task, threshold, probabilities and ignore_index, as Accuracy's.
_Cycle.cycle_momentum: whether the momentum, of Adam b1, goes down from max_momentum to
  base_momentum as the lr goes up.
_Lambdas.lr_lambda: a function of t, or a list with one for each group. Functions proper are not in
  the state_dict, objects that can be called are.
_Loss.reduce _Loss.size_average: a deprecated name of what `reduction` says.
_Loss.reduction: 'mean', 'sum', or 'none' for each element's own loss.
_PadNd.padding: how many, an int or two for each dim, the last one's first: (left, right, top,
  bottom, front, back); negative numbers cut elements off.
_Table.max_norm: rows that are longer are shortened to this, in the table, when they are looked up;
  None shortens none.
_Table.norm_type: the exponent of the norm that measures them.
_Table.scale_grad_by_freq: whether a row's gradient is divided by how often the input names it.
_Table.sparse: it changes nothing; gradients are dense.
LRScheduler.eta_min: the least lr.
_Factor.gamma: what the lr is multiplied by.
_Factor.total_iters: after how many steps it changes no more.
_FractionalMaxPoolNd._random_samples: where windows begin, numbers of [0, 1) for each sample and
  channel, (N, C, dims); None draws them.
_Table._weight: the table itself, of that shape; None draws one.
_Table.num_embeddings: the number of rows; ints are from 0 to num_embeddings - 1.
_Table.embedding_dim: the length of each row.
RNNCellBase.input_size RNNCellBase.hidden_size: the number of features of an input, or of a state.
RNNCellBase.bias: whether there are bias_ih and bias_hh.
RNNBase.args RNNBase.kwargs: the arguments above, by place or by name.
_random_samples: Numbers of [0, 1) in place of drawn ones.
_stacklevel: Allowed, and not needed.
A: Matrices, in the last two dims.
norm.A tensorinv.A tensorsolve.A tensorsolve.B: A tensor.
windows.a: The coefficients.
abs: The distances from 0.
align_corners: Whether the outermost points are the corner pixels' centres, not their edges.
activation.alpha: What it falls to on the left is -alpha.
alpha: A number that multiplies what is added.
local_response_norm.alpha: A factor.
windows.alpha: The first coefficient.
anchor: Vectors (N, D).
angle: The angles, in radians.
append: What stands behind.
approximate: "none" or "tanh".
einsum.args: The equation, then tensors.
methods.args: Allowed, and not needed.
recurrent.args: As is said above.
to.args: A dtype, a device, a tensor, or two of the first.
as_tuple: Whether to give a tensor for each dim.
assume_unique: Allowed, and not needed.
atol: An absolute tolerance.
axes: The dims, one by one or as the list `dims`.
axis0: A dim.
axis1: Another dim.
B: Matrices, the right sides as columns.
b: Matrices, the right sides as columns.
b_hh: (gates * H,), or None.
b_ih: (gates * H,), or None.
base: What is raised to powers.
batch1: Matrices (b, n, k).
batch2: Matrices (b, k, m).
activation.beta: How sharp the bend is.
beta: A number that multiplies `input`.
hamming_window.beta: The second coefficient.
local_response_norm.beta: The exponent.
smooth_l1_loss.beta: Where the parabola ends.
windows.beta: How narrow the peak is.
bias: What is added, or None.
spatial.bias: (O,), or None.
bins: How many, or a tensor of edges, or several of either.
blank: The class that stands for none.
C: How many channels.
callable: A function of numbers.
ceil_mode: Whether a window may reach over the end.
windows.center: Where the peak is.
check_errors: Whether to raise LinAlgError.
col: How many columns.
correction: What is subtracted from the number of elements.
count_include_pad: Whether padding counts as elements.
counts: How often along each dim, one by one or as the list `dims`.
create_graph: Whether gradients have gradients.
cudnn_enable: Allowed, and not needed.
cudnn_enabled: Allowed, and not needed.
d: The spacing of samples.
new.data: Sizes, or values.
segment_reduce.data: The elements.
delta: Where the parabola ends.
density: Whether the histogram has the integral 1.
descending: Whether the largest comes first.
destination: Where each goes.
device: The device of the result; the default device by default.
gpu.device: A number, a name or a device; by default the current GPU.
diagonal: Which diagonal: 0 is the main one, above it they count up.
dilation: The step between the elements of a window.
argmax.dim argmin.dim prod.dim aminmax.dim: The dim; of all elements by default.
dim: The dim; a negative one counts from the end.
fft.dim: The dim, or dims, negative ones from the end.
functions.dim: The dim, or several; all by default.
logsumexp.dim: The dim, or several.
masked.dim: The dim, or several; all by default.
matrix_norm.dim: The two dims of the matrices.
norm_except_dim.dim: The dim that stays.
norms.dim: The dim, or several; all by default.
reductions.dim: The dim, or several; all by default.
size.dim: The dim; by default all sizes are given.
softmax.dim log_softmax.dim softmin.dim cumsum.dim cumprod.dim median.dim: The dim; a negative
  one counts from the end.
squeeze.dim: A dim, or several; all of size 1 by default.
stride.dim: The dim; by default all strides are given.
dim0: A dim.
dim1: A dim.
dim2: Another dim.
dimension: The dim.
dims: The dims, one by one or as a list.
distance_function: A function of two tensors.
divisor_override: What a window's sum is divided by.
downscale_factor: r.
driver: The name of a LAPACK driver, else the best.
dropout_p: The probability that a weight is dropped.
distributed.async_op: Whether to return a Work at once, whose `wait()` returns when it is over.
distributed.dst: The process that gets it, counted among all; by default the group's first one.
distributed.group: The processes that take part, as `new_group` gives them; None for all.
distributed.group_dst distributed.group_peer distributed.group_src: The same process, as it is
  counted in the group.
distributed.op: How values become one.
distributed.pg_options distributed.device_id: Nothing is done with it.
distributed.src: The process that has it, counted among all; by default the group's first one.
distributed.tag: An int that tells two processes' messages apart: both give the same.
array_api.arrays: Tensors; they take their common dtype where they are joined.
array_api.arrays_and_dtypes: Tensors, dtypes, and numbers of Python.
array_api.axes: The axes; all by default.
permute_dims.axes: The axes in their new order.
tensordot.axes: How many, or the axes of `x1` and those of `x2`.
array_api.axis: The axis; a negative one counts from the end.
all.axis any.axis count_nonzero.axis flip.axis: The axis, or several; None for all.
max.axis mean.axis min.axis prod.axis: The axis, or several; None for all.
std.axis sum.axis var.axis vector_norm.axis: The axis, or several; None for all.
squeeze.axis: The axis, or several, of size 1.
concat.axis repeat.axis: The axis; None flattens what is given.
argmax.axis argmin.axis: The axis; None for the place among all elements, in a row.
take.axis cumulative_sum.axis cumulative_prod.axis: The axis; needed unless there is one alone.
expand_dims.axis: Where it stands.
roll.axis: The axis, or several; None moves through all elements, in a row.
array_api.copy: True copies, None only where it must be, False never: ValueError where it must.
astype.copy: Whether to copy where nothing changes.
array_api.correction: What is subtracted from the number of elements.
array_api.device: Where the result lies; None is where its operand does, or the default device.
from_dlpack.x: What has `__dlpack__`.
astype.dtype isdtype.dtype: The dtype.
can_cast.from_: A dtype, or a tensor of it.
can_cast.to: The dtype that it becomes.
full_matrices: Whether U and Vh are square.
array_api.indexing: "xy", or "ij" (rows first).
array_api.keepdims: Whether reduced axes stay, with size 1.
isdtype.kind: The name of a kind, a dtype, or a tuple of these; ValueError for another name.
array_api.n_rows array_api.n_cols: How many rows and columns; None for as many as rows.
array_api.obj: What it is made of.
qr.mode: "reduced", or "complete" for a square Q.
array_api.shape: The sizes, a tuple, or an int.
array_api.shift: How many places, an int, or one for each axis.
array_api.side: Whether it goes to the "left" or to the "right" of equal ones.
array_api.repetitions: How often along each axis, a tuple.
array_api.type: A dtype, or a tensor of it.
array_api.x1 array_api.x2: Tensors; one may be a number in functions of elements.
where.condition: Bools.
datasets.allow_empty: Whether a class may have no files; FileNotFoundError otherwise.
datasets.class_to_idx: The numbers of the classes by their names.
datasets.directory: The folder.
datasets.download: Whether to fetch files that are missing.
datasets.is_valid_file: A function of a path that says whether the file counts.
datasets.loader: A function of a path that reads a sample.
datasets.root: The folder where the files lie.
datasets.target_transform: A function of the target; None leaves it as it is.
datasets.train: Whether samples to train on are meant, else those to test with.
datasets.transform: A function of the image; None leaves it as it is.
models.block: The class of the blocks; None for the model's own.
models.channels: The channels of each level.
models.dropout: The probability of a zero before the last layers, in training.
models.in_channels: The channels of an image.
models.last_channel: The channels before the last layer.
models.name: A name that `list_models` gives, in any case; ValueError for others.
models.norm_layer: What makes a norm of a number of channels; None for the model's own.
models.num_classes: The number of classes, of which logits are given.
models.x: Images.
ops.aligned: Whether boxes move by half a pixel, to where pixels have their middle.
ops.boxes ops.boxes1 ops.boxes2: Boxes, the last dim, in the form xyxy where no other is said.
ops.eps: A small number that keeps from dividing by 0.
ops.fmt ops.in_fmt ops.out_fmt: "xyxy", "xywh", or "cxcywh": the middle and the size.
ops.iou_threshold: The largest IoU of two boxes that stay.
ops.min_size: The least width and height.
ops.mode: "row" decides for each example, "batch" for all at once.
ops.output_size: How many bins: (height, width), or an int for both.
ops.p: The probability.
ops.reduction: "mean", "sum", or "none": the loss of each.
ops.sampling_ratio: A bin is the mean of its square of samples; -1: one for each pixel spanned.
ops.scores: How good each box is, (N,).
ops.spatial_scale: The size of the maps, as a part of the image's.
ops.training: Whether it is training, else nothing is dropped.
ops.x: Maps (N, C, H, W).
transforms.antialias: Whether a Tensor is smoothed before it shrinks.
transforms.brightness transforms.contrast transforms.hue transforms.saturation: Bounds, (least,
  most).
transforms.center: What stays where it is, (x, y); None is the middle.
transforms.clip: Whether results stay within black and white.
transforms.expand: Whether it becomes as large as what is turned, else it keeps its size.
transforms.fill: What is put where the image has nothing: a number, or one for each channel.
transforms.image transforms.img transforms.inpt transforms.pic: A Tensor (..., C, H, W), or a PIL
  image.
transforms.inplace: Whether the Tensor is overwritten.
transforms.inputs: A sample, or its parts.
transforms.interpolation: An InterpolationMode, its name, or Pillow's int for it.
transforms.labels_getter: A function of the sample that gives its labels; "default" finds them, None
  for none.
transforms.max_size: The most that the longer side may be.
transforms.mean transforms.std: A number for each channel.
transforms.num_magnitude_bins: How many magnitudes there are.
transforms.num_output_channels: 1 or 3; ValueError otherwise.
transforms.output_size transforms.size: (height, width), or a number for both.
transforms.p: The probability, from 0 to 1.
transforms.padding_mode: "constant", "edge", "reflect" or "symmetric".
transforms.params: What was drawn.
transforms.top transforms.left transforms.height transforms.width: Of the part, in pixels.
transforms.transforms: A list of them.
transforms.vertical_flip: Whether that twin is upside down, else it has left and right exchanged.
dtype: The dtype of the result; by default it follows from what is given.
masked.dtype: What the input is converted to first.
reductions.dtype: What the input is converted to first.
scan.dtype: What the input is converted to first.
edge_order: 1 or 2, of the difference at the edges.
elements: A tensor or a number.
end: The last number, or the bound.
slice_scatter.end: The index to stop before.
end_dim: The last dim to join.
eps: A small number that keeps from dividing by 0.
equal_nan: Whether NaN is close to NaN.
exponent: A number or a tensor.
fill_value: A number.
from_: The lowest number.
generator: The `Generator` to draw from; the default one by default.
gradient: The gradient of this tensor; needed unless it has one element.
grid: Where to look, in -1 to 1.
group: How many groups.
groups: How many groups of channels see each other only.
hermitian: Whether the matrices are Hermitian.
high: The int to stay below.
hx: The state before.
HxW: How many positions.
ignore_index: A class of targets that count nowhere.
imag: Another of the same dtype.
implicit: Allowed, and not needed.
include_last_offset: Whether the last of `offsets` is where the last bag ends.
include_self: Whether what is there already counts.
ind: How many of the first dims are one side of the map.
index: Ints: the positions.
put.index: Flat int positions.
select.index: Which one, an int.
indexing: "ij" (rows first, by default) or "xy".
arrange.indices: A list of where to cut.
indices: Ints.
segment_reduce.indices: None.
indices_or_sections: How many parts, or a list of where to cut.
inplace: Whether to overwrite the input.
bilinear.input1: (*, a).
input1: A tensor.
bilinear.input2: (*, b).
input2: Another of the same size.
input_lengths: How much of T counts, (N,).
input_mask: What counts of `input`.
inputs: The leaves that get one; all by default.
interpolation: Between two elements: "linear", "lower", "higher", "nearest" or "midpoint".
interpolation_mode: 0 linear, 1 nearest, 2 cubic.
invert: Whether to ask for the opposite.
kthvalue.k: The place, from 1.
local_response_norm.k: What is added.
rot90.k: How many quarter turns.
topk.k: How many.
k_proj_weight: (E, size of a key).
keepdim: Whether reduced dims stay, with size 1.
kernel_size: The size of a window: an int, or one for each dim.
key: (…, S, E).
kw: `dtype`, `device`, `requires_grad`; `layout`, `memory_format`, `pin_memory` are PyTorch's.
new_tensor.kw: `dtype`, `device` and `requires_grad`, as of `tensor`.
recurrent.kwargs: Those by name.
to.kwargs: `dtype`, `device`, `copy`, `memory_format`, `non_blocking`.
L: A factor, as `cholesky` gives it.
label_smoothing: How much of the target is shared by all classes, 0 to 1.
lambd: The bound, at least 0.
largest: Whether the largest are wanted, else the smallest.
layout: `pf.strided`, if given.
LD: L and D in one, as `ldl_factor` gives them.
left: Whether X stands on the right of A.
narrow.length: How many.
linear_bias: Its bias.
linear_weight: The weight of the linear map.
log_probs: Log-probabilities (T, N, C).
logits: Log-probabilities, which need not be normalised.
low: The lowest int.
lower: The least slope.
LU: L and U in one, as `lu_factor` gives them.
LU_data: L and U in one, as `lu` gives them.
LU_pivots: The int32 pivots beside it.
m: How many columns; n by default.
spectral.M: What is subtracted from A first; None for nothing.
windows.M: How many points.
margin: How far apart is enough.
mask: A bool tensor that broadcasts to the input: what counts; None for all.
mat: A matrix (n, m).
mat1: A matrix (n, k).
mat2: A matrix (k, m), in `bmm` (b, k, m).
matrices: Matrices whose shapes fit.
max: The upper bound.
max_norm: The largest norm of a row; larger ones are shortened, in place.
max_val: The upper bound.
mean: The mean, a number or a tensor.
median: The middle.
modules.device: where parameters and buffers are made; None is the default device.
modules.dtype: the dtype of parameters and float buffers; None is the default dtype.
memory_format: In which order the dims lie in memory: `pf.contiguous_format`,
  `pf.channels_last` or `pf.preserve_format`.
min: The lower bound.
min_val: The lower bound.
minlength: The least length of the result.
embedding_bag.mode: "sum", "mean" or "max".
hash_tensor.mode: 0: xor.
linalg_qr.mode: "reduced", "complete" or "r".
resample.mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or
  "area".
momentum: How much of a running value is new.
eye.n: How many rows.
fft.n array_api.n: The length of the result, for which the input is cut or filled with zeros.
fftfreq.n rfftfreq.n: The length of the transform.
matrix_power.n diff.n: How often, an int.
native_group_norm.N: The size of the batch.
polygamma.n polygamma_method.n: Which derivative, an int.
randperm.n: How many.
special.n: The degree, ints or floats.
vander.N: How many powers; n by default.
nan: What NaN becomes; 0 by default.
negative: Vectors that shall be far.
negative_slope: The slope below 0.
neginf: What -infinity becomes; the lowest number by default.
niter: How many steps of power iteration.
non_blocking: Allowed, and not needed.
fft.norm array_api.norm: What to divide by: "backward" (by default; n, in an inverse), "forward" or
  "ortho" (√n in both).
norm_type: The order of the norm.
normalized_shape: The sizes of those dims.
num_groups: How many groups.
num_heads: Into how many parts E is cut.
num_samples: How many to draw.
offset: Which diagonal: 0 is the main one, above it they count up.
offsets: Where each bag starts, (bags,), for a vector of ints.
operands: Tensors, and numbers.
ord: The order of the norm.
order_: The dims in their new order, one by one or as the list `dims`.
other: The other tensor.
promotion.other: A tensor or a number; both are broadcast, and promoted to one dtype.
other_mask: What counts of `other`.
out: A tensor for the result (of several a tuple), which is resized to fit.
out_int32: Whether indices are int32, else int64.
out_proj_bias: (E,), or None.
out_proj_weight: (E, E).
output_padding: Rows at one end that no window reaches.
output_ratio: The size of the result, as a part of the input's.
output_size: The size of the result, an int or one for each dim; None keeps that of the input.
cond.p: The norm, as `ord` of `matrix_norm`.
dropouts.p: The probability of a zero.
multi_margin_loss.p: 1 or 2.
mvlgamma.p: The dimension, an int.
p: The order of the norm.
toplevel.p: The probability of a zero.
padding: Zeros (or what counts nowhere) at both sides of each dim.
padding_mode: What lies outside: 0 zeros, 1 the border, 2 the mirrored image.
pivot: Must be True: RuntimeError without it.
pivots: The int32 pivots beside it.
posinf: What infinity becomes; the largest number by default.
positive: Vectors that shall be near.
pow: The order of the norm.
prepend: What stands before.
q: How many singular values.
quantile.q nanquantile.q: A float in 0 to 1, or a vector of them.
q_proj_weight: (E, E), with `use_separate_proj_weight`.
query: (…, L, E).
range: The lowest and the highest edge.
rcond: Singular values below this part of the largest count as 0.
real: A tensor of float32 or float64.
recompute_scale_factor: Whether to follow the size that comes out, rather than the factor.
loss.reduce: An older form of `reduction`, as `size_average`.
reduce: How to join.
reduction: "mean", "sum", or "none": the loss of each element.
repeats: How often, an int or a tensor.
replacement: Whether one may be drawn again.
requires_grad: Whether gradients of the result are wanted.
requires_grad_.requires_grad: False switches it off.
retain_graph: Whether to keep what was saved, for another backward.
return_counts: Whether to count them.
return_indices: Whether to give the indices too.
return_inverse: Whether to tell which element each is.
right: Whether an equal one lies to the left.
rounding_mode: None, "floor" or "trunc".
row: How many rows.
rtol: A tolerance relative to the other number.
spectral.rtol: A tolerance relative to the largest singular value.
running_mean: (C,), or None: updated in training.
running_var: (C,), or None: updated in training.
fft.s array_api.s: The sizes of the result in `dim`.
s: A number.
scale_factor: How many times as large, a number or one for each dim.
scale_grad_by_freq: Whether a gradient is divided by how often its row is asked for.
sections: How many parts.
shape: The new shape, as a list.
view.shape: The sizes, one by one or as the list `size`.
view_copy.shape: The sizes, one by one or as the list `size`.
shapes: Shapes.
shifts: How many places, an int or one for each dim.
side: "left" or "right", another form of `right`.
sigma: The scale.
affine_grid_generator.size: (N, C, *spatial).
broadcast_to.size randint.size: The shape.
resample.size: The size of the result, an int or one for each dim.
size: The same sizes as a list.
strided.size: The shape.
unfold.size: The length of a window.
size_average: An older form of `reduction`, as `reduce`.
sizes: The sizes of the dims, one by one or as a list.
unflatten.sizes: The sizes that it is split into.
some: Whether to leave out columns that nothing needs.
sorted: Whether they must be in order; they always are.
sorted_sequence: What is in order along its last dim.
sorter: The indices that sort it, if it is not in order.
movedim.source moveaxis.source: A dim, or several.
source: A tensor of what is put there.
sparse: Allowed, and not needed: gradients are dense.
sparse_grad: Allowed, and not needed.
split_size_or_sections: The size of a part, or a list of sizes.
split_sizes: A list of sizes.
src: A tensor of what is put there.
stable: Whether equal elements keep their order; they always do.
narrow.start: The first index.
slice_scatter.start: The first index.
start: The first number.
start_dim: The first dim to join.
std: The standard deviation, a number or a tensor.
windows.std: The standard deviation, in points.
step: The step.
unfold.step: How far windows are apart.
strided.storage_offset: Where the first element lies; by default where it does now.
stride: The step between windows, or one for each dim; of pooling by default their size.
strided.stride: The strides, in elements.
swap: Whether the nearer one of both distances from `negative` counts.
sym: Whether it is symmetric, else one period of a longer row.
loss.target: What is wanted, on the device of the input.
target_lengths: How much of S counts, (N,).
targets: Classes (N, S), or all in a row.
tau: The factors of reflectors.
windows.tau: How fast it falls.
arrange.tensor: The tensor to split.
tensor: The other tensor.
tensor1: The first factor, or the numerator.
tensor2: The second factor, or the denominator.
multi_dot.tensors: A list of them.
tensors: The tensors, one by one or as a list.
theta: Maps (N, 2, 3) or (N, 3, 4).
threshold: The bound.
to: The number to stay below.
tol: An absolute tolerance, the older form of `atol`.
train: Whether it is training.
training: Whether it is training, else nothing is dropped, drawn or updated.
transpose: Whether to take the transpose.
unbiased: An older form of `correction`: 1 or 0.
unitriangular: Whether the diagonal counts as ones.
unpack_data: Whether L and U are wanted.
unpack_pivots: Whether P is wanted.
UPLO: "L" or "U", the triangle.
activation.upper: The largest slope.
upper: Whether the upper triangle is meant.
upscale_factor: r.
use_input_stats: Whether statistics are the input's, else the running ones.
v: A tensor.
v_proj_weight: (E, size of a value).
activation.value: What stands in the place of others.
attention.value: (…, S, Ev).
fill_.value: A number or a 0-d tensor.
value: A number.
vec: A vector (m,).
vec1: A vector (n,).
vec2: A vector (m,).
w_hh: Weights of the state, (gates * H, H).
w_ih: Weights of the input, (gates * H, in).
bilinear.weight: (out, a, b).
bins.weight: How much each counts.
embedding_bag.weight: (V, D).
loss.weight: A factor for each class, (C,), or what broadcasts to the input.
normalization.weight: A factor, or None.
spatial.weight: The filters, of the shape above.
toplevel.weight: A factor, or None.
weights: A weight for each, float or int.
window_length: How many points.
with_replacement: Whether an element may come again.
vander.x linalg_vander.x: A vector.
x: A tensor.
x1: A tensor.
x2: Another of the same size.
trapezoid.y cumulative_trapezoid.y: The heights.
y: A tensor.
zero_infinity: Whether an infinite loss counts as 0.
"""
# @name of a function, or family.name: what an elementwise op computes, if none says it; an example.
_ROWS = """
@abs
|x|; of a complex number its distance from 0.
>>> pf.abs(pf.tensor([-1.5, 2.0]))
tensor([1.5000, 2.0000])
@acos
The angle in 0 to π whose cosine is x; NaN outside -1 to 1.
>>> pf.acos(pf.tensor([1.0, 0.0]))
tensor([0.0000, 1.5708])
@acosh
The number y >= 0 with cosh(y) = x; NaN below 1.
>>> pf.acosh(pf.tensor([1.0, 2.0]))
tensor([0.0000, 1.3170])
@asin
The angle in -π/2 to π/2 whose sine is x; NaN outside -1 to 1.
>>> pf.asin(pf.tensor([0.0, 1.0]))
tensor([0.0000, 1.5708])
@asinh
The number whose hyperbolic sine is x: log(x + √(x² + 1)).
>>> pf.asinh(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.8814])
@atan
The angle in -π/2 to π/2 whose tangent is x.
>>> pf.atan(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.7854])
@atan2
The angle in -π to π of the point (other, input), by the signs of both.
>>> pf.atan2(pf.tensor([1.0, -1.0]), pf.tensor([0.0, -1.0]))
tensor([ 1.5708, -2.3562])
@atanh
The number whose hyperbolic tangent is x: log((1 + x) / (1 - x)) / 2; NaN outside -1 to 1.
>>> pf.atanh(pf.tensor([0.0, 0.5]))
tensor([0.0000, 0.5493])
@bitwise_and
The bits that are set in both ints; `and` of bools.
>>> pf.bitwise_and(pf.tensor([6, 5]), 3)
tensor([2, 1])
@bitwise_left_shift
The bits of ints moved up by `other`: input * 2^other.
>>> pf.bitwise_left_shift(pf.tensor([1, 3]), 2)
tensor([ 4, 12])
@bitwise_not
Each bit of ints turned over: -x - 1; `not` of bools.
>>> pf.bitwise_not(pf.tensor([0, 5]))
tensor([-1, -6])
@bitwise_or
The bits that are set in either int; `or` of bools.
>>> pf.bitwise_or(pf.tensor([6, 5]), 3)
tensor([7, 7])
@bitwise_right_shift
The bits of ints moved down by `other`: input / 2^other, rounded down.
>>> pf.bitwise_right_shift(pf.tensor([4, -3]), 1)
tensor([ 2, -2])
@bitwise_xor
The bits that are set in exactly one of two ints; of bools whether they differ.
>>> pf.bitwise_xor(pf.tensor([6, 5]), 3)
tensor([5, 6])
@ceil
The smallest whole number that is at least x.
>>> pf.ceil(pf.tensor([1.2, -1.2]))
tensor([ 2., -1.])
@clamp_max
The smaller of x and `max`; NaN stays. RuntimeError of a number that the ints' dtype does not hold.
>>> pf.clamp_max(pf.tensor([1.0, 3.0]), 2)
tensor([1., 2.])
@clamp_min
The larger of x and `min`; NaN stays. RuntimeError of a number that the ints' dtype does not hold.
>>> pf.clamp_min(pf.tensor([1.0, 3.0]), 2)
tensor([2., 3.])
@copysign
The size of `input` with the sign of `other`.
>>> pf.copysign(pf.tensor([1.0, 2.0]), pf.tensor([-1.0, 0.0]))
tensor([-1.,  2.])
@cos
The cosine of x, in radians.
>>> pf.cos(pf.tensor([0.0, 1.0]))
tensor([1.0000, 0.5403])
@cosh
The hyperbolic cosine (e^x + e^-x) / 2.
>>> pf.cosh(pf.tensor([0.0, 1.0]))
tensor([1.0000, 1.5431])
@digamma
The derivative of `lgamma`; -inf at 0 and NaN at negative whole numbers.
>>> pf.digamma(pf.tensor([1.0, 0.5]))
tensor([-0.5772, -1.9635])
@div
input / other; of ints floats.
>>> pf.true_divide(pf.tensor([1, 3]), 2)
tensor([0.5000, 1.5000])
@eq
Whether input = other; bool.
>>> pf.eq(pf.tensor([1, 2, 3]), 2)
tensor([False,  True, False])
@erf
The error function 2 / √π ∫ e^(-t²) dt from 0 to x.
>>> pf.erf(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.8427])
@erfc
1 - erf(x), exact for large x too.
>>> pf.erfc(pf.tensor([0.0, 1.0]))
tensor([1.0000, 0.1573])
@erfcx
e^(x²) erfc(x), which does not overflow for large x.
>>> pf.special.erfcx(pf.tensor([0.0, 10.0]))
tensor([1.0000, 0.0561])
@erfinv
The number whose `erf` is x; ±inf at ±1 and NaN beyond.
>>> pf.erfinv(pf.tensor([0.0, 0.5]))
tensor([0.0000, 0.4769])
@exp
e^x.
>>> pf.exp(pf.tensor([0.0, 1.0]))
tensor([1.0000, 2.7183])
@exp2
2^x.
>>> pf.exp2(pf.tensor([0.0, 3.0]))
tensor([1., 8.])
@expm1
e^x - 1, exact for small x too.
>>> pf.expm1(pf.tensor([0.0, 1e-8]))
tensor([0.0000e+00, 1.0000e-08])
@floor
The largest whole number that is at most x.
>>> pf.floor(pf.tensor([1.8, -1.2]))
tensor([ 1., -2.])
@floor_divide
input / other, rounded down. RuntimeError where an int is divided by 0; on the GPU when a value is
next read.
>>> pf.floor_divide(pf.tensor([7, -7]), 2)
tensor([ 3, -4])
@fmod
The rest of input / other rounded toward 0: it has the sign of `input`. RuntimeError where an int is
divided by 0; on the GPU when a value is next read.
>>> pf.fmod(pf.tensor([7, -7]), 3)
tensor([ 1, -1])
@gcd
The greatest common divisor of ints.
>>> pf.gcd(pf.tensor([6, 7]), pf.tensor([4, 3]))
tensor([2, 1])
@ge
Whether input >= other; bool.
>>> pf.ge(pf.tensor([1, 2, 3]), 2)
tensor([False,  True,  True])
@gt
Whether input > other; bool.
>>> pf.gt(pf.tensor([1, 2, 3]), 2)
tensor([False, False,  True])
@hypot
√(input² + other²), without overflow.
>>> pf.hypot(pf.tensor([3.0]), pf.tensor([4.0]))
tensor([5.])
@i0e
e^(-|x|) i0(x).
>>> pf.special.i0e(pf.tensor([0.0, 1.0]))
tensor([1.0000, 0.4658])
@i1e
e^(-|x|) i1(x).
>>> pf.special.i1e(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.2079])
@isinf
Whether x is ±infinite; bool.
>>> pf.isinf(pf.tensor([1.0, -pf.inf, pf.nan]))
tensor([False,  True, False])
@isnan
Whether x is NaN; bool.
>>> pf.isnan(pf.tensor([1.0, pf.nan]))
tensor([False,  True])
@le
Whether input <= other; bool.
>>> pf.le(pf.tensor([1, 2, 3]), 2)
tensor([ True,  True, False])
@lgamma
log(|Γ(x)|); Γ(n) = (n - 1)!.
>>> pf.lgamma(pf.tensor([0.5, 4.0]))
tensor([0.5724, 1.7918])
@log
The natural logarithm: -inf at 0, NaN below.
>>> pf.log(pf.tensor([1.0, 10.0]))
tensor([0.0000, 2.3026])
@log10
The logarithm to base 10: -inf at 0, NaN below.
>>> pf.log10(pf.tensor([2.0, 5.0]))
tensor([0.3010, 0.6990])
@log1p
log(1 + x), exact for small x too.
>>> pf.log1p(pf.tensor([0.0, 1e-8]))
tensor([0.0000e+00, 1.0000e-08])
@log2
The logarithm to base 2: -inf at 0, NaN below.
>>> pf.log2(pf.tensor([1.0, 8.0]))
tensor([0., 3.])
@logical_and
Whether both are nonzero; bool.
>>> pf.logical_and(pf.tensor([0, 2]), pf.tensor([1, 1]))
tensor([False,  True])
@logical_not
Whether x is 0; bool.
>>> pf.logical_not(pf.tensor([0, 2]))
tensor([ True, False])
@logical_or
Whether either is nonzero; bool.
>>> pf.logical_or(pf.tensor([0, 2]), pf.tensor([0, 1]))
tensor([False,  True])
@lt
Whether input < other; bool.
>>> pf.lt(pf.tensor([1, 2, 3]), 2)
tensor([ True, False, False])
@maximum
The larger of both; NaN where either is. At a tie each has half of the gradient.
>>> pf.maximum(pf.tensor([1, 4]), pf.tensor([3, 2]))
tensor([3, 4])
@minimum
The smaller of both; NaN where either is. At a tie each has half of the gradient.
>>> pf.minimum(pf.tensor([1, 4]), pf.tensor([3, 2]))
tensor([1, 2])
@mul
input * other.
>>> pf.mul(pf.tensor([1.0, 2.0]), 3)
tensor([3., 6.])
@ne
Whether input and other differ; bool.
>>> pf.ne(pf.tensor([1, 2, 3]), 2)
tensor([ True, False,  True])
@neg
-x. RuntimeError for bools.
>>> pf.neg(pf.tensor([1, -2]))
tensor([-1,  2])
@nextafter
The float that comes next on the way from `input` to `other`.
>>> pf.nextafter(pf.tensor([1.0]), pf.tensor([2.0])) - 1
tensor([1.1921e-07])
@ndtri
The number whose `ndtr` is x: the quantiles of the normal distribution.
>>> pf.special.ndtri(pf.tensor([0.5, 0.975]))
tensor([0.0000, 1.9600])
@pow
input to the power `exponent`. RuntimeError of an int to a negative power.
>>> pf.pow(pf.tensor([2.0, 3.0]), 2)
tensor([4., 9.])
@reciprocal
1 / x; of ints floats.
>>> pf.reciprocal(pf.tensor([2.0, 4.0]))
tensor([0.5000, 0.2500])
@relu
max(x, 0).
>>> pf.relu(pf.tensor([-1.0, 2.0]))
tensor([0., 2.])
@remainder
The rest of input / other rounded down: it has the sign of `other`. RuntimeError where an int is
divided by 0; on the GPU when a value is next read.
>>> pf.remainder(pf.tensor([7, -7]), 3)
tensor([1, 2])
@rsqrt
1 / √x.
>>> pf.rsqrt(pf.tensor([1.0, 4.0]))
tensor([1.0000, 0.5000])
@sigmoid
1 / (1 + e^-x).
>>> pf.sigmoid(pf.tensor([0.0, 2.0]))
tensor([0.5000, 0.8808])
@sign
-1, 0 or 1: the sign of x.
>>> pf.sign(pf.tensor([-3.0, 0.0, 2.0]))
tensor([-1.,  0.,  1.])
@signbit
Whether the sign of x is negative, that of -0.0 too; bool.
>>> pf.signbit(pf.tensor([-3.0, -0.0, 2.0]))
tensor([ True,  True, False])
@sin
The sine of x, in radians.
>>> pf.sin(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.8415])
@sinh
The hyperbolic sine (e^x - e^-x) / 2.
>>> pf.sinh(pf.tensor([0.0, 1.0]))
tensor([0.0000, 1.1752])
@sqrt
√x; NaN below 0.
>>> pf.sqrt(pf.tensor([4.0, 2.0]))
tensor([2.0000, 1.4142])
@square
x².
>>> pf.square(pf.tensor([3.0, -2.0]))
tensor([9., 4.])
@tan
The tangent of x, in radians.
>>> pf.tan(pf.tensor([0.0, 1.0]))
tensor([0.0000, 1.5574])
@tanh
The hyperbolic tangent (e^x - e^-x) / (e^x + e^-x).
>>> pf.tanh(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.7616])
@trunc
x without what stands after the point.
>>> pf.trunc(pf.tensor([1.8, -1.8]))
tensor([ 1., -1.])
@zeta
Hurwitz' zeta function Σ 1 / (k + other)^input over k from 0.
>>> pf.special.zeta(pf.tensor([2.0]), pf.tensor([1.0]))
tensor([1.6449])
@add
input + alpha * other.
>>> pf.add(pf.tensor([1, 2]), pf.tensor([10, 20]), alpha=2)
tensor([21, 42])
@sub
input - alpha * other. RuntimeError for bools.
>>> pf.sub(pf.tensor([1, 2]), pf.tensor([10, 20]), alpha=2)
tensor([-19, -38])
@addbmm
>>> pf.addbmm(pf.zeros(1, 1), pf.ones(2, 1, 3), pf.ones(2, 3, 1))
tensor([[6.]])
@addbmm_
>>> pf.zeros(1, 1).addbmm_(pf.ones(2, 1, 3), pf.ones(2, 3, 1))
tensor([[6.]])
@addcdiv
>>> pf.addcdiv(pf.tensor([1.0]), pf.tensor([6.0]), pf.tensor([3.0]), value=0.5)
tensor([2.])
@addcmul
>>> pf.addcmul(pf.tensor([1.0]), pf.tensor([2.0]), pf.tensor([3.0]), value=0.5)
tensor([4.])
@addmm
>>> pf.addmm(pf.tensor([1.0]), pf.ones(1, 3), pf.ones(3, 2))
tensor([[4., 4.]])
@addmv
>>> pf.addmv(pf.tensor([1.0]), pf.ones(2, 3), pf.ones(3))
tensor([4., 4.])
@addr
>>> pf.addr(pf.zeros(2, 2), pf.tensor([1.0, 2.0]), pf.tensor([3.0, 4.0]))
tensor([[3., 4.],
        [6., 8.]])
@adjoint mH
>>> pf.adjoint(pf.tensor([[1j, 2]]))
tensor([[0.-1.j],
        [2.-0.j]])
@affine_grid_generator
>>> pf.affine_grid_generator(pf.eye(2, 3)[None], (1, 1, 1, 2), align_corners=True)
tensor([[[[-1.,  0.],
          [ 1.,  0.]]]])
@alias_copy
>>> pf.alias_copy(pf.tensor([1, 2]))
tensor([1, 2])
@all
>>> pf.all(pf.tensor([[1, 0], [2, 3]]), dim=1)
tensor([False,  True])
@allclose
>>> pf.allclose(pf.tensor([1.0]), pf.tensor([1.0 + 1e-7]))
True
@amax
>>> pf.amax(pf.tensor([[1, 5], [7, 3]]), dim=1)
tensor([5, 7])
@amin
>>> pf.amin(pf.tensor([[1, 5], [7, 3]]), dim=1)
tensor([1, 3])
@aminmax
>>> low, high = pf.aminmax(pf.tensor([3, 1, 2]))
>>> low, high
(tensor(1), tensor(3))
@angle
>>> pf.angle(pf.tensor([1j, -1]))
tensor([1.5708, 3.1416])
@any
>>> pf.any(pf.tensor([[1, 0], [0, 0]]), dim=1)
tensor([ True, False])
@arange
>>> pf.arange(4), pf.arange(1, 2, 0.5)
(tensor([0, 1, 2, 3]), tensor([1.0000, 1.5000]))
@argmax
>>> pf.argmax(pf.tensor([[1, 5], [7, 3]]), dim=1)
tensor([1, 0])
@argmin
>>> pf.argmin(pf.tensor([[1, 5], [7, 3]]), dim=1)
tensor([0, 1])
@argsort
>>> pf.argsort(pf.tensor([3, 1, 2]))
tensor([1, 2, 0])
@argwhere
>>> pf.argwhere(pf.tensor([0, 5, 6]))
tensor([[1],
        [2]])
@as_strided
>>> pf.as_strided(pf.arange(5), (2, 2), (2, 1), 1)
tensor([[1, 2],
        [3, 4]])
@as_strided_
>>> pf.arange(5).as_strided_((2, 2), (2, 1), 1)
tensor([[1, 2],
        [3, 4]])
@as_strided_copy
>>> pf.as_strided_copy(pf.arange(5), (2, 2), (2, 1), 1)
tensor([[1, 2],
        [3, 4]])
@as_strided_scatter
>>> pf.as_strided_scatter(pf.zeros(5), pf.ones(2), (2,), (3,))
tensor([1., 0., 0., 1., 0.])
@atleast_1d
A view with at least 1 dim; of several tensors a tuple.
>>> pf.atleast_1d(pf.tensor(3))
tensor([3])
@atleast_2d
A view with at least 2 dims, new ones first; of several tensors a tuple.
>>> pf.atleast_2d(pf.tensor([3, 4]))
tensor([[3, 4]])
@atleast_3d
A view with at least 3 dims, (1, n, 1) and (n, m, 1); of several tensors a tuple.
>>> pf.atleast_3d(pf.tensor([3, 4])).shape
pyframe.Size([1, 2, 1])
@baddbmm
>>> pf.baddbmm(pf.ones(1), pf.ones(2, 1, 3), pf.ones(2, 3, 1)).shape
pyframe.Size([2, 1, 1])
@bernoulli
>>> pf.bernoulli(pf.tensor([0.0, 1.0]))
tensor([0., 1.])
@bincount
>>> pf.bincount(pf.tensor([0, 1, 1, 3]))
tensor([1, 2, 0, 1])
@binomial
>>> pf.binomial(pf.tensor([5.0]), pf.tensor([1.0]))
tensor([5.])
@block_diag
>>> pf.block_diag(pf.ones(1, 2), pf.tensor([[2.0]]))
tensor([[1., 1., 0.],
        [0., 0., 2.]])
@bmm
>>> pf.bmm(pf.ones(4, 2, 3), pf.ones(4, 3, 5)).shape
pyframe.Size([4, 2, 5])
@broadcast_shapes
>>> pf.broadcast_shapes((3, 1), (2,))
pyframe.Size([3, 2])
@broadcast_tensors
>>> pf.broadcast_tensors(pf.tensor([[1], [2]]), pf.tensor([3, 4]))[0]
tensor([[1, 1],
        [2, 2]])
@broadcast_to
>>> pf.broadcast_to(pf.tensor([1, 2]), (2, 2))
tensor([[1, 2],
        [1, 2]])
@bucketize
>>> pf.bucketize(pf.tensor([1, 4]), pf.tensor([0, 3, 6]))
tensor([1, 2])
@cartesian_prod
>>> pf.cartesian_prod(pf.tensor([1, 2]), pf.tensor([3, 4]))
tensor([[1, 3],
        [1, 4],
        [2, 3],
        [2, 4]])
@cat
>>> pf.cat([pf.tensor([1, 2]), pf.tensor([3])])
tensor([1, 2, 3])
@cdist
>>> pf.cdist(pf.tensor([[0.0, 0.0]]), pf.tensor([[3.0, 4.0], [0.0, 1.0]]))
tensor([[5., 1.]])
@chain_matmul
>>> pf.chain_matmul(pf.ones(2, 3), pf.ones(3, 4), pf.ones(4, 1)).shape
pyframe.Size([2, 1])
@cholesky linalg_cholesky
>>> pf.linalg.cholesky(pf.tensor([[4.0, 2.0], [2.0, 5.0]]))
tensor([[2., 0.],
        [1., 2.]])
@cholesky_inverse
>>> pf.cholesky_inverse(pf.tensor([[2.0]]))
tensor([[0.2500]])
@cholesky_solve
>>> pf.cholesky_solve(pf.tensor([[8.0]]), pf.tensor([[2.0]]))
tensor([[2.]])
@chunk unsafe_chunk
>>> pf.chunk(pf.arange(5), 2)
(tensor([0, 1, 2]), tensor([3, 4]))
@clamp
>>> pf.clamp(pf.tensor([-2.0, 0.5, 3.0]), 0, 1)
tensor([0.0000, 0.5000, 1.0000])
@clone
>>> x = pf.tensor([1, 2]); y = x.clone().fill_(0); x
tensor([1, 2])
@column_stack
>>> pf.column_stack([pf.tensor([1, 2]), pf.tensor([3, 4])])
tensor([[1, 3],
        [2, 4]])
@combinations
>>> pf.combinations(pf.tensor([1, 2, 3]))
tensor([[1, 2],
        [1, 3],
        [2, 3]])
@complex
>>> pf.complex(pf.tensor([1.0]), pf.tensor([2.0]))
tensor([1.+2.j])
@conj
>>> pf.conj(pf.tensor([1 + 2j]))
tensor([1.-2.j])
@conj_physical
>>> pf.conj_physical(pf.tensor([1 + 2j]))
tensor([1.-2.j])
@constant_pad_nd
>>> pf.constant_pad_nd(pf.tensor([1, 2]), (1, 2), 9)
tensor([9, 1, 2, 9, 9])
@corrcoef
>>> pf.corrcoef(pf.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]))
tensor([[ 1.0000, -0.5000],
        [-0.5000,  1.0000]])
@count_nonzero
>>> pf.count_nonzero(pf.tensor([0, 3, 4]))
tensor(2)
@cov
>>> pf.cov(pf.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]))
tensor([[ 1.0000, -0.5000],
        [-0.5000,  1.0000]])
@cross linalg_cross
>>> pf.linalg.cross(pf.tensor([1, 0, 0]), pf.tensor([0, 1, 0]))
tensor([0, 0, 1])
@cummax
>>> pf.cummax(pf.tensor([1, 3, 2]), 0).values
tensor([1, 3, 3])
@cummin
>>> pf.cummin(pf.tensor([3, 1, 2]), 0).values
tensor([3, 1, 1])
@cumprod
>>> pf.cumprod(pf.tensor([1, 2, 3]), 0)
tensor([1, 2, 6])
@cumsum
>>> pf.cumsum(pf.tensor([1, 2, 3]), 0)
tensor([1, 3, 6])
@cumulative_trapezoid
>>> pf.cumulative_trapezoid(pf.tensor([1.0, 3.0, 5.0]))
tensor([2., 6.])
@deg2rad
>>> pf.deg2rad(pf.tensor([180.0]))
tensor([3.1416])
@det
>>> pf.linalg.det(pf.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor(-2.)
@detach_copy
>>> pf.detach_copy(pf.ones(2, requires_grad=True))
tensor([1., 1.])
@diag
>>> pf.diag(pf.tensor([1, 2]))
tensor([[1, 0],
        [0, 2]])
@diag_embed
>>> pf.diag_embed(pf.tensor([[1, 2]]))
tensor([[[1, 0],
         [0, 2]]])
@diagflat
>>> pf.diagflat(pf.tensor([[1, 2]]), 1)
tensor([[0, 1, 0],
        [0, 0, 2],
        [0, 0, 0]])
@diagonal linalg_diagonal
>>> pf.diagonal(pf.tensor([[1, 2], [3, 4]]))
tensor([1, 4])
@diagonal_scatter
>>> pf.diagonal_scatter(pf.zeros(2, 2), pf.ones(2))
tensor([[1., 0.],
        [0., 1.]])
@diff
>>> pf.diff(pf.tensor([1, 4, 9]))
tensor([3, 5])
@dist
>>> pf.dist(pf.tensor([0.0, 0.0]), pf.tensor([3.0, 4.0]))
tensor(5.)
@divide
>>> pf.div(pf.tensor([7.0, -7.0]), 2, rounding_mode="floor")
tensor([ 3., -4.])
@dot
>>> pf.dot(pf.tensor([1, 2]), pf.tensor([3, 4]))
tensor(11)
@dsplit
`tensor_split` along dim 2; a number of sections must divide it.
>>> [x.shape for x in pf.dsplit(pf.zeros(1, 2, 4), 2)]
[pyframe.Size([1, 2, 2]), pyframe.Size([1, 2, 2])]
@dstack
>>> pf.dstack([pf.tensor([1, 2]), pf.tensor([3, 4])])
tensor([[[1, 3],
         [2, 4]]])
@einsum
>>> pf.einsum("ij,j->i", pf.tensor([[1, 2], [3, 4]]), pf.tensor([1, 10]))
tensor([21, 43])
@empty_permuted
>>> pf.empty_permuted((2, 3), (1, 0)).stride()
(1, 2)
@empty_strided
>>> pf.empty_strided((2, 3), (1, 2)).stride()
(1, 2)
@equal
>>> pf.equal(pf.tensor([1, 2]), pf.tensor([1, 2]))
True
@expand expand_copy
>>> pf.expand_copy(pf.tensor([[1], [2]]), (2, 3))
tensor([[1, 1, 1],
        [2, 2, 2]])
@eye
>>> pf.eye(2)
tensor([[1., 0.],
        [0., 1.]])
@fill
>>> pf.fill(pf.zeros(2), 3)
tensor([3., 3.])
@fill_
>>> pf.zeros(2).fill_(3)
tensor([3., 3.])
@flatten
>>> pf.flatten(pf.zeros(2, 3, 4), 1).shape
pyframe.Size([2, 12])
@flip
>>> pf.flip(pf.tensor([[1, 2], [3, 4]]), (1,))
tensor([[2, 1],
        [4, 3]])
@fliplr
>>> pf.fliplr(pf.tensor([[1, 2], [3, 4]]))
tensor([[2, 1],
        [4, 3]])
@flipud
>>> pf.flipud(pf.tensor([[1, 2], [3, 4]]))
tensor([[3, 4],
        [1, 2]])
@float_power
>>> pf.float_power(pf.tensor([2, 3]), 2)
tensor([4., 9.], dtype=pyframe.float64)
@fmax
>>> pf.fmax(pf.tensor([1.0, pf.nan]), pf.tensor([3.0, 2.0]))
tensor([3., 2.])
@fmin
>>> pf.fmin(pf.tensor([1.0, pf.nan]), pf.tensor([3.0, 2.0]))
tensor([1., 2.])
@frac
>>> pf.frac(pf.tensor([1.25, -2.5]))
tensor([ 0.2500, -0.5000])
@frexp
>>> mantissa, exponent = pf.frexp(pf.tensor([6.0]))
>>> mantissa, exponent
(tensor([0.7500]), tensor([3], dtype=pyframe.int32))
@full
>>> pf.full((2, 2), 7)
tensor([[7, 7],
        [7, 7]])
@full_like
>>> pf.full_like(pf.zeros(2), 7)
tensor([7., 7.])
@gather
>>> pf.gather(pf.tensor([[1, 2], [3, 4]]), 1, pf.tensor([[1], [0]]))
tensor([[2],
        [3]])
@gelu
>>> pf.nn.functional.gelu(pf.tensor([-1.0, 2.0]))
tensor([-0.1587,  1.9545])
@geqrf
>>> a, tau = pf.geqrf(pf.tensor([[3.0], [4.0]]))
>>> a.shape, tau.shape
(pyframe.Size([2, 1]), pyframe.Size([1]))
@outer
>>> pf.outer(pf.tensor([1, 2]), pf.tensor([3, 4]))
tensor([[3, 4],
        [6, 8]])
@gradient
>>> pf.gradient(pf.tensor([1.0, 4.0, 9.0]))[0]
tensor([3., 4., 5.])
@grid_sampler
>>> image, grid = pf.tensor([[[[1.0, 3.0]]]]), pf.zeros(1, 1, 1, 2)
>>> pf.grid_sampler(image, grid, 0, 0, True)
tensor([[[[2.]]]])
@grid_sampler_2d
`grid_sampler` of (N, C, H, W) at (N, H', W', 2).
>>> image, grid = pf.tensor([[[[1.0, 3.0]]]]), pf.zeros(1, 1, 1, 2)
>>> pf.grid_sampler_2d(image, grid, 0, 0, True)
tensor([[[[2.]]]])
@grid_sampler_3d
`grid_sampler` of (N, C, D, H, W) at (N, D', H', W', 3).
>>> image, grid = pf.tensor([[[[[1.0, 3.0]]]]]), pf.zeros(1, 1, 1, 1, 3)
>>> pf.grid_sampler_3d(image, grid, 0, 0, True)
tensor([[[[[2.]]]]])
@hardshrink
>>> pf.nn.functional.hardshrink(pf.tensor([-1.0, 0.3]))
tensor([-1.,  0.])
@hash_tensor
>>> pf.hash_tensor(pf.tensor([1, 2]))
tensor(3, dtype=pyframe.uint64)
@heaviside
>>> pf.heaviside(pf.tensor([-1.0, 0.0, 2.0]), pf.tensor([0.5]))
tensor([0.0000, 0.5000, 1.0000])
@histc
>>> pf.histc(pf.tensor([1.0, 2.0, 2.5]), bins=2, min=0, max=4)
tensor([1., 2.])
@histogram
>>> pf.histogram(pf.tensor([1.0, 2.0, 2.5]), 2, range=(0.0, 4.0)).hist
tensor([1., 2.])
@histogramdd
>>> pf.histogramdd(pf.tensor([[0.0, 1.0], [1.0, 0.0]]), [2, 2]).hist
tensor([[0., 1.],
        [1., 0.]])
@hsplit
`tensor_split` along dim 1 (0 of a vector); a number of sections must divide it.
>>> pf.hsplit(pf.arange(4), 2)
(tensor([0, 1]), tensor([2, 3]))
@hstack
>>> pf.hstack([pf.tensor([1, 2]), pf.tensor([3])])
tensor([1, 2, 3])
@i0
>>> pf.special.i0(pf.tensor([0.0, 1.0]))
tensor([1.0000, 1.2661])
@igamma
>>> pf.special.gammainc(pf.tensor([1.0]), pf.tensor([2.0]))
tensor([0.8647])
@igammac
>>> pf.special.gammaincc(pf.tensor([1.0]), pf.tensor([2.0]))
tensor([0.1353])
@imag
>>> pf.imag(pf.tensor([1 + 2j]))
tensor([2.])
@index_add
>>> pf.index_add(pf.zeros(3), 0, pf.tensor([0, 2, 0]), pf.ones(3))
tensor([2., 0., 1.])
@index_copy
>>> pf.index_copy(pf.zeros(3), 0, pf.tensor([0, 2]), pf.tensor([1.0, 2.0]))
tensor([1., 0., 2.])
@index_fill
>>> pf.index_fill(pf.zeros(3), 0, pf.tensor([0, 2]), 5)
tensor([5., 0., 5.])
@index_put
>>> pf.index_put(pf.zeros(2, 2), (pf.tensor([0]), pf.tensor([1])), pf.tensor([5.0]))
tensor([[0., 5.],
        [0., 0.]])
@index_reduce
>>> pf.index_reduce(pf.ones(2), 0, pf.tensor([0, 0]), pf.tensor([2.0, 3.0]), "prod")
tensor([6., 1.])
@index_select
>>> pf.index_select(pf.tensor([[1, 2], [3, 4]]), 1, pf.tensor([1, 0]))
tensor([[2, 1],
        [4, 3]])
@inner
>>> pf.inner(pf.tensor([1, 2]), pf.tensor([3, 4]))
tensor(11)
@inverse inv
>>> pf.linalg.inv(pf.tensor([[2.0, 0.0], [0.0, 4.0]]))
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])
@is_complex
>>> pf.is_complex(pf.tensor([1j]))
True
@is_conj
>>> pf.is_conj(pf.tensor([1j]))
False
@is_floating_point
>>> pf.is_floating_point(pf.tensor([1.0]))
True
@is_nonzero
>>> pf.is_nonzero(pf.tensor([3]))
True
@is_same_size
>>> pf.is_same_size(pf.zeros(2), pf.zeros(3))
False
@is_signed
>>> pf.is_signed(pf.tensor([1]))
True
@isclose
>>> pf.isclose(pf.tensor([1.0, 2.0]), pf.tensor([1.0 + 1e-7, 2.1]))
tensor([ True, False])
@isfinite
>>> pf.isfinite(pf.tensor([1.0, pf.inf, pf.nan]))
tensor([ True, False, False])
@isin
>>> pf.isin(pf.tensor([1, 2, 3]), pf.tensor([2, 3]))
tensor([False,  True,  True])
@isneginf
>>> pf.isneginf(pf.tensor([1.0, -pf.inf]))
tensor([False,  True])
@isposinf
>>> pf.isposinf(pf.tensor([1.0, pf.inf]))
tensor([False,  True])
@isreal
>>> pf.isreal(pf.tensor([1, 1j]))
tensor([ True, False])
@istft
>>> x, window = pf.arange(8.0), pf.ones(4)
>>> pf.istft(pf.stft(x, 4, window=window, return_complex=True), 4, window=window).round()
tensor([0., 1., 2., 3., 4., 5., 6., 7.])
@kron
>>> pf.kron(pf.tensor([1, 2]), pf.tensor([1, 10]))
tensor([ 1, 10,  2, 20])
@kthvalue
>>> pf.kthvalue(pf.tensor([3, 1, 2]), 2).values
tensor(2)
@lcm
>>> pf.lcm(pf.tensor([4, 6]), pf.tensor([6, 9]))
tensor([12, 18])
@ldexp
>>> pf.ldexp(pf.tensor([1.0, 3.0]), pf.tensor([2, -1]))
tensor([4.0000, 1.5000])
@lerp
>>> pf.lerp(pf.tensor([0.0, 10.0]), pf.tensor([4.0, 20.0]), 0.25)
tensor([ 1.0000, 12.5000])
@linspace
>>> pf.linspace(0, 1, 5)
tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
@log_softmax
>>> pf.log_softmax(pf.tensor([0.0, 1.0]), 0)
tensor([-1.3133, -0.3133])
@logaddexp
>>> pf.logaddexp(pf.tensor([0.0]), pf.tensor([0.0]))
tensor([0.6931])
@logaddexp2
>>> pf.logaddexp2(pf.tensor([3.0]), pf.tensor([3.0]))
tensor([4.])
@logcumsumexp
>>> pf.logcumsumexp(pf.tensor([0.0, 0.0]), 0)
tensor([0.0000, 0.6931])
@logdet
>>> pf.logdet(pf.tensor([[1.0, 0.0], [0.0, 4.0]]))
tensor(1.3863)
@logical_xor
>>> pf.logical_xor(pf.tensor([0, 2]), pf.tensor([1, 1]))
tensor([ True, False])
@logit
>>> pf.logit(pf.tensor([0.5, 0.75]))
tensor([0.0000, 1.0986])
@logspace
>>> pf.logspace(0, 2, 3)
tensor([  1.,  10., 100.])
@logsumexp
>>> pf.logsumexp(pf.tensor([0.0, 0.0]), 0)
tensor(0.6931)
@lu
>>> pf.lu(pf.tensor([[1.0, 2.0], [4.0, 4.0]]))[0]
tensor([[4.0000, 4.0000],
        [0.2500, 1.0000]])
@lu_solve
>>> pf.lu_solve(pf.tensor([[8.0]]), *pf.linalg.lu_factor(pf.tensor([[2.0]])))
tensor([[4.]])
@lu_unpack
>>> P, L, U = pf.lu_unpack(*pf.linalg.lu_factor(pf.tensor([[1.0, 2.0], [4.0, 4.0]])))
>>> P @ L @ U
tensor([[1., 2.],
        [4., 4.]])
@masked_fill
>>> pf.masked_fill(pf.tensor([1, 2, 3]), pf.tensor([True, False, True]), 0)
tensor([0, 2, 0])
@masked_scatter
>>> pf.masked_scatter(pf.zeros(3), pf.tensor([True, False, True]), pf.tensor([5.0, 6.0]))
tensor([5., 0., 6.])
@masked_select
>>> pf.masked_select(pf.tensor([1, 2, 3]), pf.tensor([True, False, True]))
tensor([1, 3])
@matmul
>>> pf.matmul(pf.tensor([[1, 2], [3, 4]]), pf.tensor([1, 10]))
tensor([21, 43])
@matrix_exp
>>> pf.linalg.matrix_exp(pf.zeros(2, 2))
tensor([[1., 0.],
        [0., 1.]])
@matrix_power
>>> pf.linalg.matrix_power(pf.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
tensor([[1., 3.],
        [0., 1.]])
@max
>>> values, indices = pf.max(pf.tensor([[1, 5], [7, 3]]), dim=1)
>>> values, indices
(tensor([5, 7]), tensor([1, 0]))
@mean
>>> pf.mean(pf.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
tensor([1.5000, 3.5000])
@median
>>> pf.median(pf.tensor([3, 1, 2, 4]))
tensor(2)
@meshgrid
>>> rows, columns = pf.meshgrid(pf.arange(2), pf.arange(3), indexing="ij")
>>> rows
tensor([[0, 0, 0],
        [1, 1, 1]])
@min
>>> values, indices = pf.min(pf.tensor([[1, 5], [7, 3]]), dim=1)
>>> values, indices
(tensor([1, 3]), tensor([0, 1]))
@mm
>>> pf.mm(pf.tensor([[1, 2]]), pf.tensor([[3], [4]]))
tensor([[11]])
@mode
>>> pf.mode(pf.tensor([1, 2, 2])).values
tensor(2)
@movedim
>>> pf.movedim(pf.zeros(2, 3, 4), 0, -1).shape
pyframe.Size([3, 4, 2])
@msort
>>> pf.msort(pf.tensor([[3, 1], [2, 4]]))
tensor([[2, 1],
        [3, 4]])
@multinomial
>>> pf.multinomial(pf.tensor([0.0, 1.0]), 3, replacement=True)
tensor([1, 1, 1])
@mv mv_
>>> pf.mv(pf.tensor([[1, 2], [3, 4]]), pf.tensor([1, 10]))
tensor([21, 43])
@mvlgamma
>>> pf.mvlgamma(pf.tensor([2.0]), 2)
tensor([0.4516])
@nan_to_num
>>> pf.nan_to_num(pf.tensor([1.0, pf.nan]))
tensor([1., 0.])
@nanmean
>>> pf.nanmean(pf.tensor([1.0, pf.nan, 3.0]))
tensor(2.)
@nanmedian
>>> pf.nanmedian(pf.tensor([1.0, pf.nan, 3.0]))
tensor(1.)
@nanquantile
>>> pf.nanquantile(pf.tensor([1.0, pf.nan, 3.0]), 0.5)
tensor(2.)
@nansum
>>> pf.nansum(pf.tensor([1.0, pf.nan, 3.0]))
tensor(4.)
@narrow
>>> pf.narrow(pf.tensor([1, 2, 3, 4]), 0, 1, 2)
tensor([2, 3])
@nonzero
>>> pf.nonzero(pf.tensor([[0, 5], [6, 0]]))
tensor([[0, 1],
        [1, 0]])
@nonzero_static
>>> pf.nonzero_static(pf.tensor([0, 5]), size=2)
tensor([[ 1],
        [-1]])
@norm
>>> pf.norm(pf.tensor([3.0, 4.0]))
tensor(5.)
@norm_except_dim
>>> pf.norm_except_dim(pf.tensor([[3.0, 4.0], [0.0, 1.0]]))
tensor([[5.],
        [1.]])
@normal
>>> pf.normal(pf.tensor([1.0, 2.0]), pf.tensor([0.0, 0.0]))
tensor([1., 2.])
@ormqr
>>> a, tau = pf.geqrf(pf.tensor([[3.0], [4.0]]))
>>> pf.ormqr(a, tau, pf.eye(2)).shape
pyframe.Size([2, 2])
@householder_product
>>> pf.linalg.householder_product(*pf.geqrf(pf.tensor([[3.0], [4.0]])))
tensor([[-0.6000],
        [-0.8000]])
@pca_lowrank
>>> U, S, V = pf.pca_lowrank(pf.rand(5, 3), q=2)
>>> U.shape, S.shape, V.shape
(pyframe.Size([5, 2]), pyframe.Size([2]), pyframe.Size([3, 2]))
@permute
>>> pf.permute(pf.zeros(2, 3, 4), (2, 0, 1)).shape
pyframe.Size([4, 2, 3])
@pinverse pinv
>>> pf.linalg.pinv(pf.tensor([[2.0, 0.0]]))
tensor([[0.5000],
        [0.0000]])
@poisson
>>> pf.poisson(pf.tensor([0.0, 0.0]))
tensor([0., 0.])
@polar
>>> pf.polar(pf.tensor([2.0]), pf.tensor([0.0]))
tensor([2.+0.j])
@polygamma
>>> pf.special.polygamma(1, pf.tensor([1.0]))
tensor([1.6449])
@positive
>>> pf.positive(pf.tensor([1, -2]))
tensor([ 1, -2])
@prelu
>>> pf.nn.functional.prelu(pf.tensor([-1.0, 2.0]), pf.tensor([0.25]))
tensor([-0.2500,  2.0000])
@prod
>>> pf.prod(pf.tensor([[1, 2], [3, 4]]), dim=1)
tensor([ 2, 12])
@put
>>> pf.tensor([[1, 2], [3, 4]]).put(pf.tensor([1, 2]), pf.tensor([9, 8]))
tensor([[1, 9],
        [8, 4]])
@qr linalg_qr
>>> Q, R = pf.linalg.qr(pf.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> (Q @ R).round()
tensor([[3., 1.],
        [4., 2.]])
@quantile
>>> pf.quantile(pf.tensor([1.0, 2.0, 4.0]), 0.5)
tensor(2.)
@rad2deg
>>> pf.rad2deg(pf.tensor([pf.pi]))
tensor([180.])
@rand
>>> pf.rand(2, 3).shape
pyframe.Size([2, 3])
@rand_like
>>> pf.rand_like(pf.zeros(2, 3)).shape
pyframe.Size([2, 3])
@randint
>>> pf.randint(0, 10, (2, 3)).shape
pyframe.Size([2, 3])
@randint_like
>>> pf.randint_like(pf.zeros(3), 1)
tensor([0., 0., 0.])
@randn
>>> pf.randn(2, 3).shape
pyframe.Size([2, 3])
@randn_like
>>> pf.randn_like(pf.zeros(2, 3)).shape
pyframe.Size([2, 3])
@randperm
>>> pf.randperm(4).sort().values
tensor([0, 1, 2, 3])
@range_
>>> pf.range(1, 3)
tensor([1., 2., 3.])
@ravel
>>> pf.ravel(pf.tensor([[1, 2], [3, 4]]))
tensor([1, 2, 3, 4])
@real
>>> pf.real(pf.tensor([1 + 2j]))
tensor([1.])
@renorm
>>> pf.renorm(pf.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0, 1)
tensor([[0.6000, 0.8000],
        [0.0000, 1.0000]])
@repeat_interleave
>>> pf.repeat_interleave(pf.tensor([1, 2]), 2)
tensor([1, 1, 2, 2])
@reshape
>>> pf.reshape(pf.arange(6), (2, -1))
tensor([[0, 1, 2],
        [3, 4, 5]])
@resize_as_
>>> pf.arange(4).resize_as_(pf.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])
@resolve_conj
>>> pf.resolve_conj(pf.tensor([1j]))
tensor([0.+1.j])
@result_type
>>> pf.result_type(pf.tensor([1]), 2.5)
pyframe.float32
@roll
>>> pf.roll(pf.tensor([1, 2, 3]), 1)
tensor([3, 1, 2])
@rot90
>>> pf.rot90(pf.tensor([[1, 2], [3, 4]]))
tensor([[2, 4],
        [1, 3]])
@round
>>> pf.round(pf.tensor([1.234, 2.5]), decimals=1)
tensor([1.2000, 2.5000])
@vstack
>>> pf.vstack([pf.tensor([1, 2]), pf.tensor([3, 4])])
tensor([[1, 2],
        [3, 4]])
@rsub
>>> pf.rsub(pf.tensor([1, 2]), 10)
tensor([9, 8])
@scalar_tensor
>>> pf.scalar_tensor(2)
tensor(2.)
@scatter
>>> pf.scatter(pf.zeros(2, 2), 1, pf.tensor([[1], [0]]), pf.tensor([[5.0], [6.0]]))
tensor([[0., 5.],
        [6., 0.]])
@scatter_add
>>> pf.scatter_add(pf.zeros(2), 0, pf.tensor([1, 1]), pf.tensor([5.0, 6.0]))
tensor([ 0., 11.])
@scatter_reduce
>>> pf.scatter_reduce(pf.zeros(2), 0, pf.tensor([1, 1]), pf.tensor([5.0, 6.0]), "amax")
tensor([0., 6.])
@searchsorted
>>> pf.searchsorted(pf.tensor([1, 3, 5]), pf.tensor([3, 4]))
tensor([1, 2])
@segment_reduce
>>> pf.segment_reduce(pf.tensor([1.0, 2.0, 3.0]), "sum", lengths=pf.tensor([2, 1]))
tensor([3., 3.])
@select
>>> pf.select(pf.tensor([[1, 2], [3, 4]]), 1, 0)
tensor([1, 3])
@select_scatter
>>> pf.select_scatter(pf.zeros(2, 2), pf.ones(2), 1, 0)
tensor([[1., 0.],
        [1., 0.]])
@sgn
>>> pf.sgn(pf.tensor([-3.0, 0.0]))
tensor([-1.,  0.])
@sinc
>>> pf.sinc(pf.tensor([0.0, 0.5]))
tensor([1.0000, 0.6366])
@slice_scatter
>>> pf.slice_scatter(pf.zeros(4), pf.ones(2), start=1, end=3)
tensor([0., 1., 1., 0.])
@slogdet
>>> sign, logabsdet = pf.linalg.slogdet(pf.tensor([[0.0, 1.0], [1.0, 0.0]]))
>>> sign, logabsdet
(tensor(-1.), tensor(0.))
@softmax
>>> pf.softmax(pf.tensor([0.0, 1.0]), 0)
tensor([0.2689, 0.7311])
@sort
>>> values, indices = pf.sort(pf.tensor([3, 1, 2]))
>>> values, indices
(tensor([1, 2, 3]), tensor([1, 2, 0]))
@split unsafe_split
>>> pf.split(pf.arange(5), [2, 3])
(tensor([0, 1]), tensor([2, 3, 4]))
@split_with_sizes unsafe_split_with_sizes
>>> pf.split_with_sizes(pf.arange(5), [2, 3])
(tensor([0, 1]), tensor([2, 3, 4]))
@squeeze
>>> pf.squeeze(pf.zeros(1, 3, 1)).shape
pyframe.Size([3])
@stack
>>> pf.stack([pf.tensor([1, 2]), pf.tensor([3, 4])])
tensor([[1, 2],
        [3, 4]])
@std
>>> pf.std(pf.tensor([1.0, 2.0, 3.0]))
tensor(1.)
@std_mean
>>> std, mean = pf.std_mean(pf.tensor([1.0, 2.0, 3.0]))
>>> std, mean
(tensor(1.), tensor(2.))
@stft
>>> x = pf.cos(pf.pi * pf.arange(8.0))  # the highest frequency
>>> pf.stft(x, 4, window=pf.ones(4), center=False, return_complex=True).abs().round()
tensor([[0., 0., 0., 0., 0.],
        [0., 0., 0., 0., 0.],
        [4., 4., 4., 4., 4.]])
@sum
>>> pf.sum(pf.tensor([[1, 2], [3, 4]]), dim=1)
tensor([3, 7])
@svd linalg_svd
>>> U, S, Vh = pf.linalg.svd(pf.tensor([[3.0, 0.0], [0.0, 4.0]]))
>>> S
tensor([4., 3.])
@svd_lowrank
>>> U, S, V = pf.svd_lowrank(pf.rand(5, 3), q=2)
>>> U.shape, S.shape, V.shape
(pyframe.Size([5, 2]), pyframe.Size([2]), pyframe.Size([3, 2]))
@swapaxes
>>> pf.swapaxes(pf.zeros(2, 3), 0, 1).shape
pyframe.Size([3, 2])
@transpose
>>> pf.transpose(pf.zeros(2, 3), 0, 1).shape
pyframe.Size([3, 2])
@t
>>> pf.t(pf.tensor([[1, 2], [3, 4]]))
tensor([[1, 3],
        [2, 4]])
@take
>>> pf.take(pf.tensor([[1, 2], [3, 4]]), pf.tensor([3, 0]))
tensor([4, 1])
@take_along_dim
>>> x = pf.tensor([[3, 1], [2, 4]])
>>> pf.take_along_dim(x, x.argsort(1), 1)
tensor([[1, 3],
        [2, 4]])
@tensor_split
>>> pf.tensor_split(pf.arange(5), 2)
(tensor([0, 1, 2]), tensor([3, 4]))
@tensordot
>>> pf.tensordot(pf.ones(2, 3, 4), pf.ones(3, 4, 5), 2).shape
pyframe.Size([2, 5])
@tile
>>> pf.tile(pf.tensor([1, 2]), (2,))
tensor([1, 2, 1, 2])
@topk
>>> values, indices = pf.topk(pf.tensor([3, 1, 2]), 2)
>>> values, indices
(tensor([3, 2]), tensor([0, 2]))
@trace
>>> pf.trace(pf.tensor([[1, 2], [3, 4]]))
tensor(5)
@trapezoid
>>> pf.trapezoid(pf.tensor([1.0, 3.0, 5.0]))
tensor(6.)
@triangular_solve
>>> pf.triangular_solve(pf.tensor([[8.0]]), pf.tensor([[2.0]])).solution
tensor([[4.]])
@tril
>>> pf.tril(pf.tensor([[1, 2], [3, 4]]))
tensor([[1, 0],
        [3, 4]])
@tril_indices
(2, n): the rows and columns of the elements that `tril` keeps.
>>> pf.tril_indices(2, 2)
tensor([[0, 1, 1],
        [0, 0, 1]])
@triu
>>> pf.triu(pf.tensor([[1, 2], [3, 4]]))
tensor([[1, 2],
        [0, 4]])
@triu_indices
(2, n): the rows and columns of the elements that `triu` keeps.
>>> pf.triu_indices(2, 2)
tensor([[0, 0, 1],
        [0, 1, 1]])
@unbind unbind_along
>>> pf.unbind(pf.tensor([[1, 2], [3, 4]]), 1)
(tensor([1, 3]), tensor([2, 4]))
@unflatten
>>> pf.unflatten(pf.arange(6), 0, (2, 3))
tensor([[0, 1, 2],
        [3, 4, 5]])
@unfold
>>> pf.arange(5).unfold(0, 3, 2)
tensor([[0, 1, 2],
        [2, 3, 4]])
@unfold_copy
>>> pf.unfold_copy(pf.arange(5), 0, 3, 2)
tensor([[0, 1, 2],
        [2, 3, 4]])
@unique
>>> pf.unique(pf.tensor([3, 1, 3]))
tensor([1, 3])
@unique_consecutive
>>> pf.unique_consecutive(pf.tensor([1, 1, 2, 1]))
tensor([1, 2, 1])
@unravel_index
>>> pf.unravel_index(pf.tensor([5]), (2, 3))
(tensor([1]), tensor([2]))
@unsqueeze
>>> pf.unsqueeze(pf.tensor([1, 2]), 1)
tensor([[1],
        [2]])
@vander linalg_vander
>>> pf.linalg.vander(pf.tensor([2, 3]), N=3)
tensor([[1, 2, 4],
        [1, 3, 9]])
@var
>>> pf.var(pf.tensor([1.0, 2.0, 3.0]))
tensor(1.)
@var_mean
>>> var, mean = pf.var_mean(pf.tensor([1.0, 2.0, 3.0]))
>>> var, mean
(tensor(1.), tensor(2.))
@vdot
>>> pf.vdot(pf.tensor([1j]), pf.tensor([1j]))
tensor(1.+0.j)
@view_as_complex
>>> pf.view_as_complex(pf.tensor([[1.0, 2.0]]))
tensor([1.+2.j])
@view_as_real
>>> pf.view_as_real(pf.tensor([1 + 2j]))
tensor([[1., 2.]])
@view_copy
>>> pf.view_copy(pf.arange(4), (2, 2))
tensor([[0, 1],
        [2, 3]])
@vsplit
`tensor_split` along dim 0; a number of sections must divide it.
>>> pf.vsplit(pf.tensor([[1, 2], [3, 4]]), 2)
(tensor([[1, 2]]), tensor([[3, 4]]))
@where
>>> x = pf.tensor([-1.0, 2.0])
>>> pf.where(x > 0, x, 0)
tensor([0., 2.])
@xlogy
>>> pf.xlogy(pf.tensor([0.0, 2.0]), pf.tensor([0.0, 1.0]))
tensor([0., 0.])
@zero_
>>> pf.ones(2).zero_()
tensor([0., 0.])
@zeros
A tensor of zeros. RuntimeError for negative sizes.
>>> pf.zeros(2, 3)
tensor([[0., 0., 0.],
        [0., 0., 0.]])
@ones
A tensor of ones. RuntimeError for negative sizes.
>>> pf.ones(2, 3)
tensor([[1., 1., 1.],
        [1., 1., 1.]])
@zeros_like
>>> pf.zeros_like(pf.tensor([1, 2]))
tensor([0, 0])
@ones_like
>>> pf.ones_like(pf.tensor([1, 2]))
tensor([1, 1])
@bartlett_window
`signal.windows.bartlett`, of one period unless `periodic=False`.
>>> pf.bartlett_window(4)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
@blackman_window
`signal.windows.blackman`, of one period unless `periodic=False`.
>>> pf.blackman_window(4).round(decimals=2)
tensor([-0.0000, 0.3400, 1.0000, 0.3400])
@hann_window
`signal.windows.hann`, of one period unless `periodic=False`.
>>> pf.hann_window(4)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
@hamming_window
>>> pf.hamming_window(4)
tensor([0.0800, 0.5400, 1.0000, 0.5400])
@kaiser_window
>>> pf.kaiser_window(4)
tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01])
@apply_
>>> pf.tensor([1.0, 2.0]).apply_(lambda x: x + 1)
tensor([2., 3.])
@map_
>>> pf.tensor([1.0, 2.0]).map_(pf.tensor([3.0, 4.0]), lambda a, b: a * b)
tensor([3., 8.])
@map2_
>>> x, y = pf.tensor([3.0, 4.0]), pf.tensor([5.0, 6.0])
>>> pf.tensor([1.0, 2.0]).map2_(x, y, lambda a, b, c: a + b * c)
tensor([16., 26.])
@bfloat16 half float double cfloat cdouble
>>> x = pf.tensor([1, 2])
>>> x.float()
tensor([1., 2.])
@bool
>>> pf.tensor([0, 2]).bool()
tensor([False,  True])
@byte char short int long
>>> x = pf.tensor([1.5, 2.0])
>>> x.long()
tensor([1, 2])
@cauchy_
>>> pf.zeros(2).cauchy_(5, 1e-9).round()
tensor([5., 5.])
@exponential_
>>> bool((pf.zeros(2).exponential_() > 0).all())
True
@geometric_
>>> pf.zeros(2).geometric_(1 - 1e-9)
tensor([1., 1.])
@log_normal_
>>> pf.zeros(2).log_normal_(0, 1e-9)
tensor([1., 1.])
@normal_
>>> pf.zeros(2).normal_(5, 1e-9)
tensor([5., 5.])
@random_
>>> pf.zeros(2).random_(3, 4)
tensor([3., 3.])
@uniform_
>>> pf.zeros(2).uniform_(1, 1 + 1e-9)
tensor([1., 1.])
@contiguous
>>> pf.zeros(2, 3).t().contiguous().stride()
(2, 1)
@copy_
>>> pf.zeros(2).copy_(pf.tensor([1, 2]))
tensor([1., 2.])
@expand_view
>>> pf.tensor([[1], [2]]).expand(2, 3)
tensor([[1, 1, 1],
        [2, 2, 2]])
@expand_as
>>> pf.tensor([[1], [2]]).expand_as(pf.zeros(2, 3))
tensor([[1, 1, 1],
        [2, 2, 2]])
@fill_diagonal_
>>> pf.zeros(2, 2).fill_diagonal_(5)
tensor([[5., 0.],
        [0., 5.]])
@new_empty
Zeros of the dtype and device of this tensor.
>>> pf.tensor([1]).new_empty(2).shape
pyframe.Size([2])
@new_zeros
Zeros of the dtype and device of this tensor.
>>> pf.tensor([1]).new_zeros(2)
tensor([0, 0])
@new_ones
Ones of the dtype and device of this tensor.
>>> pf.tensor([1]).new_ones(2)
tensor([1, 1])
@new_full
>>> pf.tensor([1]).new_full((2,), 7)
tensor([7, 7])
@new_empty_strided
>>> pf.tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
(1, 2)
@polygamma_method
>>> pf.tensor([1.0]).polygamma(1)
tensor([1.6449])
@repeat
>>> pf.tensor([1, 2]).repeat(2, 1)
tensor([[1, 2],
        [1, 2]])
@reshape_as
>>> pf.arange(4).reshape_as(pf.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])
@resize_
>>> pf.arange(4).resize_(2, 2)
tensor([[0, 1],
        [2, 3]])
@set_
>>> pf.tensor([]).set_(pf.tensor([1.0, 2.0]))
tensor([1., 2.])
@sum_to_size
>>> pf.ones(2, 3).sum_to_size(2, 1)
tensor([[3.],
        [3.]])
@view
>>> pf.arange(4).view(2, 2)
tensor([[0, 1],
        [2, 3]])
@view_as
>>> pf.arange(4).view_as(pf.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])
@where_method
>>> x = pf.tensor([-1.0, 2.0])
>>> x.where(x > 0, 0)
tensor([0., 2.])
@adaptive_avg_pool1d
>>> F.adaptive_avg_pool1d(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
tensor([[2., 6.]])
@adaptive_avg_pool2d
>>> F.adaptive_avg_pool2d(pf.ones(1, 3, 8, 8), 1).shape
pyframe.Size([1, 3, 1, 1])
@adaptive_avg_pool3d
>>> F.adaptive_avg_pool3d(pf.ones(1, 3, 4, 4, 4), 1).shape
pyframe.Size([1, 3, 1, 1, 1])
@adaptive_max_pool1d
>>> F.adaptive_max_pool1d(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
tensor([[3., 7.]])
@adaptive_max_pool2d
>>> F.adaptive_max_pool2d(pf.ones(1, 3, 8, 8), 1).shape
pyframe.Size([1, 3, 1, 1])
@adaptive_max_pool3d
>>> F.adaptive_max_pool3d(pf.ones(1, 3, 4, 4, 4), 1).shape
pyframe.Size([1, 3, 1, 1, 1])
@adaptive_max_pool1d_with_indices
>>> F.adaptive_max_pool1d_with_indices(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)[1]
tensor([[1, 3]])
@adaptive_max_pool2d_with_indices
>>> F.adaptive_max_pool2d_with_indices(pf.ones(1, 3, 8, 8), 1)[1].shape
pyframe.Size([1, 3, 1, 1])
@adaptive_max_pool3d_with_indices
>>> F.adaptive_max_pool3d_with_indices(pf.ones(1, 3, 4, 4, 4), 1)[1].shape
pyframe.Size([1, 3, 1, 1, 1])
@avg_pool1d
>>> F.avg_pool1d(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
tensor([[2., 6.]])
@avg_pool2d
>>> F.avg_pool2d(pf.ones(1, 3, 8, 8), 2).shape
pyframe.Size([1, 3, 4, 4])
@avg_pool3d
>>> F.avg_pool3d(pf.ones(1, 3, 4, 4, 4), 2).shape
pyframe.Size([1, 3, 2, 2, 2])
@max_pool1d
>>> F.max_pool1d(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
tensor([[3., 7.]])
@max_pool2d
>>> F.max_pool2d(pf.ones(1, 3, 8, 8), 2).shape
pyframe.Size([1, 3, 4, 4])
@max_pool3d
>>> F.max_pool3d(pf.ones(1, 3, 4, 4, 4), 2).shape
pyframe.Size([1, 3, 2, 2, 2])
@max_pool1d_with_indices
>>> F.max_pool1d_with_indices(pf.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)[1]
tensor([[1, 3]])
@max_pool2d_with_indices
>>> F.max_pool2d_with_indices(pf.ones(1, 3, 8, 8), 2)[1].shape
pyframe.Size([1, 3, 4, 4])
@max_pool3d_with_indices
>>> F.max_pool3d_with_indices(pf.ones(1, 3, 4, 4, 4), 2)[1].shape
pyframe.Size([1, 3, 2, 2, 2])
@lp_pool1d
>>> F.lp_pool1d(pf.tensor([[3.0, 4.0]]), 2, 2)
tensor([[5.]])
@lp_pool2d
>>> F.lp_pool2d(pf.ones(1, 3, 8, 8), 2, 2).shape
pyframe.Size([1, 3, 4, 4])
@lp_pool3d
>>> F.lp_pool3d(pf.ones(1, 3, 4, 4, 4), 2, 2).shape
pyframe.Size([1, 3, 2, 2, 2])
@fractional_max_pool2d
>>> F.fractional_max_pool2d(pf.ones(1, 3, 8, 8), 2, output_size=5).shape
pyframe.Size([1, 3, 5, 5])
@fractional_max_pool3d
>>> F.fractional_max_pool3d(pf.ones(1, 3, 8, 8, 8), 2, output_size=5).shape
pyframe.Size([1, 3, 5, 5, 5])
@fractional_max_pool2d_with_indices
>>> F.fractional_max_pool2d_with_indices(pf.ones(1, 3, 8, 8), 2, output_size=5)[1].shape
pyframe.Size([1, 3, 5, 5])
@fractional_max_pool3d_with_indices
>>> F.fractional_max_pool3d_with_indices(pf.ones(1, 3, 8, 8, 8), 2, output_size=5)[1].shape
pyframe.Size([1, 3, 5, 5, 5])
@max_unpool1d
>>> F.max_unpool1d(pf.tensor([[3.0, 7.0]]), pf.tensor([[1, 3]]), 2)
tensor([[0., 3., 0., 7.]])
@max_unpool2d
>>> x, indices = F.max_pool2d_with_indices(pf.ones(1, 3, 8, 8), 2)
>>> F.max_unpool2d(x, indices, 2).shape
pyframe.Size([1, 3, 8, 8])
@max_unpool3d
>>> x, indices = F.max_pool3d_with_indices(pf.ones(1, 3, 4, 4, 4), 2)
>>> F.max_unpool3d(x, indices, 2).shape
pyframe.Size([1, 3, 4, 4, 4])
@dropout
>>> F.dropout(pf.ones(2), p=0.5, training=False)
tensor([1., 1.])
@alpha_dropout
>>> F.alpha_dropout(pf.ones(2), p=0.5, training=False)
tensor([1., 1.])
@feature_alpha_dropout
>>> F.feature_alpha_dropout(pf.ones(1, 2, 1), p=0.5, training=False).shape
pyframe.Size([1, 2, 1])
@dropout1d
>>> F.dropout1d(pf.ones(1, 2, 3), p=0.5, training=False).shape
pyframe.Size([1, 2, 3])
@dropout2d
>>> F.dropout2d(pf.ones(1, 2, 3, 3), p=0.5, training=False).shape
pyframe.Size([1, 2, 3, 3])
@dropout3d
>>> F.dropout3d(pf.ones(1, 2, 3, 3, 3), p=0.5, training=False).shape
pyframe.Size([1, 2, 3, 3, 3])
@bilinear
>>> F.bilinear(pf.ones(4, 2), pf.ones(4, 3), pf.ones(5, 2, 3)).shape
pyframe.Size([4, 5])
@binary_cross_entropy
>>> F.binary_cross_entropy(pf.tensor([0.5]), pf.tensor([1.0]))
tensor(0.6931)
@binary_cross_entropy_with_logits
>>> F.binary_cross_entropy_with_logits(pf.tensor([0.0]), pf.tensor([1.0]))
tensor(0.6931)
@celu
>>> F.celu(pf.tensor([-1.0, 2.0]))
tensor([-0.6321,  2.0000])
@channel_shuffle
>>> F.channel_shuffle(pf.arange(4.0).reshape(1, 4, 1), 2).flatten()
tensor([0., 2., 1., 3.])
@conv1d
>>> F.conv1d(pf.tensor([[1.0, 2.0, 4.0]]), pf.tensor([[[-1.0, 1.0]]]))
tensor([[1., 2.]])
@conv2d
>>> F.conv2d(pf.ones(1, 1, 3, 3), pf.ones(1, 1, 2, 2)).tolist()
[[[[4.0, 4.0], [4.0, 4.0]]]]
@conv3d
>>> F.conv3d(pf.ones(1, 2, 4, 4, 4), pf.ones(3, 2, 3, 3, 3), padding=1).shape
pyframe.Size([1, 3, 4, 4, 4])
@conv_tbc
>>> F.conv_tbc(pf.ones(5, 1, 2), pf.ones(3, 2, 4), pf.zeros(4)).shape
pyframe.Size([3, 1, 4])
@conv_transpose1d
>>> F.conv_transpose1d(pf.tensor([[1.0, 2.0]]), pf.tensor([[[1.0, 10.0]]]), stride=2)
tensor([[ 1., 10.,  2., 20.]])
@conv_transpose2d
>>> F.conv_transpose2d(pf.ones(1, 1, 1, 2), pf.ones(1, 1, 1, 2)).tolist()
[[[[1.0, 2.0, 1.0]]]]
@conv_transpose3d
>>> F.conv_transpose3d(pf.ones(1, 2, 2, 2, 2), pf.ones(2, 3, 2, 2, 2), stride=2).shape
pyframe.Size([1, 3, 4, 4, 4])
@cosine_embedding_loss
>>> F.cosine_embedding_loss(pf.tensor([[1.0, 0.0]]), pf.tensor([[0.0, 1.0]]), pf.tensor([1]))
tensor(1.)
@cosine_similarity
>>> F.cosine_similarity(pf.tensor([[1.0, 0.0]]), pf.tensor([[1.0, 1.0]]))
tensor([0.7071])
@cross_entropy
>>> F.cross_entropy(pf.tensor([[0.0, 0.0]]), pf.tensor([1]))
tensor(0.6931)
@ctc_loss
>>> scores = pf.zeros(4, 1, 3).log_softmax(2)
>>> F.ctc_loss(scores, pf.tensor([[1, 2]]), pf.tensor([4]), pf.tensor([2]))
tensor(0.8432)
@elu
>>> F.elu(pf.tensor([-1.0, 2.0]))
tensor([-0.6321,  2.0000])
@fold
>>> F.fold(F.unfold(pf.ones(1, 2, 4, 4), 2, stride=2), (4, 4), 2, stride=2).shape
pyframe.Size([1, 2, 4, 4])
@spatial.unfold
>>> F.unfold(pf.ones(1, 2, 4, 4), 2, stride=2).shape
pyframe.Size([1, 8, 4])
@gaussian_nll_loss
>>> F.gaussian_nll_loss(pf.tensor([1.0]), pf.tensor([3.0]), pf.tensor([1.0]))
tensor(2.)
@glu
>>> F.glu(pf.tensor([1.0, 2.0, 0.0, 0.0]))
tensor([0.5000, 1.0000])
@group_norm
>>> F.group_norm(pf.tensor([[1.0, 3.0, 5.0, 9.0]]), 2).round()
tensor([[-1.,  1., -1.,  1.]])
@hardsigmoid
>>> F.hardsigmoid(pf.tensor([-4.0, 0.0, 4.0]))
tensor([0.0000, 0.5000, 1.0000])
@hardswish
>>> F.hardswish(pf.tensor([-4.0, 0.0, 4.0]))
tensor([-0., 0., 4.])
@hardtanh
>>> F.hardtanh(pf.tensor([-4.0, 0.5, 4.0]))
tensor([-1.0000,  0.5000,  1.0000])
@hinge_embedding_loss
>>> F.hinge_embedding_loss(pf.tensor([0.25, 0.5]), pf.tensor([1, -1]))
tensor(0.3750)
@huber_loss
>>> F.huber_loss(pf.tensor([0.5, 3.0]), pf.tensor([0.0, 0.0]), reduction="none")
tensor([0.1250, 2.5000])
@instance_norm
>>> F.instance_norm(pf.tensor([[[1.0, 3.0]]])).round()
tensor([[[-1.,  1.]]])
@kl_div
>>> F.kl_div(pf.tensor([[0.5, 0.5]]).log(), pf.tensor([[1.0, 0.0]]), reduction="batchmean")
tensor(0.6931)
@l1_loss
>>> F.l1_loss(pf.tensor([1.0, 2.0]), pf.tensor([0.0, 4.0]))
tensor(1.5000)
@leaky_relu
>>> F.leaky_relu(pf.tensor([-1.0, 2.0]))
tensor([-0.0100,  2.0000])
@linear_cross_entropy
>>> F.linear_cross_entropy(pf.ones(1, 2), pf.zeros(3, 2), pf.tensor([1]))
tensor(1.0986)
@local_response_norm
>>> F.local_response_norm(pf.ones(1, 3, 2), 2, alpha=1.0)
tensor([[[0.7378, 0.7378],
         [0.5946, 0.5946],
         [0.5946, 0.5946]]])
@logsigmoid
>>> F.logsigmoid(pf.tensor([0.0, 2.0]))
tensor([-0.6931, -0.1269])
@margin_ranking_loss
>>> F.margin_ranking_loss(pf.tensor([1.0]), pf.tensor([3.0]), pf.tensor([1]))
tensor(2.)
@mish
>>> F.mish(pf.tensor([-1.0, 2.0]))
tensor([-0.3034,  1.9440])
@mse_loss
>>> F.mse_loss(pf.tensor([1.0, 2.0]), pf.tensor([0.0, 4.0]))
tensor(2.5000)
@multi_head_attention_forward
>>> x, w, b = pf.ones(2, 1, 4), pf.eye(4), pf.zeros(4)
>>> made = w.repeat(3, 1), b.repeat(3), None, None, False, 0.0, w, b
>>> F.multi_head_attention_forward(x, x, x, 4, 2, *made)[0].shape
pyframe.Size([2, 1, 4])
@multi_margin_loss
>>> F.multi_margin_loss(pf.tensor([[0.5, 1.0]]), pf.tensor([1]))
tensor(0.2500)
@multilabel_margin_loss
>>> F.multilabel_margin_loss(pf.tensor([[0.5, 1.0]]), pf.tensor([[1, -1]]))
tensor(0.2500)
@multilabel_soft_margin_loss
>>> F.multilabel_soft_margin_loss(pf.zeros(1, 2), pf.tensor([[1.0, 0.0]]))
tensor(0.6931)
@nll_loss
>>> F.nll_loss(pf.tensor([[-1.0, -2.0]]), pf.tensor([1]))
tensor(2.)
@pairwise_distance
>>> F.pairwise_distance(pf.tensor([[3.0, 4.0]]), pf.zeros(1, 2))
tensor([5.0000])
@pixel_shuffle
>>> F.pixel_shuffle(pf.ones(1, 4, 2, 3), 2).shape
pyframe.Size([1, 1, 4, 6])
@pixel_unshuffle
>>> F.pixel_unshuffle(pf.ones(1, 1, 4, 6), 2).shape
pyframe.Size([1, 4, 2, 3])
@poisson_nll_loss
>>> F.poisson_nll_loss(pf.tensor([0.0]), pf.tensor([2.0]))
tensor(1.)
@activation.relu
>>> F.relu(pf.tensor([-1.0, 2.0]))
tensor([0., 2.])
@relu6
>>> F.relu6(pf.tensor([-1.0, 2.0, 8.0]))
tensor([0., 2., 6.])
@rms_norm
>>> F.rms_norm(pf.tensor([3.0, 4.0]), (2,))
tensor([0.8485, 1.1314])
@rrelu
>>> F.rrelu(pf.tensor([-1.0, 2.0]), 0.25, 0.75)
tensor([-0.5000,  2.0000])
@selu
>>> F.selu(pf.tensor([-1.0, 2.0]))
tensor([-1.1113,  2.1014])
@silu
>>> F.silu(pf.tensor([-1.0, 2.0]))
tensor([-0.2689,  1.7616])
@smooth_l1_loss
>>> F.smooth_l1_loss(pf.tensor([0.5, 3.0]), pf.tensor([0.0, 0.0]), reduction="none")
tensor([0.1250, 2.5000])
@soft_margin_loss
>>> F.soft_margin_loss(pf.tensor([0.0]), pf.tensor([1.0]))
tensor(0.6931)
@softmin
>>> F.softmin(pf.tensor([0.0, 1.0]), 0)
tensor([0.7311, 0.2689])
@softplus
>>> F.softplus(pf.tensor([0.0, 30.0]))
tensor([ 0.6931, 30.0000])
@softshrink
>>> F.softshrink(pf.tensor([-1.0, 0.3]))
tensor([-0.5000,  0.0000])
@softsign
>>> F.softsign(pf.tensor([-1.0, 3.0]))
tensor([-0.5000,  0.7500])
@tanhshrink
>>> F.tanhshrink(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.2384])
@threshold
>>> F.threshold(pf.tensor([-1.0, 2.0]), 0, 9)
tensor([9., 2.])
@triplet_margin_loss
>>> F.triplet_margin_loss(pf.zeros(1, 2), pf.tensor([[3.0, 4.0]]), pf.tensor([[0.0, 2.0]]))
tensor(4.0000)
@triplet_margin_with_distance_loss
>>> anchor, positive, negative = pf.zeros(1, 2), pf.tensor([[3.0, 4.0]]), pf.tensor([[0.0, 2.0]])
>>> F.triplet_margin_with_distance_loss(anchor, positive, negative)
tensor(4.0000)
@upsample
>>> F.upsample(pf.ones(1, 3, 4, 4), scale_factor=2).shape
pyframe.Size([1, 3, 8, 8])
@upsample_bilinear
>>> F.upsample_bilinear(pf.ones(1, 3, 4, 4), scale_factor=2).shape
pyframe.Size([1, 3, 8, 8])
@upsample_nearest
>>> F.upsample_nearest(pf.ones(1, 3, 4, 4), scale_factor=2).shape
pyframe.Size([1, 3, 8, 8])
@cholesky_ex
>>> pf.linalg.cholesky_ex(pf.tensor([[4.0]])).info
tensor(0, dtype=pyframe.int32)
@cond
>>> pf.linalg.cond(pf.tensor([[2.0, 0.0], [0.0, 8.0]]))
tensor(4.)
@eig
>>> pf.linalg.eig(pf.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
tensor([2.+0.j, 3.+0.j])
@eigh
>>> pf.linalg.eigh(pf.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
tensor([1., 3.])
@eigvals
>>> pf.linalg.eigvals(pf.tensor([[2.0, 0.0], [0.0, 3.0]]))
tensor([2.+0.j, 3.+0.j])
@eigvalsh
>>> pf.linalg.eigvalsh(pf.tensor([[2.0, 1.0], [1.0, 2.0]]))
tensor([1., 3.])
@inv_ex
>>> pf.linalg.inv_ex(pf.tensor([[0.0]])).info
tensor(1, dtype=pyframe.int32)
@ldl_factor
>>> pf.linalg.ldl_factor(pf.tensor([[2.0, 1.0], [1.0, 3.0]])).LD.shape
pyframe.Size([2, 2])
@ldl_factor_ex
>>> pf.linalg.ldl_factor_ex(pf.tensor([[2.0, 1.0], [1.0, 3.0]])).info
tensor(0, dtype=pyframe.int32)
@ldl_solve
>>> pf.linalg.ldl_solve(*pf.linalg.ldl_factor(pf.tensor([[2.0]])), pf.tensor([[8.0]]))
tensor([[4.]])
@lstsq
>>> pf.linalg.lstsq(pf.tensor([[1.0], [1.0]]), pf.tensor([[2.0], [4.0]])).solution.round()
tensor([[3.]])
@linalg_lu
>>> P, L, U = pf.linalg.lu(pf.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> L
tensor([[1.0000, 0.0000],
        [0.2500, 1.0000]])
@lu_factor
>>> LU, pivots = pf.linalg.lu_factor(pf.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> LU
tensor([[4.0000, 4.0000],
        [0.2500, 1.0000]])
@lu_factor_ex
>>> pf.linalg.lu_factor_ex(pf.tensor([[1.0, 2.0], [4.0, 4.0]])).info
tensor(0, dtype=pyframe.int32)
@linalg_lu_solve
>>> pf.linalg.lu_solve(*pf.linalg.lu_factor(pf.tensor([[2.0]])), pf.tensor([[8.0]]))
tensor([[4.]])
@matrix_norm
>>> pf.linalg.matrix_norm(pf.tensor([[3.0, 0.0], [0.0, 4.0]]))
tensor(5.)
@matrix_rank
>>> pf.linalg.matrix_rank(pf.tensor([[1.0, 2.0], [2.0, 4.0]]))
tensor(1)
@multi_dot
>>> pf.linalg.multi_dot([pf.ones(2, 3), pf.ones(3, 4), pf.ones(4)])
tensor([12., 12.])
@functions.norm
>>> pf.linalg.norm(pf.tensor([3.0, 4.0]))
tensor(5.)
@solve
>>> pf.linalg.solve(pf.tensor([[2.0, 0.0], [0.0, 4.0]]), pf.tensor([2.0, 8.0]))
tensor([1., 2.])
@solve_ex
>>> pf.linalg.solve_ex(pf.tensor([[2.0]]), pf.tensor([8.0])).info
tensor(0, dtype=pyframe.int32)
@solve_triangular
>>> pf.linalg.solve_triangular(pf.tensor([[2.0]]), pf.tensor([[8.0]]), upper=True)
tensor([[4.]])
@svdvals
>>> pf.linalg.svdvals(pf.tensor([[3.0, 0.0], [0.0, 4.0]]))
tensor([4., 3.])
@tensorinv
>>> pf.linalg.tensorinv(pf.eye(6).reshape(2, 3, 6), ind=2).shape
pyframe.Size([6, 2, 3])
@tensorsolve
>>> pf.linalg.tensorsolve(pf.eye(6).reshape(2, 3, 6), pf.ones(2, 3)).shape
pyframe.Size([6])
@vecdot
>>> pf.linalg.vecdot(pf.tensor([1.0, 2.0]), pf.tensor([3.0, 4.0]))
tensor(11.)
@vector_norm
>>> pf.linalg.vector_norm(pf.tensor([3.0, 4.0]))
tensor(5.)
@fft
The discrete Fourier transform of a dim, cut or filled with zeros to n.
>>> pf.fft.fft(pf.tensor([1.0, 0.0, 0.0, 0.0])).real
tensor([1., 1., 1., 1.])
@ifft
The inverse of `fft`.
>>> pf.fft.ifft(pf.fft.fft(pf.tensor([1.0, 2.0]))).real
tensor([1., 2.])
@rfft
`fft` of a real input: frequencies 0 .. n / 2 only.
>>> pf.fft.rfft(pf.ones(4)).real
tensor([4., 0., 0.])
@irfft
The inverse of `rfft`: real, of length n (2 * (size - 1) by default).
>>> pf.fft.irfft(pf.fft.rfft(pf.tensor([1.0, 2.0])))
tensor([1., 2.])
@hfft
`fft` of a Hermitian input given by its first half: real.
>>> pf.fft.hfft(pf.tensor([1.0, 2.0]), 2)
tensor([ 3., -1.])
@ihfft
The inverse of `hfft`: the first half of a Hermitian result.
>>> pf.fft.ihfft(pf.tensor([3.0, -1.0])).real
tensor([1., 2.])
@fftn
`fft` of several dims (all by default), of sizes s.
>>> pf.fft.fftn(pf.ones(2, 4)).shape
pyframe.Size([2, 4])
@ifftn
The inverse of `fftn`.
>>> pf.fft.ifftn(pf.fft.fftn(pf.ones(2, 2))).real
tensor([[1., 1.],
        [1., 1.]])
@rfftn
`fftn` of a real input: of the last dim only frequencies 0 .. n / 2.
>>> pf.fft.rfftn(pf.ones(2, 4)).shape
pyframe.Size([2, 3])
@irfftn
The inverse of `rfftn`: real.
>>> pf.fft.irfftn(pf.fft.rfftn(pf.ones(2, 2)))
tensor([[1., 1.],
        [1., 1.]])
@hfftn
`fftn` of an input that is Hermitian in the last dim, given by its first half: real.
>>> pf.fft.hfftn(pf.ones(2, 3)).shape
pyframe.Size([2, 4])
@ihfftn
The inverse of `hfftn`.
>>> pf.fft.ihfftn(pf.ones(2, 4)).shape
pyframe.Size([2, 3])
@fft2
`fftn` of the last two dims by default.
>>> pf.fft.fft2(pf.ones(3, 2, 4)).shape
pyframe.Size([3, 2, 4])
@ifft2
`ifftn` of the last two dims by default.
>>> pf.fft.ifft2(pf.ones(3, 2, 4)).shape
pyframe.Size([3, 2, 4])
@rfft2
`rfftn` of the last two dims by default.
>>> pf.fft.rfft2(pf.ones(3, 2, 4)).shape
pyframe.Size([3, 2, 3])
@irfft2
`irfftn` of the last two dims by default.
>>> pf.fft.irfft2(pf.ones(3, 2, 3)).shape
pyframe.Size([3, 2, 4])
@hfft2
`hfftn` of the last two dims by default.
>>> pf.fft.hfft2(pf.ones(3, 2, 3)).shape
pyframe.Size([3, 2, 4])
@ihfft2
`ihfftn` of the last two dims by default.
>>> pf.fft.ihfft2(pf.ones(3, 2, 4)).shape
pyframe.Size([3, 2, 3])
@fftfreq
>>> pf.fft.fftfreq(4)
tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
@rfftfreq
>>> pf.fft.rfftfreq(4)
tensor([0.0000, 0.2500, 0.5000])
@fftshift
>>> pf.fft.fftshift(pf.fft.fftfreq(4))
tensor([-0.5000, -0.2500,  0.0000,  0.2500])
@ifftshift
>>> pf.fft.ifftshift(pf.fft.fftshift(pf.tensor([0, 1, 2])))
tensor([0, 1, 2])
@airy_ai
The Airy function Ai (DLMF 9.2). SciPy computes it, on the GPU too.
>>> pf.special.airy_ai(pf.tensor([0.0]))
tensor([0.3550])
@bessel_j0
The Bessel function of the first kind and order 0 (DLMF 10.2). SciPy computes it, on the GPU too.
>>> pf.special.bessel_j0(pf.tensor([0.0, 1.0]))
tensor([1.0000, 0.7652])
@bessel_j1
The Bessel function of the first kind and order 1 (DLMF 10.2). SciPy computes it, on the GPU too.
>>> pf.special.bessel_j1(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.4401])
@bessel_y0
The Bessel function of the second kind and order 0 (DLMF 10.2). SciPy computes it, on the GPU too.
>>> pf.special.bessel_y0(pf.tensor([1.0]))
tensor([0.0883])
@bessel_y1
The Bessel function of the second kind and order 1 (DLMF 10.2). SciPy computes it, on the GPU too.
>>> pf.special.bessel_y1(pf.tensor([1.0]))
tensor([-0.7812])
@modified_bessel_k0
The modified Bessel function of the second kind and order 0. SciPy computes it, on the GPU too.
>>> pf.special.modified_bessel_k0(pf.tensor([1.0]))
tensor([0.4210])
@modified_bessel_k1
The modified Bessel function of the second kind and order 1. SciPy computes it, on the GPU too.
>>> pf.special.modified_bessel_k1(pf.tensor([1.0]))
tensor([0.6019])
@scaled_modified_bessel_k0
e^x modified_bessel_k0(x). SciPy computes it, on the GPU too.
>>> pf.special.scaled_modified_bessel_k0(pf.tensor([1.0]))
tensor([1.1445])
@scaled_modified_bessel_k1
e^x modified_bessel_k1(x). SciPy computes it, on the GPU too.
>>> pf.special.scaled_modified_bessel_k1(pf.tensor([1.0]))
tensor([1.6362])
@chebyshev_polynomial_t
The Chebyshev polynomial of the first kind and degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.chebyshev_polynomial_t(pf.tensor([0.5]), 2)
tensor([-0.5000])
@chebyshev_polynomial_u
The Chebyshev polynomial of the second kind and degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.chebyshev_polynomial_u(pf.tensor([0.5]), 2)
tensor([0.])
@chebyshev_polynomial_v
The Chebyshev polynomial of the third kind and degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.chebyshev_polynomial_v(pf.tensor([0.5]), 2)
tensor([-1.])
@chebyshev_polynomial_w
The Chebyshev polynomial of the fourth kind and degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.chebyshev_polynomial_w(pf.tensor([0.5]), 2)
tensor([1.])
@shifted_chebyshev_polynomial_t
chebyshev_polynomial_t at 2 x - 1.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.shifted_chebyshev_polynomial_t(pf.tensor([0.5]), 2)
tensor([-1.])
@shifted_chebyshev_polynomial_u
chebyshev_polynomial_u at 2 x - 1.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.shifted_chebyshev_polynomial_u(pf.tensor([0.5]), 2)
tensor([-1.])
@shifted_chebyshev_polynomial_v
chebyshev_polynomial_v at 2 x - 1.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.shifted_chebyshev_polynomial_v(pf.tensor([0.5]), 2)
tensor([-1.])
@shifted_chebyshev_polynomial_w
chebyshev_polynomial_w at 2 x - 1.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.shifted_chebyshev_polynomial_w(pf.tensor([0.5]), 2)
tensor([-1.])
@hermite_polynomial_h
The physicist's Hermite polynomial of degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.hermite_polynomial_h(pf.tensor([0.5]), 2)
tensor([-1.])
@hermite_polynomial_he
The probabilist's Hermite polynomial of degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.hermite_polynomial_he(pf.tensor([0.5]), 2)
tensor([-0.7500])
@laguerre_polynomial_l
The Laguerre polynomial of degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.laguerre_polynomial_l(pf.tensor([0.5]), 2)
tensor([0.1250])
@legendre_polynomial_p
The Legendre polynomial of degree n, at x.
Either may be a number. It has no gradient; on the GPU the host computes it.
>>> pf.special.legendre_polynomial_p(pf.tensor([0.5]), 2)
tensor([-0.1250])
@entr
>>> pf.special.entr(pf.tensor([0.5, 1.0]))
tensor([0.3466, -0.0000])
@i1
>>> pf.special.i1(pf.tensor([0.0, 1.0]))
tensor([0.0000, 0.5652])
@log_ndtr
>>> pf.special.log_ndtr(pf.tensor([0.0, -40.0]))
tensor([-6.9315e-01, -8.0461e+02])
@ndtr
>>> pf.special.ndtr(pf.tensor([0.0, 1.96]))
tensor([0.5000, 0.9750])
@spherical_bessel_j0
>>> pf.special.spherical_bessel_j0(pf.tensor([0.0, 1.0]))
tensor([1.0000, 0.8415])
@xlog1py
>>> pf.special.xlog1py(pf.tensor([0.0, 2.0]), pf.tensor([-1.0, 1.0]))
tensor([0.0000, 1.3863])
@bartlett
>>> pf.signal.windows.bartlett(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
@blackman
>>> pf.signal.windows.blackman(5).round(decimals=2)
tensor([-0.0000, 0.3400, 1.0000, 0.3400, -0.0000])
@cosine
>>> pf.signal.windows.cosine(3)
tensor([0.5000, 1.0000, 0.5000])
@exponential
>>> pf.signal.windows.exponential(3)
tensor([0.3679, 1.0000, 0.3679])
@gaussian
>>> pf.signal.windows.gaussian(3)
tensor([0.6065, 1.0000, 0.6065])
@general_cosine
>>> pf.signal.windows.general_cosine(3, a=[0.5, 0.5])
tensor([0., 1., 0.])
@general_hamming
>>> pf.signal.windows.general_hamming(3)
tensor([0.0800, 1.0000, 0.0800])
@hamming
>>> pf.signal.windows.hamming(3)
tensor([0.0800, 1.0000, 0.0800])
@hann
>>> pf.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
@kaiser
>>> pf.signal.windows.kaiser(3, beta=2.0)
tensor([0.4387, 1.0000, 0.4387])
@nuttall
>>> pf.signal.windows.nuttall(3).round(decimals=4)
tensor([4.0000e-04, 1.0000e+00, 4.0000e-04])
@masked.amax
>>> pf.masked.amax(pf.tensor([1.0, 9.0]), 0, mask=pf.tensor([True, False]))
tensor(1.)
@masked.amin
>>> pf.masked.amin(pf.tensor([1.0, 9.0]), 0, mask=pf.tensor([False, True]))
tensor(9.)
@masked.argmax
>>> pf.masked.argmax(pf.tensor([1.0, 9.0]), 0, mask=pf.tensor([True, False]))
tensor(0.)
@masked.argmin
>>> pf.masked.argmin(pf.tensor([1.0, 9.0]), 0, mask=pf.tensor([False, True]))
tensor(1.)
@masked.cumprod
>>> pf.masked.cumprod(pf.tensor([2.0, 9.0, 3.0]), 0, mask=pf.tensor([True, False, True]))
tensor([2., 2., 6.])
@masked.cumsum
>>> pf.masked.cumsum(pf.tensor([2.0, 9.0, 3.0]), 0, mask=pf.tensor([True, False, True]))
tensor([2., 2., 5.])
@masked.log_softmax
>>> pf.masked.log_softmax(pf.tensor([0.0, 9.0, 0.0]), 0, mask=pf.tensor([True, False, True]))
tensor([-0.6931,    -inf, -0.6931])
@masked.logaddexp
>>> pf.masked.logaddexp(pf.tensor([0.0]), pf.tensor([0.0]))
tensor([0.6931])
@masked.logsumexp
>>> pf.masked.logsumexp(pf.tensor([0.0, 9.0]), 0, mask=pf.tensor([True, False]))
tensor(0.)
@masked.mean
>>> pf.masked.mean(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(2.)
@masked.median
>>> pf.masked.median(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(1.)
@masked.norm
>>> pf.masked.norm(pf.tensor([3.0, 4.0, 9.0]), 2, 0, mask=pf.tensor([True, True, False]))
tensor(5.)
@masked.normalize
>>> pf.masked.normalize(pf.tensor([3.0, 4.0, 9.0]), 2, 0, mask=pf.tensor([True, True, False]))
tensor([0.6000, 0.8000, 0.0000])
@masked.prod
>>> pf.masked.prod(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(3.)
@masked.softmax
>>> pf.masked.softmax(pf.tensor([0.0, 9.0, 0.0]), 0, mask=pf.tensor([True, False, True]))
tensor([0.5000, 0.0000, 0.5000])
@masked.softmin
>>> pf.masked.softmin(pf.tensor([0.0, 9.0, 0.0]), 0, mask=pf.tensor([True, False, True]))
tensor([0.5000, 0.0000, 0.5000])
@masked.std
>>> pf.masked.std(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(1.4142)
@masked.sum
>>> pf.masked.sum(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(4.)
@masked.var
>>> pf.masked.var(pf.tensor([1.0, 3.0, 9.0]), 0, mask=pf.tensor([True, True, False]))
tensor(2.)
@H
>>> pf.tensor([[1j, 2]]).H.shape
pyframe.Size([2, 1])
@T
>>> pf.tensor([[1, 2], [3, 4]]).T
tensor([[1, 3],
        [2, 4]])
@mT
>>> pf.zeros(4, 2, 3).mT.shape
pyframe.Size([4, 3, 2])
@backward
>>> x = pf.tensor(3.0, requires_grad=True)
>>> (x * x).backward()
>>> x.grad
tensor(6.)
@data_ptr const_data_ptr
>>> x = pf.zeros(3)
>>> x[1:].data_ptr() - x.data_ptr()
4
@cpu
>>> pf.zeros(2).cpu().device
device(type='cpu', index=0)
@cuda gpu
>>> x = pf.zeros(2)
>>> x.gpu() if pf.is_available() else x
tensor([0., 0.])
@data
>>> x = pf.ones(2, requires_grad=True)
>>> x.data
tensor([1., 1.])
@detach
>>> x = pf.ones(2, requires_grad=True)
>>> (x * 2).detach()
tensor([2., 2.])
@detach_
>>> x = pf.ones(2, requires_grad=True)
>>> (x * 2).detach_().requires_grad
False
@device
>>> pf.zeros(2).device
device(type='cpu', index=0)
@dtype
>>> pf.zeros(2).dtype
pyframe.float32
@dim ndimension ndim
>>> pf.zeros(2, 3).ndim
2
@dim_order
>>> pf.zeros(2, 3).t().dim_order()
(1, 0)
@element_size itemsize
>>> pf.zeros(2).element_size()
4
@get_device
>>> pf.zeros(2, device="cpu").get_device()
-1
@grad_fn
>>> pf.zeros(2).grad_fn is None
True
@grad
>>> x = pf.tensor(3.0, requires_grad=True)
>>> (x * x).backward()
>>> x.grad
tensor(6.)
@is_contiguous
>>> pf.zeros(2, 3).t().is_contiguous()
False
@is_cpu is_cuda is_inference is_shared is_leaf
>>> x = pf.zeros(2)
>>> x.is_cpu, x.is_leaf, x.is_inference(), x.is_shared()
(True, True, False, False)
@is_meta is_mkldnn is_mps is_nested is_pinned is_quantized is_sparse is_sparse_csr is_xpu
>>> pf.zeros(2).is_sparse
False
@is_set_to
>>> x = pf.zeros(2)
>>> x.is_set_to(x.view(2)), x.is_set_to(x.clone())
(True, False)
@item
>>> pf.tensor([2.5]).item()
2.5
@item_async tolist_async numpy_async
>>> import asyncio
>>> asyncio.run(pf.tensor([1, 2]).tolist_async())
[1, 2]
@layout
>>> pf.zeros(2).layout
pyframe.strided
@nbytes
>>> pf.zeros(2, 3).nbytes
24
@new
>>> pf.tensor([1]).new([2, 3])
tensor([2, 3])
@new_tensor
>>> pf.tensor([1.5]).new_tensor([2, 3])
tensor([2., 3.])
@numel nelement
>>> pf.zeros(2, 3).numel()
6
@numpy
>>> pf.tensor([1, 2]).numpy()
array([1, 2])
@pin_memory
>>> pf.tensor([1, 2]).pin_memory()
tensor([1, 2])
@register_hook
>>> x = pf.tensor(3.0, requires_grad=True)
>>> handle = x.register_hook(lambda grad: grad * 2)
>>> (x * x).backward()
>>> x.grad
tensor(12.)
@register_post_accumulate_grad_hook
>>> x = pf.tensor(3.0, requires_grad=True)
>>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
>>> (x * x).backward()
tensor(6.)
@requires_grad
>>> pf.zeros(2).requires_grad
False
@requires_grad_
>>> pf.zeros(2).requires_grad_()
tensor([0., 0.], requires_grad=True)
@retain_grad retains_grad
>>> x = pf.tensor(3.0, requires_grad=True)
>>> y = x * 2
>>> y.retain_grad()
>>> (y * y).backward()
>>> y.grad, y.retains_grad
(tensor(12.), True)
@shape
>>> pf.zeros(2, 3).shape
pyframe.Size([2, 3])
@size
>>> pf.zeros(2, 3).size(1)
3
@share_memory_
>>> pf.zeros(2).share_memory_().is_shared()
True
@storage untyped_storage
>>> x = pf.zeros(4)
>>> len(x[1:].untyped_storage())
16
@storage_offset
>>> pf.zeros(4)[1:].storage_offset()
1
@stride
>>> pf.zeros(2, 3).stride()
(3, 1)
@to to_device
>>> pf.tensor([1, 2]).to(pf.float32)
tensor([1., 2.])
@to_dense
>>> pf.tensor([1.0, 0.0]).to_dense()
tensor([1., 0.])
@tolist
>>> pf.tensor([[1, 2], [3, 4]]).tolist()
[[1, 2], [3, 4]]
@type
>>> pf.tensor([1.0]).type()
'pyframe.FloatTensor'
@type_as
>>> pf.tensor([1, 2]).type_as(pf.zeros(1))
tensor([1., 2.])
@toplevel.batch_norm
>>> pf.batch_norm(pf.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, True).round()
tensor([[-1.],
        [ 1.]])
@toplevel.embedding
>>> pf.embedding(pf.tensor([[1.0, 2.0], [3.0, 4.0]]), pf.tensor([1, 0]))
tensor([[3., 4.],
        [1., 2.]])
@toplevel.embedding_renorm_
>>> pf.embedding_renorm_(pf.tensor([[3.0, 4.0], [3.0, 4.0]]), pf.tensor([1]), 1.0, 2.0)
tensor([[3.0000, 4.0000],
        [0.6000, 0.8000]])
@toplevel.dropout toplevel.dropout_
>>> pf.dropout(pf.ones(2), p=0.5, train=False)
tensor([1., 1.])
@toplevel.alpha_dropout toplevel.alpha_dropout_
>>> pf.alpha_dropout(pf.ones(2), p=0.5, train=False)
tensor([1., 1.])
@toplevel.feature_dropout toplevel.feature_dropout_
>>> pf.feature_dropout(pf.ones(1, 2, 1), p=0.5, train=False).shape
pyframe.Size([1, 2, 1])
@toplevel.feature_alpha_dropout toplevel.feature_alpha_dropout_
>>> pf.feature_alpha_dropout(pf.ones(1, 2, 1), p=0.5, train=False).shape
pyframe.Size([1, 2, 1])
@toplevel.layer_norm
>>> pf.layer_norm(pf.tensor([1.0, 3.0]), (2,)).round()
tensor([-1.,  1.])
@toplevel.group_norm
>>> pf.group_norm(pf.tensor([[1.0, 3.0, 5.0, 9.0]]), 2).round()
tensor([[-1.,  1., -1.,  1.]])
@toplevel.instance_norm
>>> x = pf.tensor([[[1.0, 3.0]]])
>>> pf.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, True).round()
tensor([[[-1.,  1.]]])
@native_batch_norm
>>> x = pf.tensor([[1.0], [3.0]])
>>> pf.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1]
tensor([2.])
@native_dropout
>>> pf.native_dropout(pf.ones(2), 0.5, False)
(tensor([1., 1.]), tensor([True, True]))
@native_group_norm
>>> pf.native_group_norm(pf.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 1e-5)[1]
tensor([[2.]])
@native_layer_norm
>>> pf.native_layer_norm(pf.tensor([1.0, 3.0]), (2,), None, None, 1e-5)[1]
tensor([2.])
@lstm
>>> x, h, weights = pf.ones(5, 1, 2), pf.zeros(1, 1, 3), (pf.ones(12, 2), pf.ones(12, 3))
>>> pf.lstm(x, (h, h), weights, False, 1, 0.0, False, False, False)[0].shape
pyframe.Size([5, 1, 3])
@gru
>>> x, h, weights = pf.ones(5, 1, 2), pf.zeros(1, 1, 3), (pf.ones(9, 2), pf.ones(9, 3))
>>> pf.gru(x, h, weights, False, 1, 0.0, False, False, False)[0].shape
pyframe.Size([5, 1, 3])
@rnn_tanh rnn_relu
>>> x, h, weights = pf.ones(5, 1, 2), pf.zeros(1, 1, 3), (pf.ones(3, 2), pf.ones(3, 3))
>>> pf.rnn_tanh(x, h, weights, False, 1, 0.0, False, False, False)[0].shape
pyframe.Size([5, 1, 3])
@lstm_cell
>>> x, h = pf.ones(1, 2), pf.zeros(1, 3)
>>> pf.lstm_cell(x, (h, h), pf.ones(12, 2), pf.ones(12, 3))[0].shape
pyframe.Size([1, 3])
@gru_cell
>>> pf.gru_cell(pf.ones(1, 2), pf.zeros(1, 3), pf.ones(9, 2), pf.ones(9, 3)).shape
pyframe.Size([1, 3])
@rnn_tanh_cell rnn_relu_cell
>>> pf.rnn_relu_cell(pf.ones(1, 2), pf.zeros(1, 3), pf.ones(3, 2), pf.ones(3, 3))
tensor([[2., 2., 2.]])
"""
ARGUMENTS = {
    name: said
    for row in _ARGUMENTS.strip().replace("\n  ", "\0").splitlines()
    for names, _, said in (row.partition(": "),)
    for name in names.split()
}
_BASES = {name.partition(".")[0] for name in ARGUMENTS}
_ROWS_BY_NAME = {
    name: row.partition("\n")[2].strip()
    for row in f"\n{_ROWS.strip()}".split("\n@")[1:]
    for name in row.partition("\n")[0].split()
}
# What a text tells of: names in backticks and entries of lists.
_TOLD = re.compile(r"`\*{0,2}(\w+)|^    ((?:\*{0,2}\w+, )*\*{0,2}\w+): ", re.MULTILINE)
_ENTRY = re.compile(r"^    ((?:\*{0,2}\w+, )*\*{0,2}\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_LIST = re.compile(r"Args:\n(?:    .*\n?)*")
_RAISES = re.compile(r"Raises:\n(?:    .*\n)*")
_REFERRED = re.compile(r"\b(\w+)`?'s\b")  # whose arguments it has: "Arguments are Conv2d's"
_BEHIND = re.compile(r"\n\n(?:Attributes:|Raises:|>>> )")


def _clean(doc: str | None) -> str:
    """As `inspect.cleandoc`, which takes ten times as long, where the last line says the indent."""
    body, _, indent = (doc or "").rpartition("\n")
    if not body or indent.strip():
        return inspect.cleandoc(doc or "")
    return body.replace(f"\n{indent}", "\n").strip()


def told(text: str) -> set[str]:
    """The arguments that a text explains."""
    return {name for pair in _TOLD.findall(text) for name in re.findall(r"\w+", " ".join(pair))}


def _with(text: str, arguments: dict[str, str]) -> str:
    """`text` with more entries in its list of arguments, which stands before what follows it."""
    if not arguments:
        return text
    lines = "".join(f"    {name}: {said}\n" for name, said in arguments.items())
    lines = lines.replace("\0", "\n        ")
    if found := _LIST.search(text):
        return f"{text[: found.end()].rstrip()}\n{lines}\n{text[found.end() :].lstrip()}".strip()
    behind = _BEHIND.search(text)
    end = behind.start() if behind else len(text)
    return f"{text[:end]}\n\nArgs:\n{lines}{text[end + 1 :]}".rstrip()


def _names(code: types.CodeType) -> tuple[str, ...]:
    """The parameters of a function with their stars; much faster than a signature."""
    first, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    end = last + (code.co_flags & inspect.CO_VARARGS > 0)
    names = *code.co_varnames[:first], *(f"*{n}" for n in code.co_varnames[last:end])
    names += code.co_varnames[first:last]
    return (
        (*names, f"**{code.co_varnames[end]}") if code.co_flags & inspect.CO_VARKEYWORDS else names
    )


def complete(fn: Any, name: str) -> str:
    """The whole text of a function, an op or a property, which is public under a name."""
    inner = inspect.unwrap(fn)
    own, base = (getattr(x, "__name__", name) for x in (fn, inner))
    family = (getattr(fn, "__module__", "") or "").rpartition(".")[2]
    row = ""
    for key in (f"{family}.{own}", own, name, base, own.rstrip("_")):
        if row := _ROWS_BY_NAME.get(key, ""):
            break
    summary, _, example = f"\n{row}".partition("\n>>> ")
    text = _clean(fn.__doc__) if own != base else summary.strip()
    text = text or _clean(fn.__doc__)
    if not text and own.endswith("_copy"):
        text = f"`{base}` that copies."
    if isinstance(fn, property):
        names: tuple[str, ...] = ()
    elif isinstance(inner, types.FunctionType) and not hasattr(fn, "__signature__"):
        names = _names(inner.__code__)
    else:
        names = tuple(inspect.signature(fn).parameters)
    seen, arguments = told(text), {}
    for shown in names:
        n = shown.lstrip("*")
        for key in (f"{own}.{n}", f"{base}.{n}", f"{family}.{n}", n):
            if key in ARGUMENTS:
                if n not in seen:
                    arguments[shown] = ARGUMENTS[key]
                break
    if example and ">>> " not in text:
        if own.endswith("_copy"):
            example = example.replace(f".{base}(", f".{own}(")
        text = f"{text}\n\n>>> {example}"
    return _with(text, arguments)


def with_out(text: str, takes: bool) -> str:
    """The text of a function that takes `out=`, if it does, of the same one that does not."""
    return _with(text, {"out": ARGUMENTS["out"]} if takes else {})


def in_place(how: str, fn: Any) -> str:
    """The text of the method `name_`, from that of the function `name`."""
    return f"{how}; returns self.\n\n{fn.__doc__}"


def complete_docstrings(scope: dict[str, Any]) -> None:
    """Let the texts of a namespace's functions and classes explain each argument: as a row above
    does, or a name that they refer to ("Arguments are Conv2d's"), or a base. A class's text waits
    until it is read."""
    own = [
        v for v in scope.values() if str(getattr(v, "__module__", 0)).startswith(scope["__name__"])
    ]
    for value in own:
        if isinstance(value, type) and type(vars(value).get("__doc__")) is str:
            value.__doc__ = _LazyDocstring(value, scope)  # type: ignore[assignment]
        elif isinstance(value, types.FunctionType) and value.__doc__:
            value.__doc__ = _filled(value, value.__doc__, scope)


class _LazyDocstring:
    """The docstring of a class before it is read."""

    def __init__(self, kind: type, scope: dict[str, Any]) -> None:
        self.kind, self.doc, self.scope = kind, kind.__doc__ or "", scope

    def __get__(self, instance: Any, owner: Any) -> str:
        self.kind.__doc__ = self.doc  # what it refers to may refer to it
        self.kind.__doc__ = text = _filled(self.kind, self.doc, self.scope)
        return text


def _place(head: str, order: list[str]) -> int:
    """Where the entry of some arguments stands in a list; that of others last."""
    first = head.partition(",")[0].lstrip("*")
    return order.index(first) if first in order else len(order)


def _filled(value: Any, doc: str, scope: dict[str, Any]) -> str:
    """`doc`, and what rows, names that it refers to, and bases say of further arguments."""
    bases = value.__mro__[:-1] if isinstance(value, type) else ()
    inner = inspect.unwrap(value.__init__ if bases else value)
    code = getattr(inner, "__code__", None)
    if code is None:
        return doc
    text = _clean(doc)
    seen = told(text) if "`" in text or ": " in text else set()
    names = [n for n in _names(code) if n != "self" and n.lstrip("*") not in seen]
    packages = value.__module__.split(".")[1:]
    places = [*(b.__name__ for b in bases or (value,)), *(packages[:-1] or packages)[::-1]]
    found = {}
    for shown in names:
        n = shown.lstrip("*")
        keys = [*(f"{place}.{n}" for place in places), *([] if bases else [n])]
        if said := next((ARGUMENTS[key] for key in keys if key in ARGUMENTS), ""):
            found[shown] = said
    if len(found) < len(names):
        others = [scope[n] for n in _REFERRED.findall(text) if n in scope]
        for other in (*others, *bases[1:]):
            listed = _LIST.search(_clean(other.__doc__))
            for heads, said in _ENTRY.findall(listed[0]) if listed else ():
                found |= {n: said for n in names if n in heads.split(", ") and n not in found}
    alike: dict[str, list[str]] = {}  # names of one text stand together
    for shown in names:
        alike.setdefault(found.get(shown, ""), []).append(shown)
    more = {", ".join(own): said for said, own in alike.items() if said}
    listed = _LIST.search(text)
    if listed and more:  # all in the order of the signature
        told_of = dict(_ENTRY.findall(listed[0]))
        whole = "Args:\n" + "".join(f"    {head}: {said}\n" for head, said in told_of.items())
        if whole.strip() == listed[0].strip():
            order = [n.lstrip("*") for n in _names(code)]
            more = dict(sorted((told_of | more).items(), key=lambda pair: _place(pair[0], order)))
            text = text[: listed.start()] + "Args:\n" + text[listed.end() :]
    text = _with(text, more)
    raises = [r for b in bases if b.__name__ in _BASES for r in _RAISES.findall(_clean(b.__doc__))]
    if raises and "Raises:" not in text:
        text = text.replace("\n\n>>> ", f"\n\n{raises[-1]}\n>>> ", 1)
    return text
