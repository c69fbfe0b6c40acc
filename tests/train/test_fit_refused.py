"""What Model refuses: each error says what was seen, what was expected, and the nearest fix."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refused import check_refused, literal

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import data, nn, optim, train
from pyframe.data import Dataset, TensorDataset
from pyframe.optim import lr_scheduler

X, Y, W = pf.ones(8, 2), pf.tensor([0, 1, 2, 3, 0, 1, 2, 3]), pf.ones(8)
ONE_HOT = pf.eye(4)[Y]
BOTH = {"kind": nn.CrossEntropyLoss(), "more": nn.MSELoss()}


def net(outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, outputs))


def model(loss: Any = None, part: Any = None, **options: Any) -> pf.Model:
    whole = part or net()
    optimizer = options.pop("optimizer", None) or optim.SGD(whole.parameters(), lr=0.1)
    loss = nn.CrossEntropyLoss() if loss is None else loss
    return options.pop("of", pf.Model)(whole, loss, optimizer, **options)


def fit(data: Any = (X, Y), by: pf.Model | None = None, **options: Any) -> Any:
    return (by or model()).fit(data, **{"verbose": 0, "device": None, **options})


class Sum(nn.Module):
    """A network of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 4)

    def forward(self, image: pf.Tensor, mask: pf.Tensor) -> pf.Tensor:
        return self.linear(image) + mask


class Rest(nn.Linear):
    """One whose outputs lose their dim of 1."""

    def forward(self, input: pf.Tensor) -> pf.Tensor:
        return super().forward(input).squeeze(1)


class Words(nn.Linear):
    """Classes in the last dim, as of sequences."""

    def forward(self, input: pf.Tensor) -> pf.Tensor:
        return super().forward(input[:, None, :]).expand(-1, 5, -1)


class Both(nn.Linear):
    """Two outputs, by name."""

    def forward(self, input: pf.Tensor) -> dict[str, pf.Tensor]:  # type: ignore[override]
        y = super().forward(input)
        return {"kind": y, "more": y[:, :1]}


class Samples(Dataset[Any]):
    """Eight samples that are what `of` makes of a number."""

    def __init__(self, of: Callable[[int], Any]) -> None:
        self.of = of

    def __getitem__(self, i: int) -> Any:
        return self.of(i)

    def __len__(self) -> int:
        return 8


class NoLength(Dataset[Any]):
    def __getitem__(self, i: int) -> Any:
        return X[i], Y[i]


class Forgets(nn.Module):
    def forward(self, x: pf.Tensor) -> None:
        x * 2


TUPLES = Samples(lambda i: (X[i], Y[i], i))
DICTS = Samples(lambda i: {"x": X[i], "y": Y[i]})
PAIRS = TensorDataset(X, Y)


def table(**columns: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": np.ones(8), "b": np.arange(8), **columns})


def pictures(*sizes: tuple[int, int], mode: str = "RGB") -> Any:
    image = pytest.importorskip("PIL.Image")
    return [image.new(mode, size) for size in sizes]


def by(loss: Any, outputs: int = 1, part: Any = None) -> pf.Model:
    return model(loss, part or net(outputs))


def unjudged() -> pf.Model:
    part = net()
    return sub(pf.Model, training_step=twice)(part, optimizer=optim.SGD(part.parameters(), lr=0.1))


def sub(base: type, **members: Any) -> type:
    return type("Sub", (base,), members)


def twice(self: pf.Model, batch: Any) -> Any:
    """A training_step that goes backward itself and returns a 'loss' to minimize, too."""
    loss = F.cross_entropy(self.net(batch[0]), batch[1])
    loss.backward()
    return {"loss": loss}


def torch() -> Any:
    return pytest.importorskip("torch")


def once() -> Iterator[Any]:
    yield X, Y


DATA = r"""
fit((X, Y[:3])) -> ValueError: fit: inputs has 8 samples, targets 3; expected as many
fit([({'image': X}, Y[:3])]) -> ValueError: fit: inputs['image'] has 8 samples, targets 3
fit([(X, pf.tensor(1))]) -> ValueError: fit: targets has no first dim … Tensor of shape []
fit([(X, Y, Y)]) -> ValueError: weights, floats of shape [8], … int64 … ((a, b), y)
fit([(x, int(y)) for x, y in zip(X, Y)]) -> ValueError: makes batches: data.DataLoader(sam
fit([X]) -> ValueError: fit: expected (x, y), got 1 tensor
fit((X, ['a'] * 8)) -> ValueError: fit: targets: expected numbers, got text 'a' … np.unique
fit((X, np.array(['a'] * 8))) -> ValueError: fit: targets: … texts (<U1) … np.unique
fit((X, np.array([[1], None] * 4, object))) -> TypeError: fit: targets: … Python objects … pad them
fit(([[1], [1, 2]] * 4, Y)) -> ValueError: fit: inputs: got list of 8: … of equal length
fit(table()) -> TypeError: DataFrame of shape [8, 2]: the targets … (table[columns], table
fit((table(c=['x'] * 8), Y)) ->
    TypeError: fit: inputs: expected a DataFrame of numbers, got the column 'c' … get_dummies
fit((table(c=['x'] * 8, d=[None] * 8), Y)) -> TypeError: columns 'c' … , 'd' (object)
fit((X, table(c=[1, None] * 4)['c'].astype('Int64'))) ->
    ValueError: fit: targets: 4 of the 8 rows of the Series have missing values … .fillna(…)
fit((X, table(c=['x'] * 8)['c'])) -> TypeError: fit: targets: … Series … the column 'c'
fit((pictures((3, 3)) * 7 + pictures((3, 4)), Y)) ->
    ValueError: images of one size and mode, got RGB (3, 3) first and RGB (3, 4) as number 7 …
    ToTensor()
fit((pictures(*[(3, 3)] * 8, mode='P'), Y)) -> TypeError: mode P … .convert('RGB')
fit((pictures((3, 3))[0], Y)) -> TypeError: fit: inputs: … a list of images, got one image
fit(Samples(lambda i: (pictures((3, 3))[0], i))) -> TypeError: vision.transforms.ToTensor()
fit(once) -> TypeError: fit: expected a DataLoader … got function once; call it: once()
fit(once(), epochs=2) -> ValueError: gave no batch in epoch 2; what can be iterated over only once
fit(validation_data=TensorDataset(X[:0], Y[:0])) -> ValueError: empty: TensorDataset has no samples
model().evaluate(iter([])) -> ValueError: evaluate: the data gave no batch
fit((X[:0], Y[:0])) -> ValueError: fit: the data is empty
fit(DataLoader([X[0]])) -> ValueError: fit: expected batches of (x, y), got Tensor
"""  # what is trained on
FIT = r"""
fit(X) -> TypeError: fit: … DataLoader … (x, y) … one Tensor of shape [8, 2]: the targets
fit((X, Y, Y, Y)) -> ValueError: fit: expected (x, y), got 4 tensors
fit('train.csv') -> TypeError: fit: expected a DataLoader … got 'train.csv'
fit({'x': X, 'y': Y}) -> TypeError: fit: expected a DataLoader … the keys ['x', 'y']
fit(TUPLES) -> ValueError: fit: expected batches of (x, y), got 3 parts; let the Dataset
fit(DICTS) -> ValueError: fit: expected batches of (x, y), got dict … ['x', 'y']; let the D
fit(NoLength()) -> TypeError: NoLength has no __len__
fit(DataLoader(PAIRS, 16, drop_last=True)) -> ValueError: 16 with drop_last=True
fit((X, Y + 4)) -> IndexError: cross_entropy: target … 0 to 3, got 7 … 4 classes
fit((X.to(pf.uint8), Y)) -> RuntimeError: linear: … uint8 … float32 … convert the input
fit(validation_data=X) -> TypeError: fit: validation_data: … the targets are missing
fit(epochs=-1) -> ValueError: fit: epochs must be at least 0, got -1
fit(epochs=1.5) -> TypeError: fit: epochs must be an int, got 1.5
fit(PAIRS, epochs=PAIRS) -> TypeError: fit: epochs … int, got TensorDataset; … validation_d
fit(epoch=3) -> TypeError: fit: unexpected option 'epoch'; expected batch_size
fit(batch_size='8') -> ValueError: fit: batch_size … positive … batch_size='8'
fit(read_every=0) -> ValueError: fit: read_every must be at least 1, got 0
fit(verbose='no') -> TypeError: fit: verbose must be 0, 1 or 2, got 'no'
fit(shuffle='no') -> TypeError: fit: shuffle must be True or False … got 'no'
fit(callbacks=print) -> TypeError: fit: callbacks must be a list, got … print
fit(callbacks=Callback()) -> TypeError: fit: callbacks must be a list, got Callback
fit(callbacks=[print]) -> TypeError: fit: expected instances of Callback, … print; write
fit(callbacks=[Callback]) -> TypeError: fit: … got … Callback'>; make one: Callback
fit(patience=0) -> ValueError: fit: patience must be at least 1, got 0
fit(accumulate=0) -> ValueError: fit: accumulate must be at least 1, got 0
fit(clip_norm=-1) -> ValueError: fit: clip_norm must be above 0, got -1; None
fit(clip_value=0.0) -> ValueError: fit: clip_value must be above 0, got 0.0
fit(monitor='los', patience=1) -> ValueError: did you mean 'loss'?
fit(monitor='val_loss', patience=1) -> ValueError: no 'val_loss' … validation_data
fit(monitor=3, patience=1) -> TypeError: monitor must be a name such as 'val_loss', got 3
fit(monitor='confusion_matrix', patience=1, by=model(metrics=['confusion_matrix'])) ->
    ValueError: 'confusion_matrix' is no single number, … ; expected one of 'loss', 'lr'
fit(mode='up', patience=1) -> ValueError: mode must be 'auto', 'min' or 'max', got 'up'
fit(mixed_precision='float64') -> ValueError: mixed_precision … 'bfloat16', got 'float64'
fit(max_epochs=3) -> TypeError: unexpected option 'max_epochs'; … ; here it is epochs=
fit(validation_split=1) -> ValueError: fit: validation_split is a share … 0.2, got 1
fit(validation_split=0.9) -> ValueError: =0.9 of 8 samples leaves 0 to train on and 8 to
fit(validation_split=0.5, validation_data=(X, Y)) -> ValueError: fit: give … not both
fit([(X, Y)], validation_split=0.5) -> ValueError: fit: validation_split splits (x, y) in
fit(class_weights=[1, 1]) -> TypeError: 'class_weights'; … ; did you mean 'class_weight'?
fit(callbacks=[sub(pf.Callback, on_epoch_end=print)()]) -> TypeError: ; here it is on_epoch
fit(callbacks=[sub(pf.Callback, on_epoch=lambda self, epoch, logs: None)()]) ->
    TypeError: fit: Sub.on_epoch(epoch, logs): it is called with (model, epoch, logs)
fit(callbacks=[pf.train.LambdaCallback(on_step=lambda step: None)]) ->
    TypeError: fit: LambdaCallback.on_step(step): it is called with (model, step, logs)
fit(callbacks=[sub(pf.Callback, on_gradient=print)()]) -> TypeError: did you mean 'on_gradients'?
fit(resume='no/last.pt') -> FileNotFoundError: 'no/last.pt'; give one that there is, or a folder
fit(resume=3) -> TypeError: fit: resume must be … got 3
"""  # what fit's options are
NETWORKS = r"""
fit((X[:, :1], Y)) -> RuntimeError: linear: … 1 features … expects 2
fit(((X, X), Y)) -> TypeError: Sequential: got inputs that are 2 in a row, … takes one
fit(({'x': X}, Y)) -> TypeError: Sequential: … the keys ['x'] … one input by position
fit((X, Y), model(part=Sum())) -> TypeError: mask
fit(((X,), Y), model(part=Sum())) -> TypeError: Sum: … 1 in a row, … takes 2
fit(({'image': X, 'msk': W}, Y), model(part=Sum())) -> TypeError: ['mask'] and does not know ['msk']
model().predict((X, Y)) -> TypeError: alone, got 2 tensors of the shapes [8, 2], [8]; of (x, y) give
model().predict(X[:0]) -> ValueError: expected a batch of samples
model(part=Sum()).predict({'image': X, 'mask': X[:3]}) -> ValueError: 8 samples, inputs['mask'] 3
fit(by=model(lambda o, t: None)) -> TypeError: the loss … one number, got None … `return`
fit(by=model(lambda o, t: 0.5)) -> TypeError: fit: the loss … a tensor … 0.5 … .item()
fit(by=model(lambda o, t: o.argmax(1).sum())) ->
    RuntimeError: fit: the loss does not require grad … argmax
fit(by=model(part=net().requires_grad_(False))) -> RuntimeError: frozen … requires_grad_()
fit(by=model(nn.CrossEntropyLoss(reduction='none'))) ->
    TypeError: the loss must give one number, got Tensor of shape [8] … .mean()
fit(by=model(metrics=[lambda o, t: o])) ->
    TypeError: the metric '<lambda>' must give one number, got Tensor of shape [8, 4] … .mean()
fit(by=model(part=nn.Sequential(nn.Linear(2, 2), Forgets()))) ->
    TypeError: cross_entropy(): argument 'input' … NoneType … without `return`
fit((X, pf.eye(4)[Y]), model(metrics=['accuracy'])) -> ValueError: one-hot … .argmax(1)
fit((X[:4], pf.eye(4)), model(metrics=['accuracy'])) ->
    ValueError: accuracy: … outputs [4, 4] and targets [4, 4] … one-hot
fit(by=model(optimizer=optim.Adam(net().parameters()))) -> ValueError: optim.Adam(net.parameters())
"""  # inputs, and what networks, losses and metrics give
LABELS = r"""
fit((X, ONE_HOT.long())) -> ValueError: argmax(1), or targets.float()
fit((X, Y.float())) -> ValueError: CrossEntropyLoss: … targets float32 [8] … targets.long()
fit((X, Y > 1)) -> ValueError: CrossEntropyLoss: … targets bool [8] … targets.long()
fit((X, Y[:, None])) -> ValueError: CrossEntropyLoss: … [8, 4] … [8, 1] … targets.squeeze(1)
fit((X, ONE_HOT[:, :3])) -> ValueError: targets float32 [8, 3]; … floats [8, 4]
fit((X, Y), by(nn.CrossEntropyLoss())) -> ValueError: two outputs, or take BCEWithLogitsLoss
fit((X, pf.zeros(8, 5).long()), by(None, part=Words(2, 4))) ->
    ValueError: outputs float32 [8, 5, 4] … the classes lie in dim 1 … movedim(-1, 1)
fit((X, Y), by(F.nll_loss, 1)) -> ValueError: nll_loss: got outputs float32 [8, 1]
fit((X, ONE_HOT), by(nn.NLLLoss(), 4)) -> ValueError: NLLLoss: … int64 [8]; … argmax(1)
fit((X, Y.clamp(max=1)), by(nn.BCEWithLogitsLoss())) ->
    ValueError: int64 [8]; expected a float from 0 to 1 for each … take targets.unsqueeze(-1), …
    .float()
fit((X, Y.clamp(max=1)[:, None]), by(nn.BCELoss())) -> ValueError: take targets.float()
fit((X, Y), by(nn.BCEWithLogitsLoss(), 4)) -> ValueError: F.one_hot(targets, 4).float()
fit((X, W), by(nn.MSELoss())) -> ValueError: would broadcast to [8, 8]
fit((X, W[:, None]), by(F.l1_loss, part=Rest(2, 1))) -> ValueError: 8]); take targets.squeeze(-1)
fit((X, Y), by(nn.MSELoss(), 4)) -> ValueError: MSELoss: … class numbers … CrossEntropyL
fit((X, Y), by(nn.KLDivLoss(reduction='batchmean'), 4)) -> ValueError: class numbers go with NLLLoss
fit((X, Y, W[:3])) -> ValueError: as many sample weights as samples, 8, got shape [3]
fit((X, Y), sample_weight=-W) -> ValueError: not negative, got -1.0 for sample 0
fit((X, Y), sample_weight=W / 0) -> ValueError: finite and not negative, got inf
fit((X, Y), sample_weight=W * 0) -> ValueError: all sample weights are 0
fit((X, Y, W), sample_weight=W) -> ValueError: sample_weight= and weights as third part
fit([(X, Y)], sample_weight=W) -> ValueError: sample_weight goes with (x, y) in memory
fit((X, Y, W), model(lambda output, target: output.mean())) ->
    TypeError: number for each sample, and <lambda>(output, target) has no reduction; …
    reduction='mean'
fit((X, ONE_HOT), class_weight=[1, 1, 1, 2]) -> ValueError: targets of shape [8, 4]; sample_weight
fit(class_weight={0: 1.0, 3: 2.0}) -> ValueError: class_weight … the keys [0, 3]
fit(class_weight=[1, 2, 3]) -> ValueError: class_weight has 3 weights … 4 classes
fit(class_weight=3) -> TypeError: class_weight must be a dict … got 3
fit(class_weight=[1, 1, 1, -2]) -> ValueError: class_weight has -2.0 for class 3
"""  # and weights of samples and classes
MODEL = r"""
pf.Model(nn.Linear) -> TypeError: net … nn.Module, got the class Linear; make one
pf.Model([nn.ReLU()]) -> TypeError: net … nn.Module, got list … nn.Sequential(*layers)
pf.Model(pf.compile(net())) -> TypeError: net … got CompiledFunction; give the module itself
model(nn.CrossEntropyLoss) -> TypeError: CrossEntropyLoss'>; make one: CrossEntropyLoss(…)
model(lambda output: output) -> TypeError: Model: the loss … (output, target) … (output)
pf.Model(net(), optim.SGD([X], 0.1), nn.MSELoss()) -> TypeError: Model(net, loss, optimizer)
pf.Model(net(), nn.MSELoss(), optim.SGD) -> TypeError: Model: optimizer … SGD … for example
model(metrics='accuracy') -> TypeError: Model: metrics … got 'accuracy' … ['accuracy']
model(metrics=['acc']) -> ValueError: or a function of (output, target); did you mean 'accur
model(metrics=[3]) -> TypeError: a metric must be a name such as 'accuracy', … got 3
model(metrics=[nn.L1Loss]) -> TypeError: a metric … the class L1Loss; make one: L1Loss(…)
model(metrics=[lambda o: o]) -> TypeError: Model: the metric … (output, target) … (o)
model(metrics=['accuracy', 'accuracy']) -> ValueError: two metrics are called 'accuracy'
sub(pf.Model, train_step=print) -> TypeError: Model never calls train_step; here it is training_step
sub(pf.Model, configure_optimizers=print) -> TypeError: Model(net, loss, optimizer, lr_sche
sub(pf.Model, training_step=lambda self, batch, index: None) -> TypeError: training_step(self
fit(by=model(of=sub(pf.Model, training_step=twice))) -> RuntimeError: and optimizer.step()
fit(by=unjudged(), validation_data=(X, Y)) -> RuntimeError: or a validation_step of the model's own
unjudged().evaluate((X, Y)) -> RuntimeError: evaluate needs a loss, metrics or a validatio
model().parameters() -> AttributeError: no attribute 'parameters'; it is model.net.paramete
model().compile -> AttributeError: 'Model' object has no attribute 'compile'; Model(net, lo
model({'a': nn.MSELoss(), 'b': 'mse'}) -> TypeError: loss … 'mse'
fit((X, {'a': Y, 'b': Y}), model({'a': nn.MSELoss(), 'b': nn.MSELoss()})) ->
    ValueError: the losses are of ['a', 'b'], and the net's outputs lack ['a', 'b']
fit((X, {'kind': Y, 'more': Y[:, None]}), model(BOTH, Both(2, 4))) ->
    ValueError: MSELoss of output 'more': … targets int64 [8, 1]; … targets.float()
fit((X, {'kind': Y}), model(BOTH, Both(2, 4))) -> ValueError: the targets lack ['more']
fit((X, {'kind': Y, 'more': W[:, None]}), model(BOTH, Both(2, 4), metrics=['accuracy'])) ->
    TypeError: got dict … all outputs, ['kind', 'more']; … metrics={'kind': 'accuracy'}
pf.train.ModelCheckpoint('best.h5') -> ValueError: a folder, … or one .pt or .safetens
pf.train.ModelCheckpoint('epoch-{epoch:02d}.pt') -> ValueError: whose files get names
model(torch().nn.CrossEntropyLoss()) -> TypeError: which computes with PyTorch's tensors
pf.Model(torch().nn.Linear(2, 3)) -> TypeError: net is torch.nn.modules.linear.Linear
model(optimizer=torch().optim.SGD([torch().ones(2)])) -> TypeError: optimizer is torch.opt
model(metrics=[torch().nn.L1Loss()]) -> TypeError: a metric is torch.nn.modules.loss.L1L
fit((X, Y), model(part=Both(2, 4))) -> TypeError: ['kind', 'more']: give a dict or list of losses
fit(by=pf.Model(net())) -> RuntimeError: fit needs a loss: Model(net, loss=…)
fit(by=pf.Model(net(), nn.NLLLoss())) -> RuntimeError: fit needs an optimizer
model('mse') -> TypeError: must be a function of (output, target), got 'mse'; for example nn.Cross
model([]) -> ValueError: Model: loss is an empty list
model(optimizer={'a': optim.SGD}) -> TypeError: optimizer … SGD
model(lr_scheduler=lr_scheduler.ReduceLROnPlateau(optim.SGD([X], 0.1)), lr_interval='step') ->
    ValueError: ReduceLROnPlateau goes by a number of an epoch
model(lr_scheduler=lr_scheduler.StepLR(optim.SGD([X], 0.1), 3)) ->
    ValueError: StepLR is of another optimizer than the model's
model(loss_weights=[1, 2]) -> ValueError: loss_weights: expected several losses
"""  # what a Model is made of
OTHERS = r"""
model().evaluate(X) -> TypeError: evaluate: … the targets are missing
model().evaluate(PAIRS, batch_size=0) -> ValueError: evaluate: batch_size … batch_size=0
model().evaluate(PAIRS, epochs=3) -> TypeError: evaluate: unexpected option 'epochs'
pf.Model(net(), lambda o, t: None).evaluate(PAIRS) -> TypeError: the loss … None … `return`
model().predict(None) -> RuntimeError: predict: got None
model().predict(X, batch_size=0) -> ValueError: predict: batch_size … batch_size=0
model().predict(DataLoader(PAIRS, 16, drop_last=True)) -> ValueError: predict: … drop_last
pf.Model(Forgets()).predict(X) -> TypeError: predict: … got None … `return` … Forgets
model().summary(2) -> TypeError: summary: input_size … (1, 28, 28), got 2
model().save(None) -> TypeError: Model.save: expected a path … got None
model().load(3) -> TypeError: Model.load: expected a path … got 3
"""  # evaluate, predict, summary, save, load
ROWS = [row for t in (DATA, FIT, NETWORKS, LABELS, MODEL, OTHERS) for row in literal(t)]

NAMES = {"lr_scheduler": lr_scheduler, **vars(data), **vars(train), **globals()}


@pytest.mark.parametrize(("call", "text"), ROWS, ids=[call for call, _ in ROWS])
def test_a_wrong_call_is_explained(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: NAMES)


def test_a_class_out_of_range_is_named(device: str) -> None:
    """With the number of the classes, and where it is in data that lies in tensors."""
    y = Y.clone()
    y[5] = 12
    words = "cross_entropy: target out of range: expected 0 to 3.* 4 classes.*"
    for rows, more in (
        ((X, y), "1 of the 8 targets hold it, the first is number 5"),
        ([(X, Y), (X, y)], ""),
    ):
        for whole in (fit, lambda rows, **o: model().evaluate(rows, **o)):
            with pytest.raises(IndexError, match=words + more) as seen:
                whole(rows, device=device)
            assert "got 12" in str(seen.value)


class Shrinking:
    """Data that is used up."""

    def __init__(self) -> None:
        self.left = 6

    def __iter__(self) -> Iterator[Any]:
        for _ in range(min(self.left, 4)):
            self.left -= 1
            yield X, Y


def test_no_metrics_and_no_callbacks_may_be_none() -> None:
    assert list(fit(by=model(metrics=None), callbacks=None)) == ["loss", "lr"]


def test_data_that_ends_early() -> None:
    words = "the data gave 2 batches in epoch 2, and 4 in the first"
    with pytest.warns(UserWarning, match=words) as seen:
        fit(Shrinking(), epochs=2)
    assert len(seen) == 1


def test_warnings_are_told_each_time_and_where_fit_was_called() -> None:
    """Python tells the same text at one place only once: a second fit would be silent."""
    for _ in range(2):
        with warnings.catch_warnings(record=True, action="default") as seen:
            fit((X / 0, Y))
        assert [(w.category, w.filename) for w in seen] == [(RuntimeWarning, __file__)]


def test_a_file_of_another_architecture(tmp_path: Path) -> None:
    """All that differs is listed, and nothing is loaded."""
    layers = nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 5), nn.Linear(5, 4)
    other, mine = model(part=nn.Sequential(*layers)), model()
    weights, checkpoint = tmp_path / "other.safetensors", tmp_path / "other.pt"
    other.save(weights)
    other.save_checkpoint(checkpoint)
    before = [p.tolist() for p in mine.net.parameters()]
    words = r"unexpected: 3\.\w+, 3\.\w+; of another shape: 2\.weight \[5, 16\], which is \[4, 16\]"
    for load in (lambda: mine.load(weights), lambda: fit(by=mine, resume=checkpoint)):
        with pytest.raises(RuntimeError, match=words):
            load()
        assert [p.tolist() for p in mine.net.parameters()] == before


def test_a_net_on_two_devices(gpu: str) -> None:
    parts = net()
    parts[0].to(gpu)
    for call in (fit, lambda *a, **o: model(part=parts).evaluate((X, Y))):
        with pytest.raises(ValueError, match=r"devices, 0\.weight on gpu, 2\.weight on cpu"):
            call((X, Y), model(part=parts))
    fit((X, Y), model(part=parts), device="cpu")  # moves all of it
